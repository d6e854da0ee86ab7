//! Adds to HTTP requests the headers that the manifest names, secrets among them.
//!
//! Belongs right around [`super::World`]: whatever records effects must lie outside, so that no secret is ever recorded. A grant that is
//! missing is not this layer's business.

use std::sync::Arc;

use async_trait::async_trait;

use crate::effect::{Answer, Blob, Call, Effect, Effects, HttpError};
use crate::grants::{Grants, HeaderSource};

/// Where secrets come from.
#[async_trait]
pub trait Secrets: Send + Sync + 'static {
    /// Returns the secret of this name as it is now. Asked at every request, so that a secret can be replaced while everything runs.
    ///
    /// # Errors
    /// A text for the owner of the host that says why there is none. It has nothing of the secret in it.
    async fn get(&self, name: &str) -> Result<Blob, String>;
}

/// Sets the headers of the grant that covers a request; what the guest set under the same names is replaced.
pub struct Headers<E> {
    grants: Arc<Grants>,
    secrets: Arc<dyn Secrets>,
    inner: E,
}

impl<E: Effects> Headers<E> {
    /// Puts the headers of `grants` into what goes to `inner`.
    pub fn new(grants: Arc<Grants>, secrets: Arc<dyn Secrets>, inner: E) -> Self {
        Self { grants, secrets, inner }
    }

    /// Returns the headers to add to a request; an error names the secret that is missing. Why it is missing is nothing for the guest.
    async fn headers(&self, method: &str, url: &str) -> Result<Vec<(String, Blob)>, HttpError> {
        let Some(grant) = self.grants.http_grant(method, url) else { return Ok(Vec::new()) };
        let mut headers = Vec::with_capacity(grant.headers.len());
        for (name, source) in &grant.headers {
            let value = match source {
                HeaderSource::Value(text) => Blob::from(text.clone()),
                HeaderSource::Secret(secret) => self.secrets.get(secret).await.map_err(|_| {
                    HttpError::Unreachable(format!("the host has no secret {secret:?} for the header {name}"))
                })?,
            };
            headers.push((name.to_ascii_lowercase(), value));
        }
        Ok(headers)
    }
}

#[async_trait]
impl<E: Effects> Effects for Headers<E> {
    async fn perform(&self, call: &Call, effect: Effect) -> Answer {
        let Effect::Http(mut request) = effect else { return self.inner.perform(call, effect).await };
        match self.headers(&request.method, &request.url).await {
            Ok(added) => {
                request.headers.retain(|(name, _)| !added.iter().any(|(own, _)| own.eq_ignore_ascii_case(name)));
                request.headers.extend(added);
                self.inner.perform(call, Effect::Http(request)).await
            }
            Err(error) => Answer::Http(Err(error)),
        }
    }
}

#[cfg(test)]
mod tests;
