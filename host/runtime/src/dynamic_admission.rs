//! Dynamic admission: webhooks and policies of Kubernetes change and refuse the writes of clients and guests.
//!
//! A write that one of them matches, or to which other plug-ins added fields, is decided here, without validation. Mutating
//! policies, mutating webhooks, validating policies and validating webhooks see the result in this order. The store stores what
//! they leave of it, if the resource did not change meanwhile. Otherwise all of it happens again. So the stored document is the
//! one that they saw.
//!
//! Deliberately absent: webhooks at a `service`, which a host cannot resolve; an authorizer. Kinds in other stores pass the
//! admission of their servers. Kinds that the host itself reads, as definitions, pass none, and neither do the writes of the
//! host's own controllers.
//!
//! Source: `pkg/admission/plugin/webhook` and `pkg/admission/plugin/policy` of `k8s.io/apiserver`.

mod configurations;
mod constraints;
mod enforcement;
mod expressions;
mod invocation;
mod mutating_policy;
mod mutation;
mod policy;
mod policy_matches;
mod review;
mod reviewed_write;
mod validating_policy;
mod webhook;

use std::sync::Arc;

use futures_util::{FutureExt, StreamExt, stream};
use homeostat_store::semantics::{self, Decision, Validation, WritePlan};
use homeostat_store::{Key, Kind, Precondition, Request, Resource, Store, Target, Write, WriteResponse};
use serde_json::Value;

pub(crate) use self::configurations::is_configuration;
use self::configurations::{Configurations, configuration_kind};
use self::enforcement::enforce;
use self::invocation::Invoker;
use self::mutation::Mutator;
use self::reviewed_write::ReviewedWrite;
use self::webhook::AdmissionWebhook;
use crate::error::found;
use crate::remembered::Remembered;
use crate::{Error, KindInfo, Kinds, Requester, Stores, planning};

/// How many validating webhooks are called for a write at the same time.
const CALLS_MAX: usize = 16;

/// The fields that plug-ins before webhooks and policies add to a written resource. The fields have no owner.
pub(crate) enum Addition {
    /// Nothing.
    Nothing,
    /// The new resource of this write, in place of that of the requested one.
    Fields(Write),
    /// Nothing, because the resource exists. The write must not create it.
    Existing,
}

/// The result of the review of a write.
pub(crate) enum Review {
    /// No webhook or policy matches, and nothing was added: the write is made as it is.
    Unmatched,
    /// The resource does not exist any more, to which nothing was added because it existed.
    Overtaken,
    /// The admitted write changes nothing.
    Unchanged(WriteResponse),
    /// This write is made in place of the requested one. The resource must not have changed meanwhile.
    Admitted {
        /// The write.
        request: Request,
        /// The dropped unknown fields of the requested write.
        unknown_fields: Vec<String>,
    },
}

/// The webhooks and policies of all configurations, as they were read last.
pub(crate) struct DynamicAdmission {
    stores: Stores,
    known: Remembered<Option<Arc<Configurations>>>,
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
        let kind = configuration_kind("MutatingWebhookConfiguration");
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

    /// Returns the webhooks and policies that may match a write.
    async fn of(&self, store: &dyn Store, write: &ReviewedWrite) -> Result<Configurations, Error> {
        let matching = self.configurations(store).await?.matching(write);
        if matching.are_current(store).await? {
            return Ok(matching);
        }
        self.forget();
        Ok(self.configurations(store).await?.matching(write))
    }

    /// Returns a write as webhooks and policies see it, and those that match it; `None` if none does.
    async fn matching(
        &self,
        store: &dyn Store,
        kinds: &Kinds,
        request: &Request,
        target: &Target,
        requester: &Requester,
    ) -> Result<Option<(ReviewedWrite, Configurations)>, Error> {
        // So a configuration that refuses everything can be deleted.
        let passes_all = !self.acts(kinds) || is_configuration(&target.kind);
        if passes_all || self.configurations(store).await?.is_empty() {
            return Ok(None);
        }
        let Some(info) = of_this_host(kinds, &target.kind) else { return Ok(None) };
        let write = ReviewedWrite::new(request, target, &info, requester.user());
        let matching = self.of(store, &write).await?;
        Ok((!matching.is_empty()).then_some((write, matching)))
    }

    /// Reviews a write by the webhooks and policies that match it. Without a requester none of them sees the write.
    ///
    /// *Cancel safety*: webhooks may have been called for a write that is not made.
    ///
    /// # Errors
    /// [`Error::Rejected`] for a write that one of them refuses, or for which it cannot be called; those of the write.
    pub(crate) async fn review(
        &self,
        store: &dyn Store,
        kinds: &Kinds,
        request: &Request,
        addition: &Addition,
        requester: Option<&Requester>,
    ) -> Result<Review, Error> {
        if request.is_move || request.is_planned {
            return Ok(Review::Unmatched);
        }
        let Ok(target) = request.write.target() else { return Ok(Review::Unmatched) };
        let matching = match requester {
            Some(requester) => self.matching(store, kinds, request, &target, requester).await?,
            None => None,
        };
        if matching.is_none() && matches!(addition, Addition::Nothing) {
            return Ok(Review::Unmatched);
        }
        let (info, schemas) = (of_this_host(kinds, &target.kind), store.schemas());
        let (Some(info), Some(schemas)) = (info, schemas) else { return Ok(Review::Unmatched) };
        let current = match &target.name {
            Some(name) => found(store.get_live(&key_of(&target, name)).await)?,
            None => None,
        };
        let mut reviewed = match (matching, requester) {
            (Some((write, matching)), Some(requester)) => {
                let namespace = namespace_of(store, &matching, &write).await?;
                Some((write, matching, Invoker { kinds, namespace, requester }))
            }
            _ => None,
        };
        if let Write::Delete { .. } = &request.write {
            let (Some((write, matching, invoker)), Some(current)) = (reviewed, current) else {
                return Ok(Review::Unmatched);
            };
            return review_deletion(store, &invoker, &matching, write, request, &current).await;
        }
        let written = if info.converts() { schemas.in_version(&target.kind) } else { schemas.clone() };
        let draft = planning::plan(written.clone(), request.clone(), current, Validation::Deferred).await?;
        let mut object = semantics::draft_document(&draft);
        match addition {
            Addition::Existing if draft.previous.is_none() => return Ok(Review::Overtaken),
            Addition::Fields(write) if draft.previous.is_none() => {
                let request = Request { write: write.clone(), ..request.clone() };
                let completed = planning::plan(written.clone(), request, None, Validation::Deferred).await?;
                let before = std::mem::replace(&mut object, semantics::draft_document(&completed));
                for field in semantics::HOST_OWNED.iter().chain(&["name"]) {
                    set(&mut object, field, before["metadata"].get(field).cloned());
                }
            }
            _ => {}
        }
        if let Some((write, matching, invoker)) = &mut reviewed {
            if draft.previous.is_none() {
                write.create();
            }
            write.old_object = draft.previous.as_ref().map(|previous| in_version(previous.document(), &target.kind));
            object = Mutator::new(store, schemas, &info, invoker).mutate(matching, write, object).await?;
        }
        let WritePlan { decision, previous, unknown_fields, .. } =
            planning::plan_draft(written, request, draft, object).await?;
        if let Some((mut write, matching, invoker)) = reviewed {
            let mut object = in_version(decision.resource().document(), &target.kind);
            if previous.is_none() {
                set(&mut object, "resourceVersion", None);
            }
            write.object = Some(object);
            enforce(store, &invoker, &matching.validating_policies, &write).await?;
            validate(&invoker, &matching.validating_webhooks, &write).await?;
        }
        Ok(match decision {
            Decision::Unchanged(resource) => {
                Review::Unchanged(WriteResponse { resource, change: None, previous, unknown_fields })
            }
            Decision::Put(resource) | Decision::Remove(resource) => {
                let write = planned(&resource, previous.as_deref());
                Review::Admitted { request: planning::planned(request, write), unknown_fields }
            }
        })
    }
}

/// Returns a kind that this host defines, and not the server of a store.
fn of_this_host(kinds: &Kinds, kind: &Kind) -> Option<KindInfo> {
    kinds.of(kind).filter(|_| kinds.defined_in(kind).is_none())
}

fn key_of(target: &Target, name: &str) -> Key {
    Key::new(target.kind.clone(), &target.namespace, name)
}

fn in_version(document: &Value, kind: &Kind) -> Value {
    let mut document = document.clone();
    document["apiVersion"] = kind.api_version().into();
    document
}

/// Returns the namespace of a written resource, if a webhook or a policy may ask for it.
async fn namespace_of(
    store: &dyn Store,
    matching: &Configurations,
    write: &ReviewedWrite,
) -> Result<Option<Arc<Resource>>, Error> {
    if !matching.need_namespace() || write.namespace.is_empty() {
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
    let Write::Delete { key, precondition, propagation, grace_seconds } = &request.write else {
        return Ok(Review::Unmatched);
    };
    let is_meant = precondition.uid.as_ref().is_none_or(|uid| uid == current.uid())
        && precondition.revision.is_none_or(|revision| revision == current.revision());
    if !is_meant {
        // The store refuses it.
        return Ok(Review::Unmatched);
    }
    write.old_object = Some(in_version(current.document(), &write.kind));
    for webhook in &matching.mutating_webhooks {
        invoker.mutate(webhook, &write).await?;
    }
    enforce(store, invoker, &matching.validating_policies, &write).await?;
    validate(invoker, &matching.validating_webhooks, &write).await?;
    let precondition = Precondition { uid: Some(current.uid().to_owned()), ..precondition.clone() };
    let write =
        Write::Delete { key: key.clone(), precondition, propagation: *propagation, grace_seconds: *grace_seconds };
    Ok(Review::Admitted { request: Request { write, ..request.clone() }, unknown_fields: Vec::new() })
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
