//! One call of a webhook for a write.

use std::sync::Arc;

use homeostat_store::{Change, Kind, Resource};
use serde_json::Value;
use uuid::Uuid;

use super::review::{self, Verdict};
use super::reviewed_write::ReviewedWrite;
use super::webhook::AdmissionWebhook;
use crate::{Error, Kinds, Requester};

/// What calls share.
pub(super) struct Invoker<'a> {
    pub(super) kinds: &'a Kinds,
    /// The namespace of the resource, if a webhook selects by it.
    pub(super) namespace: Option<Arc<Resource>>,
    /// Whom the webhooks warn.
    pub(super) requester: &'a Requester,
}

/// What a mutating webhook did.
pub(super) enum WebhookMutation {
    /// It was not called, or its failure is ignored.
    None,
    /// It left the document as it is.
    Seen,
    /// It made this document of it, in the version of the write.
    Changed(Value),
}

impl Invoker<'_> {
    /// Calls a validating webhook if it matches.
    pub(super) async fn validate(&self, webhook: &Arc<AdmissionWebhook>, write: &ReviewedWrite) -> Result<(), Error> {
        let Some(kind) = self.matched(webhook, write) else { return Ok(()) };
        self.call(webhook, write, &kind, false).await.map(drop)
    }

    /// Calls a mutating webhook if it matches.
    pub(super) async fn mutate(
        &self,
        webhook: &Arc<AdmissionWebhook>,
        write: &ReviewedWrite,
    ) -> Result<WebhookMutation, Error> {
        let Some(kind) = self.matched(webhook, write) else { return Ok(WebhookMutation::None) };
        let Some((patch, object)) = self.call(webhook, write, &kind, true).await? else {
            return Ok(WebhookMutation::None);
        };
        if patch.is_empty() {
            return Ok(WebhookMutation::Seen);
        }
        if object.is_null() {
            let reason = format!(
                "admission webhook {:?} attempted to modify the object, which is not supported for this operation",
                webhook.name
            );
            return Err(rejected(review::internal(&reason)));
        }
        let patched = Change::Json(Value::Array(patch)).apply(&object);
        let patched = patched.map_err(|error| rejected(review::internal(&format!("error in the patch: {error}"))))?;
        if patched == object {
            return Ok(WebhookMutation::Seen);
        }
        if !patched.is_object() {
            return Err(rejected(review::internal("the patched document is not an object")));
        }
        Ok(WebhookMutation::Changed(self.converted(&patched, &write.kind, &write.kind).await?))
    }

    /// Returns the namespace whose labels selectors of namespaces see.
    pub(super) fn namespace_of<'w>(&'w self, write: &'w ReviewedWrite) -> Option<&'w Value> {
        // A namespace that is written has its labels in the write.
        let written = write.object.as_ref().filter(|_| write.is_of_namespace() && write.part.is_none());
        written.or_else(|| self.namespace.as_ref().map(|namespace| namespace.document()))
    }

    /// Returns the namespace that expressions see. As in Kubernetes, a namespace has none of its own there.
    pub(super) fn namespace_object(&self, write: &ReviewedWrite) -> Option<Arc<Resource>> {
        self.namespace.clone().filter(|_| !write.is_of_namespace())
    }

    /// Returns the kind in the version in which a webhook is called; `None` if it is not.
    fn matched(&self, webhook: &AdmissionWebhook, write: &ReviewedWrite) -> Option<Kind> {
        let version = webhook.constraints.version_for(write, self.namespace_of(write))?;
        Some(Kind::new(&write.kind.group, version, &write.kind.name))
    }

    /// Returns the request of a review in the version of `kind`.
    ///
    /// # Errors
    /// Those of a conversion.
    pub(super) async fn request(&self, write: &ReviewedWrite, kind: &Kind, uid: &str) -> Result<Value, Error> {
        let object = self.optional(write.object.as_ref(), kind, &write.kind).await?;
        let old_object = self.optional(write.old_object.as_ref(), kind, &write.kind).await?;
        Ok(review::request(uid, write, kind, object, old_object))
    }

    /// Calls a webhook, and returns its patch with the document that it saw; `None` if its conditions do not hold, or if
    /// its failure is ignored.
    ///
    /// # Errors
    /// [`Error::Rejected`].
    async fn call(
        &self,
        webhook: &Arc<AdmissionWebhook>,
        write: &ReviewedWrite,
        kind: &Kind,
        is_mutating: bool,
    ) -> Result<Option<(Vec<Value>, Value)>, Error> {
        let uid = Uuid::new_v4().to_string();
        let request = self.request(write, kind, &uid).await?;
        let (request, meets) = conditions(webhook, request).await;
        if !meets.map_err(|reason| rejected(review::unmatched(write, &reason)))? {
            return Ok(None);
        }
        if write.dry_run && !webhook.is_free_of_side_effects {
            return Err(rejected(review::without_dry_run(&webhook.name)));
        }
        match answer(webhook, &uid, &request, is_mutating).await {
            Ok(Verdict { patch, refusal, warnings }) => {
                warnings.iter().for_each(|warning| self.requester.warn(warning));
                match refusal {
                    Some(status) => Err(rejected(review::denied(&webhook.name, &status))),
                    None => Ok(Some((patch, request["object"].clone()))),
                }
            }
            Err(reason) if webhook.ignores_failures => {
                tracing::warn!(webhook = webhook.name, reason, "the failure of an admission webhook is ignored");
                Ok(None)
            }
            Err(reason) => {
                let reason = format!("failed calling webhook {:?}: {reason}", webhook.name);
                Err(rejected(review::internal(&reason)))
            }
        }
    }

    async fn optional(&self, document: Option<&Value>, kind: &Kind, written: &Kind) -> Result<Value, Error> {
        match document {
            Some(document) => self.converted(document, kind, written).await,
            None => Ok(Value::Null),
        }
    }

    /// Returns a document in the version of `kind`.
    ///
    /// # Errors
    /// Those of a conversion.
    pub(super) async fn converted(&self, document: &Value, kind: &Kind, written: &Kind) -> Result<Value, Error> {
        let is_same = document["apiVersion"] == kind.api_version();
        match self.kinds.converters().of(written).filter(|_| !is_same) {
            Some(converter) => Ok(converter.convert_document(&kind.version, document.clone()).await?),
            None => Ok(super::in_version(document, kind)),
        }
    }
}

/// Evaluates match conditions on a thread that may block.
async fn conditions(webhook: &Arc<AdmissionWebhook>, request: Value) -> (Value, Result<bool, String>) {
    if !webhook.has_conditions() {
        return (request, Ok(true));
    }
    let webhook = Arc::clone(webhook);
    let evaluated = tokio::task::spawn_blocking(move || {
        let meets = webhook.meets_conditions(&request);
        (request, meets)
    });
    evaluated.await.unwrap_or_else(|error| (Value::Null, Err(error.to_string())))
}

/// Sends a review, and returns the verdict.
async fn answer(webhook: &AdmissionWebhook, uid: &str, request: &Value, is_mutating: bool) -> Result<Verdict, String> {
    let Some(version) = webhook.review_version else {
        return Err("could not create admission objects: webhook does not accept known AdmissionReview versions (v1, \
                    v1beta1)"
            .to_owned());
    };
    let call = webhook.connection.call(review::review(version, request));
    let answered = tokio::time::timeout(webhook.timeout, call).await;
    let answered = answered.unwrap_or_else(|_| Err(webhook.connection.late()));
    let answer = answered.map_err(|reason| format!("failed to call webhook: {reason}"))?;
    review::verdict(&answer, uid, version, is_mutating)
}

fn rejected(status: Value) -> Error {
    Error::Rejected(Box::new(status))
}
