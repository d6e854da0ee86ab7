//! Checks what a guest asks for against the grants of its controller.
//!
//! Free for everyone: the own settings, the log, events, clocks and randomness. Deliberately absent: how much of anything.

use std::sync::Arc;

use async_trait::async_trait;

use crate::effect::{Answer, Call, Effect, Effects, HttpError, PageData, StoreError};
use crate::grants::{Ask, Grants, Request, Verb, missing_http};

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

    /// Lets a list through as far as it is granted.
    async fn list(&self, call: &Call, effect: Effect, ask: &Request<'_>) -> Answer {
        if self.grants.allows(ask) {
            return self.inner.perform(call, effect).await;
        }
        if !self.grants.allows_some(ask) {
            return Answer::Page(Err(StoreError::Forbidden(ask.missing())));
        }
        // Some of the resources may be seen: those alone come back.
        let answer = self.inner.perform(call, effect).await;
        let Answer::Page(Ok(PageData { mut items, revision, next })) = answer else { return answer };
        items.retain(|item| {
            let (namespace, name) = (Some(item.key.namespace()), Some(item.key.name()));
            self.grants.allows(&Request { namespace, name, ..*ask })
        });
        Answer::Page(Ok(PageData { items, revision, next }))
    }

    fn refuse_http(&self, method: &str, url: &str) -> Option<Answer> {
        let granted = self.grants.http_grant(method, url).is_some();
        (!granted).then(|| Answer::Http(Err(HttpError::Forbidden(missing_http(method, url)))))
    }
}

/// Returns an error as the answer to what asks the store for something; `None` where nobody asked.
fn refused(effect: &Effect, error: StoreError) -> Option<Answer> {
    Some(match effect {
        Effect::Get { .. } => Answer::Resource(Err(error)),
        Effect::List { .. } => Answer::Page(Err(error)),
        Effect::Write(_) => Answer::Written(Err(error)),
        Effect::Follow { .. } | Effect::FollowAll { .. } => Answer::Done(Err(error)),
        Effect::Http(_) | Effect::Emit { .. } | Effect::Log { .. } | Effect::Config { .. } => return None,
        Effect::WallClock | Effect::MonotonicClock | Effect::Random { .. } => return None,
    })
}

#[async_trait]
impl<E: Effects> Effects for Granted<E> {
    async fn perform(&self, call: &Call, effect: Effect) -> Answer {
        let refusal = match Ask::of(&effect) {
            Err(error) => refused(&effect, error),
            Ok(Ask::Http { method, url }) => self.refuse_http(&method, &url),
            Ok(ask) => match ask.request() {
                Some(request) if request.verb == Verb::List => return self.list(call, effect, &request).await,
                Some(request) if !self.grants.allows(&request) => {
                    refused(&effect, StoreError::Forbidden(request.missing()))
                }
                _ => None,
            },
        };
        match refusal {
            Some(answer) => answer,
            None => self.inner.perform(call, effect).await,
        }
    }
}

#[cfg(test)]
mod tests;
