//! The webhooks and policies that act, as they are stored.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use homeostat_store::{Key, Kind, Query, Resource, ResourcePages, Revision, Store};

use super::mutating_policy::MutatingPolicy;
use super::policy::{Binding, Policy};
use super::reviewed_write::ReviewedWrite;
use super::validating_policy::ValidatingPolicy;
use super::webhook::{AdmissionWebhook, webhooks};
use crate::Error;
use crate::error::found;

const GROUP: &str = "admissionregistration.k8s.io";

/// Most configurations of a kind that act, and the bytes of their documents.
const CONFIGURATIONS_MAX: usize = 1000;
const CONFIGURATION_BYTES_MAX: u64 = 8 << 20;

/// All of them, in the order in which they act.
#[derive(Default)]
pub(super) struct Configurations {
    pub(super) mutating_policies: Vec<Arc<MutatingPolicy>>,
    pub(super) mutating_webhooks: Vec<Arc<AdmissionWebhook>>,
    pub(super) validating_policies: Vec<Arc<ValidatingPolicy>>,
    pub(super) validating_webhooks: Vec<Arc<AdmissionWebhook>>,
}

/// Where a webhook, a policy or a binding comes from.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Origin {
    key: Key,
    /// The revision at which it was read.
    revision: Revision,
}

impl Origin {
    pub(super) fn of(resource: &Resource) -> Self {
        Self { key: resource.key().clone(), revision: resource.revision() }
    }
}

impl Configurations {
    /// Reads all of them from the store.
    pub(super) async fn read(store: &dyn Store) -> Result<Self, Error> {
        Ok(Self {
            mutating_policies: policies(store, "MutatingAdmissionPolicy", MutatingPolicy::new).await?,
            mutating_webhooks: webhooks_of(store, "MutatingWebhookConfiguration").await?,
            validating_policies: policies(store, "ValidatingAdmissionPolicy", ValidatingPolicy::new).await?,
            validating_webhooks: webhooks_of(store, "ValidatingWebhookConfiguration").await?,
        })
    }

    /// Returns those that may match a write.
    pub(super) fn matching(&self, write: &ReviewedWrite) -> Self {
        let webhooks = |all: &[Arc<AdmissionWebhook>]| {
            all.iter().filter(|webhook| webhook.constraints.may_match(write)).map(Arc::clone).collect()
        };
        let mutating = self.mutating_policies.iter().filter(|policy| policy.policy.constraints.may_match(write));
        let validating = self.validating_policies.iter().filter(|policy| policy.policy.constraints.may_match(write));
        Self {
            mutating_policies: mutating.map(Arc::clone).collect(),
            mutating_webhooks: webhooks(&self.mutating_webhooks),
            validating_policies: validating.map(Arc::clone).collect(),
            validating_webhooks: webhooks(&self.validating_webhooks),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.webhooks().next().is_none() && self.policies().next().is_none()
    }

    /// Returns whether one of them may ask for the namespace of a resource.
    pub(super) fn need_namespace(&self) -> bool {
        self.policies().next().is_some()
            || self.webhooks().any(|webhook| !webhook.constraints.namespaces.is_unconditional())
    }

    fn webhooks(&self) -> impl Iterator<Item = &Arc<AdmissionWebhook>> {
        self.mutating_webhooks.iter().chain(&self.validating_webhooks)
    }

    fn policies(&self) -> impl Iterator<Item = &Policy> {
        let mutating = self.mutating_policies.iter().map(|policy| &policy.policy);
        mutating.chain(self.validating_policies.iter().map(|policy| &policy.policy))
    }

    fn origins(&self) -> BTreeSet<&Origin> {
        let webhooks = self.webhooks().map(|webhook| &webhook.origin);
        let policies = self.policies().map(|policy| &policy.origin);
        let bindings = self.policies().flat_map(|policy| policy.bindings.iter().map(|binding| &binding.origin));
        webhooks.chain(policies).chain(bindings).collect()
    }

    /// Returns whether the configurations are stored as they were read. The garbage collector deletes them, too.
    pub(super) async fn are_current(&self, store: &dyn Store) -> Result<bool, Error> {
        for Origin { key, revision } in self.origins() {
            if found(store.get(key).await)?.is_none_or(|stored| stored.revision() != *revision) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Returns whether a kind is one of the settings of admission.
pub(crate) fn is_configuration(kind: &Kind) -> bool {
    kind.group == GROUP
}

/// Returns a kind of configurations.
pub(super) fn configuration_kind(name: &str) -> Kind {
    Kind::new(GROUP, "v1", name)
}

async fn webhooks_of(store: &dyn Store, kind: &str) -> Result<Vec<Arc<AdmissionWebhook>>, Error> {
    let configurations = all_of(store, configuration_kind(kind)).await?;
    Ok(configurations.iter().flat_map(|configuration| webhooks(configuration)).map(Arc::new).collect())
}

/// Returns the policies of a kind that have a binding.
async fn policies<P>(
    store: &dyn Store,
    kind: &str,
    new: impl Fn(&Resource, Vec<Binding>) -> Option<P>,
) -> Result<Vec<Arc<P>>, Error> {
    let mut of_policies: BTreeMap<String, Vec<Binding>> = BTreeMap::new();
    for binding in all_of(store, configuration_kind(&format!("{kind}Binding"))).await? {
        if let Some((policy, binding)) = Binding::new(&binding) {
            of_policies.entry(policy).or_default().push(binding);
        }
    }
    let mut all = Vec::new();
    for policy in all_of(store, configuration_kind(kind)).await? {
        let bindings = of_policies.remove(policy.key().name());
        all.extend(bindings.and_then(|bindings| new(&policy, bindings)).map(Arc::new));
    }
    Ok(all)
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
