//! The changes of a draft by policies and webhooks that mutate.
//!
//! Policies come before webhooks. If one of them changes the document, those that ask for it are called once more.

use std::collections::BTreeSet;
use std::sync::Arc;

use homeostat_store::schema::Schemas;
use homeostat_store::{Key, Kind, Resource, Store, semantics};
use serde_json::Value;

use super::configurations::Configurations;
use super::invocation::{Invoker, WebhookMutation};
use super::mutating_policy::{MutatingPolicy, PolicyOutcome};
use super::policy_matches::{PolicyMatch, policy_matches};
use super::reviewed_write::ReviewedWrite;
use super::webhook::AdmissionWebhook;
use super::{review, set};
use crate::{Error, KindInfo};

/// How often policies and webhooks are called, the second time those that ask for it.
const ROUNDS: usize = 2;

/// A call of a policy: its name, that of the binding, and the parameter.
type PolicyCall = (String, String, Option<Key>);

/// A mutation of a write in progress.
pub(super) struct Mutator<'a> {
    store: &'a dyn Store,
    schemas: &'a Schemas,
    info: &'a KindInfo,
    invoker: &'a Invoker<'a>,
    /// The policies that were called and ask to be called again.
    policies: BTreeSet<PolicyCall>,
    /// The webhooks that were called and ask to be called again after a later change.
    webhooks: BTreeSet<usize>,
    /// The webhooks of these that are called again, because there was such a change.
    webhooks_again: BTreeSet<usize>,
    /// The document after the last webhook of the first round.
    last_output: Option<Value>,
}

impl<'a> Mutator<'a> {
    pub(super) fn new(
        store: &'a dyn Store,
        schemas: &'a Schemas,
        info: &'a KindInfo,
        invoker: &'a Invoker<'a>,
    ) -> Self {
        let (policies, webhooks, webhooks_again) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        Self { store, schemas, info, invoker, policies, webhooks, webhooks_again, last_output: None }
    }

    /// Returns what policies and webhooks leave of the document of a draft.
    ///
    /// # Errors
    /// [`Error::Rejected`] for a write that one of them refuses, or for which it cannot be called; [`Error::Store`].
    pub(super) async fn mutate(
        mut self,
        matching: &Configurations,
        write: &mut ReviewedWrite,
        mut object: Value,
    ) -> Result<Value, Error> {
        let name = object["metadata"]["name"].clone();
        // As in Kubernetes, the fields that a write gets last are not known yet.
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
        for round in 0..ROUNDS {
            let is_patched = self.call_policies(&matching.mutating_policies, write, round).await?;
            let is_changed = self.call_webhooks(&matching.mutating_webhooks, write, round).await?;
            if !is_patched && !is_changed {
                break;
            }
        }
        let mut object = write.object.take().unwrap_or_default();
        if object["metadata"]["name"].is_null() {
            set(&mut object, "name", Some(name));
        }
        Ok(object)
    }

    /// Calls policies one after the other, and returns whether one has patched the document.
    async fn call_policies(
        &mut self,
        policies: &[Arc<MutatingPolicy>],
        write: &mut ReviewedWrite,
        round: usize,
    ) -> Result<bool, Error> {
        let mut unbound = Vec::new();
        let mut failures = Vec::new();
        let mut is_patched = false;
        for PolicyMatch { policy, binding, kind, params } in
            policy_matches(self.store, self.invoker, policies, write).await?
        {
            let denied = |failure: String| {
                let message = format!(
                    "policy '{}' with binding '{}' denied request: {failure}",
                    policy.policy.name, binding.name
                );
                (!policy.policy.ignores_failures).then_some(message)
            };
            let params = match params {
                Ok(params) => params,
                Err(reason) => {
                    unbound.extend(denied(reason));
                    continue;
                }
            };
            for params in params {
                let key = params.as_ref().map(|params| params.key().clone());
                let call = (policy.policy.name.clone(), binding.name.clone(), key);
                let is_called = round == 0 || self.policies.contains(&call);
                let outcome = self.call_policy(policy, params, write, &kind, is_called).await?;
                failures.extend(outcome.failures.into_iter().filter_map(denied));
                if outcome.is_met && is_called && policy.is_called_again {
                    self.policies.insert(call);
                }
                if let Some(object) = outcome.object {
                    is_patched = true;
                    write.object = Some(self.invoker.converted(&object, &write.kind, &write.kind).await?);
                }
            }
        }
        let reason = if unbound.is_empty() { "Invalid" } else { "Forbidden" };
        unbound.extend(failures);
        if unbound.is_empty() {
            return Ok(is_patched);
        }
        Err(Error::Rejected(Box::new(review::unmutated(write, &unbound, reason))))
    }

    /// Calls a policy on a thread that may block.
    async fn call_policy(
        &self,
        policy: &Arc<MutatingPolicy>,
        params: Option<Arc<Resource>>,
        write: &ReviewedWrite,
        kind: &Kind,
        is_called: bool,
    ) -> Result<PolicyOutcome, Error> {
        let mut request = self.invoker.request(write, kind, "").await?;
        let namespace = self.invoker.namespace_object(write);
        let schemas = self.schemas_of(kind);
        let (policy, kind, part) = (Arc::clone(policy), kind.clone(), write.part);
        let called = tokio::task::spawn_blocking(move || {
            let old = request["oldObject"].clone();
            let old = Some(&old).filter(|old| !old.is_null());
            policy.mutate(&mut request, params.as_deref(), namespace.as_deref(), is_called, |object, mutation| {
                semantics::mutated(&schemas, &kind, object, old, part, mutation)
            })
        });
        let outcome = called.await.map_err(homeostat_store::Error::unavailable)?;
        outcome.map_err(|reason| Error::Rejected(Box::new(review::internal(&reason))))
    }

    /// Returns the schemas with which a document in the version of `kind` is decided.
    fn schemas_of(&self, kind: &Kind) -> Schemas {
        if self.info.converts() { self.schemas.in_version(kind) } else { self.schemas.clone() }
    }

    /// Returns what a webhook left of a document, with its defaults.
    fn defaulted(&self, object: Value, write: &ReviewedWrite) -> Result<Value, Error> {
        let (schemas, old) = (self.schemas_of(&write.kind), write.old_object.as_ref());
        Ok(semantics::defaulted(&schemas, &write.kind, object, old, write.part)?)
    }

    /// Calls webhooks one after the other, and returns whether one has changed the document.
    async fn call_webhooks(
        &mut self,
        webhooks: &[Arc<AdmissionWebhook>],
        write: &mut ReviewedWrite,
        round: usize,
    ) -> Result<bool, Error> {
        if webhooks.is_empty() {
            return Ok(false);
        }
        let mut is_changed = false;
        if round > 0 && write.object != self.last_output {
            self.webhooks_again.extend(self.webhooks.iter().copied());
        }
        for (at, webhook) in webhooks.iter().enumerate() {
            if round > 0 && !self.webhooks_again.contains(&at) {
                continue;
            }
            match self.invoker.mutate(webhook, write).await? {
                WebhookMutation::None => continue,
                WebhookMutation::Seen => {}
                WebhookMutation::Changed(object) => {
                    is_changed = true;
                    write.object = Some(self.defaulted(object, write)?);
                    self.webhooks_again.extend(self.webhooks.iter().copied());
                }
            }
            if webhook.is_called_again {
                self.webhooks.insert(at);
            }
        }
        self.last_output.clone_from(&write.object);
        Ok(is_changed)
    }
}
