//! The content of a token of a service account. Pure.
//!
//! Source: `pkg/serviceaccount/claims.go` and `legacy.go` of Kubernetes, for the names.

use homeostat_store::Resource;
use serde::{Deserialize, Serialize};

/// The claims of a token with an end. Times are in seconds since 1970.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct Claims {
    pub(super) aud: Vec<String>,
    pub(super) exp: i64,
    pub(super) iat: i64,
    pub(super) iss: String,
    pub(super) jti: String,
    #[serde(rename = "kubernetes.io")]
    pub(super) kubernetes: AccountClaims,
    pub(super) nbf: i64,
    pub(super) sub: String,
}

/// The account of a token, and the object that the token is bound to.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct AccountClaims {
    pub(super) namespace: String,
    pub(super) serviceaccount: ObjectReference,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) pod: Option<ObjectReference>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) secret: Option<ObjectReference>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) node: Option<ObjectReference>,
}

/// One object, by name and uid.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct ObjectReference {
    pub(crate) name: String,
    /// Empty for a node that is not there.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) uid: String,
}

impl ObjectReference {
    pub(crate) fn of(object: &Resource) -> Self {
        Self { name: object.key().name().to_owned(), uid: object.uid().to_owned() }
    }
}

/// The claims of a token in a secret.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct SecretClaims {
    #[serde(rename = "kubernetes.io/serviceaccount/namespace")]
    pub(super) namespace: String,
    #[serde(rename = "kubernetes.io/serviceaccount/secret.name")]
    pub(super) secret: String,
    #[serde(rename = "kubernetes.io/serviceaccount/service-account.name")]
    pub(super) account: String,
    #[serde(rename = "kubernetes.io/serviceaccount/service-account.uid")]
    pub(super) account_uid: String,
}

/// Returns the issuer that a token names, which is not verified; `None` for a text that is no token.
pub(super) fn issuer(text: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Issuer {
        iss: String,
    }
    Some(jsonwebtoken::dangerous::insecure_decode_claims::<Issuer>(text).ok()?.iss)
}
