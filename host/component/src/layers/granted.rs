//! Checks what a guest asks for against the grants of its controller.
//!
//! Free for everyone: the own settings, the log, events, clocks and randomness. Deliberately absent: how much of anything.

use std::sync::Arc;

use async_trait::async_trait;
use homeostat_store::{Query, Selector, Target, Write};

use crate::effect::{Answer, Call, Effect, Effects, HttpError, HttpRequest, PageData, StoreError};
use crate::grants::{Grants, Request, Verb, missing_http};

/// Lets through what is granted, and answers `forbidden` to the rest, naming the grant that is missing.
pub struct Granted<E> {
    grants: Arc<Grants>,
    inner: E,
}

impl<E: Effects> Granted<E> {
    /// Puts the check of `grants` before `inner`.
    pub fn new(grants: Arc<Grants>, inner: E) -> Self {
        Self { grants, inner }
    }

    /// Returns the text for a call that is not granted.
    fn refuse(&self, request: &Request<'_>) -> Option<StoreError> {
        (!self.grants.allows(request)).then(|| StoreError::Forbidden(request.missing()))
    }

    async fn list(&self, call: &Call, effect: Effect, query: &Query) -> Answer {
        let namespace = query.selector.namespace.as_deref();
        let request = Request { verb: Verb::List, kind: &query.kind, namespace, name: None };
        if self.grants.allows(&request) {
            return self.inner.perform(call, effect).await;
        }
        if !self.grants.allows_some(&request) {
            return Answer::Page(Err(StoreError::Forbidden(request.missing())));
        }
        // Some of the resources may be seen: those alone come back.
        let kind = query.kind.clone();
        let answer = self.inner.perform(call, effect).await;
        let Answer::Page(Ok(PageData { mut items, revision, next })) = answer else { return answer };
        items.retain(|item| {
            let (namespace, name) = (Some(item.key.namespace()), Some(item.key.name()));
            self.grants.allows(&Request { verb: Verb::List, kind: &kind, namespace, name })
        });
        Answer::Page(Ok(PageData { items, revision, next }))
    }

    fn refuse_write(&self, write: &Write) -> Option<StoreError> {
        let verb = match write {
            Write::Create { .. } => Verb::Create,
            Write::Update { .. } => Verb::Update,
            Write::UpdateStatus { .. } | Write::PatchStatus { .. } | Write::ApplyStatus { .. } => Verb::UpdateStatus,
            Write::Patch { .. } => Verb::Patch,
            Write::Apply { .. } => Verb::Apply,
            Write::Delete { .. } => Verb::Delete,
        };
        match write.target() {
            Ok(Target { kind, namespace, name }) => {
                self.refuse(&Request { verb, kind: &kind, namespace: Some(&namespace), name: name.as_deref() })
            }
            // What a document is about must be known before it can be granted.
            Err(error) => Some(error.into()),
        }
    }

    fn refuse_http(&self, request: &HttpRequest) -> Option<HttpError> {
        let HttpRequest { method, url, .. } = request;
        let granted = self.grants.http_grant(method, url).is_some();
        (!granted).then(|| HttpError::Forbidden(missing_http(method, url)))
    }
}

#[async_trait]
impl<E: Effects> Effects for Granted<E> {
    async fn perform(&self, call: &Call, effect: Effect) -> Answer {
        let refusal = match &effect {
            Effect::List { query, .. } => {
                let query = query.clone();
                return self.list(call, effect, &query).await;
            }
            Effect::Get { key, .. } => {
                let (namespace, name) = (Some(key.namespace()), Some(key.name()));
                let request = Request { verb: Verb::Get, kind: key.kind(), namespace, name };
                self.refuse(&request).map(|error| Answer::Resource(Err(error)))
            }
            Effect::Write(write) => self.refuse_write(write).map(|error| Answer::Written(Err(error))),
            Effect::Follow { target } => {
                let (namespace, name) = (Some(target.namespace()), Some(target.name()));
                let request = Request { verb: Verb::Watch, kind: target.kind(), namespace, name };
                self.refuse(&request).map(|error| Answer::Done(Err(error)))
            }
            Effect::FollowAll { kind, selector: Selector { namespace, .. } } => {
                let request = Request { verb: Verb::Watch, kind, namespace: namespace.as_deref(), name: None };
                self.refuse(&request).map(|error| Answer::Done(Err(error)))
            }
            Effect::Http(request) => self.refuse_http(request).map(|error| Answer::Http(Err(error))),
            Effect::Emit { .. } | Effect::Log { .. } | Effect::Config { .. } => None,
            Effect::WallClock | Effect::MonotonicClock | Effect::Random { .. } => None,
        };
        match refusal {
            Some(answer) => answer,
            None => self.inner.perform(call, effect).await,
        }
    }
}

#[cfg(test)]
mod tests;
