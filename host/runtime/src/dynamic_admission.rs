//! Dynamic admission: webhooks and policies of Kubernetes that change and refuse the writes of clients and guests.
//!
//! A write that one of them matches is decided here, without validation. Mutating webhooks, policies and validating webhooks
//! see the result in this order, and the store stores what they leave of it, if the resource did not change meanwhile.
//! Otherwise all of it happens again. So what was seen is what is stored.
//!
//! Deliberately absent: webhooks at a `service`, which a host cannot resolve; mutating policies; an authorizer; kinds in other
//! stores, whose servers have their own; kinds that the host itself reads, as definitions; and writes of the host's own
//! controllers.
//!
//! Source: `pkg/admission/plugin/webhook` and `pkg/admission/plugin/policy` of `k8s.io/apiserver`.

mod constraints;
mod enforcement;
mod expressions;
mod invocation;
mod policy;
mod review;
mod reviewed_write;
mod webhook;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures_util::{FutureExt, StreamExt, stream};
use homeostat_store::semantics::{self, Decision, Validation, WritePlan};
use homeostat_store::{
    Key, Kind, Precondition, Query, Request, Resource, ResourcePages, Revision, Store, Target, Write, WriteResponse,
};
use serde_json::Value;

use self::enforcement::enforce;
use self::invocation::{Invoker, Mutation};
use self::policy::{Binding, ValidatingPolicy};
use self::reviewed_write::ReviewedWrite;
use self::webhook::{AdmissionWebhook, webhooks};
use crate::error::found;
use crate::remembered::Remembered;
use crate::{Error, Kinds, Requester, Stores, planning};

const GROUP: &str = "admissionregistration.k8s.io";

/// Most configurations of a kind that act, and the bytes of their documents.
const CONFIGURATIONS_MAX: usize = 1000;
const CONFIGURATION_BYTES_MAX: u64 = 8 << 20;

/// How often mutating webhooks are called, the second time those that ask for it.
const ROUNDS: usize = 2;

/// How many validating webhooks are called for a write at the same time.
const CALLS_MAX: usize = 16;

/// What webhooks make of a write.
pub(crate) enum Review {
    /// No webhook matches: the write is made as it is.
    Unmatched,
    /// The webhooks admit the write, which changes nothing.
    Unchanged(WriteResponse),
    /// The webhooks admit this write in place of the requested one. The resource must not have changed meanwhile.
    Admitted {
        /// The write.
        request: Request,
        /// The dropped unknown fields of the requested write.
        unknown_fields: Vec<String>,
    },
}

/// The webhooks of all configurations, as they were read last.
pub(crate) struct DynamicAdmission {
    stores: Stores,
    known: Remembered<Option<Arc<Configurations>>>,
}

#[derive(Default)]
struct Configurations {
    mutating: Vec<Arc<AdmissionWebhook>>,
    validating: Vec<Arc<AdmissionWebhook>>,
    policies: Vec<Arc<ValidatingPolicy>>,
}

/// Where a webhook, a policy or a binding comes from.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Origin {
    key: Key,
    /// The revision at which it was read.
    revision: Revision,
}

impl Origin {
    fn of(resource: &Resource) -> Self {
        Self { key: resource.key().clone(), revision: resource.revision() }
    }
}

impl Configurations {
    /// Reads all of them from the store.
    async fn read(store: &dyn Store) -> Result<Self, Error> {
        let [mutating, validating, policies, bindings] = configuration_kinds();
        let mut of_policies: BTreeMap<String, Vec<Binding>> = BTreeMap::new();
        for binding in all_of(store, bindings).await? {
            if let Some((policy, binding)) = Binding::new(&binding) {
                of_policies.entry(policy).or_default().push(binding);
            }
        }
        let mut all = Vec::new();
        for policy in all_of(store, policies).await? {
            let bindings = of_policies.remove(policy.key().name());
            all.extend(bindings.and_then(|bindings| ValidatingPolicy::new(&policy, bindings)).map(Arc::new));
        }
        let of = |configurations: Vec<Arc<Resource>>| {
            configurations.iter().flat_map(|configuration| webhooks(configuration)).map(Arc::new).collect()
        };
        let (mutating, validating) = (of(all_of(store, mutating).await?), of(all_of(store, validating).await?));
        Ok(Self { mutating, validating, policies: all })
    }

    /// Returns those that may match a write.
    fn matching(&self, write: &ReviewedWrite) -> Self {
        let those = |all: &[Arc<AdmissionWebhook>]| {
            all.iter().filter(|webhook| webhook.constraints.may_match(write)).map(Arc::clone).collect()
        };
        let policies = self.policies.iter().filter(|policy| policy.constraints.may_match(write));
        Self {
            mutating: those(&self.mutating),
            validating: those(&self.validating),
            policies: policies.map(Arc::clone).collect(),
        }
    }

    fn is_empty(&self) -> bool {
        let Self { mutating, validating, policies } = self;
        mutating.is_empty() && validating.is_empty() && policies.is_empty()
    }

    fn webhooks(&self) -> impl Iterator<Item = &Arc<AdmissionWebhook>> {
        self.mutating.iter().chain(&self.validating)
    }

    fn origins(&self) -> BTreeSet<&Origin> {
        let webhooks = self.webhooks().map(|webhook| &webhook.origin);
        let policies = self.policies.iter().map(|policy| &policy.origin);
        let bindings = self.policies.iter().flat_map(|policy| policy.bindings.iter().map(|binding| &binding.origin));
        webhooks.chain(policies).chain(bindings).collect()
    }

    /// Returns whether the configurations are stored as they were read. The garbage collector deletes them, too.
    async fn are_current(&self, store: &dyn Store) -> Result<bool, Error> {
        for Origin { key, revision } in self.origins() {
            if found(store.get(key).await)?.is_none_or(|stored| stored.revision() != *revision) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl DynamicAdmission {
    pub(crate) fn new(stores: Stores) -> Self {
        Self { stores, known: Remembered::default() }
    }

    /// Forgets the configurations, after a write of one.
    pub(crate) fn forget(&self) {
        self.known.forget();
    }

    /// Returns whether the host has configurations of its own.
    fn acts(&self, kinds: &Kinds) -> bool {
        let kind = Kind::new(GROUP, "v1", "MutatingWebhookConfiguration");
        kinds.has_built_in_schema(&kind) && !self.stores.is_far(&kind)
    }

    /// Reads the configurations, unless they are remembered.
    async fn configurations(&self, store: &dyn Store) -> Result<Arc<Configurations>, Error> {
        let writes = match self.known.find(Clone::clone) {
            Ok(known) => return Ok(known),
            Err(writes) => writes,
        };
        let read = Arc::new(Configurations::read(store).await?);
        self.known.add(writes, |known| *known = Some(Arc::clone(&read)));
        Ok(read)
    }

    /// Returns the webhooks that may match a write.
    async fn of(&self, store: &dyn Store, write: &ReviewedWrite) -> Result<Configurations, Error> {
        let matching = self.configurations(store).await?.matching(write);
        if matching.are_current(store).await? {
            return Ok(matching);
        }
        self.forget();
        Ok(self.configurations(store).await?.matching(write))
    }

    /// Calls the webhooks that match a write.
    ///
    /// *Cancel safety*: webhooks may have been called for a write that is not made.
    ///
    /// # Errors
    /// [`Error::Rejected`] for a write that a webhook refuses, or for which it cannot be called; those of the write.
    pub(crate) async fn review(
        &self,
        store: &dyn Store,
        kinds: &Kinds,
        request: &Request,
        requester: &Requester,
    ) -> Result<Review, Error> {
        if !self.acts(kinds) || request.is_move || request.is_planned {
            return Ok(Review::Unmatched);
        }
        let Ok(target) = request.write.target() else { return Ok(Review::Unmatched) };
        // So a configuration that refuses everything can be deleted.
        if is_configuration(&target.kind) || self.configurations(store).await?.is_empty() {
            return Ok(Review::Unmatched);
        }
        let info = kinds.of(&target.kind).filter(|_| kinds.defined_in(&target.kind).is_none());
        let (Some(info), Some(schemas)) = (info, store.schemas()) else { return Ok(Review::Unmatched) };
        let mut write = ReviewedWrite::new(request, &target, &info, requester.user());
        let matching = self.of(store, &write).await?;
        if matching.is_empty() {
            return Ok(Review::Unmatched);
        }
        let current = match &target.name {
            Some(name) => found(store.get_live(&key_of(&target, name)).await)?,
            None => None,
        };
        let namespace = namespace_of(store, &matching, &write).await?;
        let invoker = Invoker { kinds, namespace, requester };
        if let Write::Delete { .. } = &request.write {
            let Some(current) = current else { return Ok(Review::Unmatched) };
            return review_deletion(store, &invoker, &matching, write, request, &current).await;
        }
        let schemas = if info.converts() { schemas.in_version(&target.kind) } else { schemas.clone() };
        let draft = planning::plan(schemas.clone(), request.clone(), current, Validation::Deferred).await?;
        if draft.previous.is_none() {
            write.create();
        }
        write.old_object = draft.previous.as_ref().map(|previous| in_version(previous.document(), &target.kind));
        let object = mutate(&invoker, &matching.mutating, &mut write, &draft).await?;
        let WritePlan { decision, previous, unknown_fields, .. } =
            planning::plan_draft(schemas, request, draft, object).await?;
        let mut object = in_version(decision.resource().document(), &target.kind);
        if previous.is_none() {
            set(&mut object, "resourceVersion", None);
        }
        write.object = Some(object);
        enforce(store, &invoker, &matching.policies, &write).await?;
        validate(&invoker, &matching.validating, &write).await?;
        Ok(match decision {
            Decision::Unchanged(resource) => {
                Review::Unchanged(WriteResponse { resource, change: None, unknown_fields })
            }
            Decision::Put(resource) | Decision::Remove(resource) => {
                let write = planned(&resource, previous.as_deref());
                Review::Admitted { request: planning::planned(request, write), unknown_fields }
            }
        })
    }
}

/// Returns whether a kind is one of the settings of admission.
pub(crate) fn is_configuration(kind: &Kind) -> bool {
    kind.group == GROUP
}

/// Returns the kinds of configurations: of webhooks that mutate and that validate, policies, and their bindings.
fn configuration_kinds() -> [Kind; 4] {
    let names = [
        "MutatingWebhookConfiguration",
        "ValidatingWebhookConfiguration",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
    ];
    names.map(|name| Kind::new(GROUP, "v1", name))
}

/// Returns all resources of a kind, ordered by their names.
async fn all_of(store: &dyn Store, kind: Kind) -> Result<Vec<Arc<Resource>>, Error> {
    let mut pages = ResourcePages::new(store, Query::all(kind.clone()));
    let (mut all, mut count, mut bytes) = (Vec::new(), 0, 0);
    while let Some(page) = pages.next_page().await? {
        count += page.len();
        bytes += page.iter().map(|configuration| configuration.bytes()).sum::<u64>();
        if count > CONFIGURATIONS_MAX || bytes > CONFIGURATION_BYTES_MAX {
            let reason = format!(
                "there are more than {CONFIGURATIONS_MAX} resources or {} MiB of the kind {kind}, and each write reads them: \
                 delete some",
                CONFIGURATION_BYTES_MAX >> 20
            );
            return Err(Error::Forbidden(reason));
        }
        all.extend(page.iter().cloned());
    }
    Ok(all)
}

fn key_of(target: &Target, name: &str) -> Key {
    Key::new(target.kind.clone(), &target.namespace, name)
}

fn in_version(document: &Value, kind: &Kind) -> Value {
    let mut document = document.clone();
    document["apiVersion"] = kind.api_version().into();
    document
}

/// Returns the namespace of a written resource, if a webhook selects by it.
async fn namespace_of(
    store: &dyn Store,
    matching: &Configurations,
    write: &ReviewedWrite,
) -> Result<Option<Arc<Resource>>, Error> {
    let selects = |webhook: &Arc<AdmissionWebhook>| !webhook.constraints.namespaces.is_unconditional();
    let is_asked = matching.webhooks().any(selects) || !matching.policies.is_empty();
    if !is_asked || write.namespace.is_empty() {
        return Ok(None);
    }
    Ok(found(store.get(&Key::new(Kind::new("", "v1", "Namespace"), "", &write.namespace)).await)?)
}

async fn review_deletion(
    store: &dyn Store,
    invoker: &Invoker<'_>,
    matching: &Configurations,
    mut write: ReviewedWrite,
    request: &Request,
    current: &Resource,
) -> Result<Review, Error> {
    let Write::Delete { key, precondition, propagation } = &request.write else { return Ok(Review::Unmatched) };
    let is_meant = precondition.uid.as_ref().is_none_or(|uid| uid == current.uid())
        && precondition.revision.is_none_or(|revision| revision == current.revision());
    if !is_meant {
        // The store refuses it.
        return Ok(Review::Unmatched);
    }
    write.old_object = Some(in_version(current.document(), &write.kind));
    for webhook in &matching.mutating {
        invoker.mutate(webhook, &write).await?;
    }
    enforce(store, invoker, &matching.policies, &write).await?;
    validate(invoker, &matching.validating, &write).await?;
    let precondition = Precondition { uid: Some(current.uid().to_owned()), ..precondition.clone() };
    let write = Write::Delete { key: key.clone(), precondition, propagation: *propagation };
    Ok(Review::Admitted { request: Request { write, ..request.clone() }, unknown_fields: Vec::new() })
}

/// Calls the mutating webhooks one after the other, and returns the document that they leave.
///
/// Those that ask for it are called once more if another one changed the document afterwards.
async fn mutate(
    invoker: &Invoker<'_>,
    webhooks: &[Arc<AdmissionWebhook>],
    write: &mut ReviewedWrite,
    draft: &WritePlan,
) -> Result<Value, Error> {
    let mut object = semantics::draft_document(draft);
    let name = object["metadata"]["name"].clone();
    // As in Kubernetes, what a write gets last is not known yet.
    let unknown: &[&str] = match write.operation {
        "CREATE" => &["creationTimestamp", "generation", "resourceVersion", "uid"],
        _ => &["generation"],
    };
    let old = write.old_object.as_ref().map(|old| &old["metadata"]);
    for field in unknown {
        set(&mut object, field, old.and_then(|old| old.get(field)).cloned());
    }
    if write.name.is_empty() {
        set(&mut object, "name", None);
    }
    write.object = Some(object);
    let (mut called, mut again) = (BTreeSet::new(), BTreeSet::new());
    for round in 0..ROUNDS {
        for (at, webhook) in webhooks.iter().enumerate() {
            if round > 0 && !again.contains(&at) {
                continue;
            }
            match invoker.mutate(webhook, write).await? {
                Mutation::None => continue,
                Mutation::Seen => {}
                Mutation::Changed(object) => {
                    write.object = Some(object);
                    again.extend(called.iter().copied());
                }
            }
            if webhook.is_called_again {
                called.insert(at);
            }
        }
    }
    let mut object = write.object.take().unwrap_or_default();
    if object["metadata"]["name"].is_null() {
        set(&mut object, "name", Some(name));
    }
    Ok(object)
}

/// Sets a field of the metadata of a document, which a webhook may have replaced by anything.
fn set(document: &mut Value, field: &str, value: Option<Value>) {
    let Some(metadata) = document.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    match value {
        Some(value) => metadata.insert(field.to_owned(), value),
        None => metadata.remove(field),
    };
}

/// Calls the validating webhooks at the same time.
async fn validate(
    invoker: &Invoker<'_>,
    webhooks: &[Arc<AdmissionWebhook>],
    write: &ReviewedWrite,
) -> Result<(), Error> {
    let mut calls = Vec::new();
    for webhook in webhooks {
        calls.push(invoker.validate(webhook, write).boxed());
    }
    // Each of them is called, and of several refusals the first one is told.
    let verdicts: Vec<Result<(), Error>> = stream::iter(calls).buffered(CALLS_MAX).collect().await;
    verdicts.into_iter().collect()
}

/// Returns the write of a decided resource.
fn planned(resource: &Resource, previous: Option<&Resource>) -> Write {
    let mut document = resource.document().clone();
    if let Some(metadata) = document["metadata"].as_object_mut() {
        metadata.remove("resourceVersion");
    }
    match previous {
        Some(previous) => {
            let (uid, revision) = (Some(previous.uid().to_owned()), Some(previous.revision()));
            Write::Update { document, precondition: Precondition { uid, revision } }
        }
        None => Write::Create { document },
    }
}
