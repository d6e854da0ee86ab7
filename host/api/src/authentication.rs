//! Finds out who sends a request, by its bearer token.

use std::sync::Arc;

use axum::http::{HeaderMap, Uri, header};

use crate::caller::Caller;
use crate::path::HEALTH;
use crate::service_accounts::{AccountToken, ServiceAccountTokens};
use crate::tokens::{KnownToken, Tokens};

/// The sender of a request, and the token that says so.
#[derive(Clone)]
pub(crate) struct AuthenticatedCaller {
    /// The sender, or the user as whom it acts.
    pub(crate) caller: Arc<Caller>,
    credential: Credential,
}

/// What a request proves its sender by.
#[derive(Clone)]
enum Credential {
    Known(KnownToken),
    Account(Arc<ServiceAccountTokens>, Arc<AccountToken>),
    /// A program on this machine, on a host without tokens.
    Local,
}

impl AuthenticatedCaller {
    /// Returns a program on this machine that acts as a user.
    pub(crate) fn local(user: Caller) -> Self {
        Self { caller: Arc::new(user), credential: Credential::Local }
    }

    /// Returns the same sender acting as a user.
    pub(crate) fn acting_as(self, user: Caller) -> Self {
        Self { caller: Arc::new(user), ..self }
    }

    /// Waits until the token is revoked, or has other rights in the file of tokens.
    ///
    /// *Cancel safety*: nothing is lost.
    pub(crate) async fn revoked(&self) {
        match &self.credential {
            Credential::Known(token) => token.revoked().await,
            Credential::Account(accounts, token) => accounts.revoked(token).await,
            Credential::Local => std::future::pending().await,
        }
    }
}

/// The result of authenticating a request.
pub(crate) enum Authentication {
    Authenticated(AuthenticatedCaller),
    /// A program on this machine, on a host without tokens.
    Local,
    /// A request without a token for a health endpoint.
    HealthProbe,
    Unauthenticated,
}

impl Authentication {
    /// Authenticates a request. On a host without tokens, a text that is no token of a service account says nothing.
    pub(crate) async fn of(
        tokens: Option<&Arc<Tokens>>,
        accounts: &Arc<ServiceAccountTokens>,
        uri: &Uri,
        headers: &HeaderMap,
    ) -> Self {
        if let Some(token) = bearer(headers) {
            if let Some(tokens) = tokens
                && let Some(token) = tokens.find(token).await
            {
                let credential = Credential::Known(token.clone());
                return Self::Authenticated(AuthenticatedCaller { caller: token.owner, credential });
            }
            match accounts.authenticate(token, &[]).await {
                Ok(Some(token)) => {
                    let caller = Arc::new(token.caller.clone());
                    let credential = Credential::Account(Arc::clone(accounts), Arc::new(token));
                    return Self::Authenticated(AuthenticatedCaller { caller, credential });
                }
                Ok(None) => {}
                Err(error) => {
                    tracing::debug!(%error, "a token of a service account is refused");
                    return Self::Unauthenticated;
                }
            }
        }
        match tokens {
            None => Self::Local,
            // A query selects details or excludes checks by name, so it needs a token.
            Some(_) if HEALTH.contains(&uri.path()) && uri.query().is_none() => Self::HealthProbe,
            Some(_) => Self::Unauthenticated,
        }
    }
}

/// Returns the token that a request carries.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_at_checked("Bearer ".len())?;
    scheme.eq_ignore_ascii_case("Bearer ").then(|| token.trim()).filter(|token| !token.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bearer_token_is_taken_from_its_header_alone() {
        let token = |value: &str| {
            let headers = HeaderMap::from_iter([(header::AUTHORIZATION, value.parse().unwrap())]);
            bearer(&headers).map(str::to_owned)
        };
        assert_eq!(token("Bearer one-two").as_deref(), Some("one-two"));
        assert_eq!(token("bearer  one-two ").as_deref(), Some("one-two"));
        for other in ["Bearer", "Bearer ", "Basic one-two", "one-two", ""] {
            assert_eq!(token(other), None, "{other}");
        }
        assert_eq!(bearer(&HeaderMap::new()), None);
    }
}
