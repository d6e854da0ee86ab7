//! Adds the manifest's headers to HTTP requests, including secrets.
//!
//! Belongs directly around [`super::World`]: recording layers must lie outside of it, so that no secret is
//! ever recorded. Missing grants are not this layer's concern.

use std::sync::Arc;

use async_trait::async_trait;

use crate::effect::{Answer, Blob, Call, Effect, Effects, HttpError};
use crate::grants::{Grants, HeaderSource};

/// A source of secrets.
#[async_trait]
pub trait Secrets: Send + Sync + 'static {
    /// Returns the current secret of this name. Called for every request, so that a secret can be rotated
    /// without a restart.
    ///
    /// # Errors
    /// A reason for the host's operator, without any part of the secret.
    async fn get(&self, name: &str) -> Result<Blob, String>;
}

/// Sets the headers of the grant that covers a request, replacing headers of the guest with the same names.
pub struct Headers<E> {
    grants: Arc<Grants>,
    secrets: Arc<dyn Secrets>,
    inner: E,
}

impl<E: Effects> Headers<E> {
    /// Adds the headers of `grants` to requests that go to `inner`.
    pub fn new(grants: Arc<Grants>, secrets: Arc<dyn Secrets>, inner: E) -> Self {
        Self { grants, secrets, inner }
    }

    /// Returns the headers to add to a request. An error names the missing secret; the guest does not learn
    /// why it is missing.
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
