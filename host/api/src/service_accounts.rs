//! Tokens of service accounts: JSON Web Tokens, which the host signs and verifies by its key.
//!
//! A token names its account, and may name a pod, a secret or a node that it is bound to. It is valid until it expires, and
//! as long as all of them are there. The host stores no token. `claims` has the content of a token, and `signing_key` the key.
//!
//! Source: `pkg/serviceaccount` of Kubernetes.

mod claims;
mod signing_key;

use std::path::PathBuf;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use homeostat_runtime::Host;
use homeostat_store::{Key, Kind, Resource};
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::caller::{Caller, service_account_user};
use crate::path::OPENID_KEYS;
pub(crate) use claims::ObjectReference;
use claims::{AccountClaims, Claims, SecretClaims};
use signing_key::{KeyFile, SigningKey};

/// The issuer of tokens, and their audience if a request names none.
///
/// Source: kubeadm. No client has to reach this address, because `/openid/v1/jwks` has the public key.
pub(crate) const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";

/// The issuer of tokens that kube-controller-manager writes into secrets. They do not expire.
const SECRET_ISSUER: &str = "kubernetes/serviceaccount";

/// How long an object that is being deleted still counts, and a token after its expiry, in seconds. Source: Kubernetes.
const LEEWAY_S: i64 = 60;

/// How often the token of a stream is checked. Source: the life of a result in the cache of Kubernetes.
const CHECK_INTERVAL: Duration = Duration::from_secs(10);

/// Why a token of a service account is not accepted.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct InvalidToken(String);

/// The terms of a new token.
pub(crate) struct TokenTerms {
    /// For whom it is; at least one.
    pub(crate) audiences: Vec<String>,
    /// How long it is valid, in seconds.
    pub(crate) seconds: i64,
    /// The object that it is bound to.
    pub(crate) bound: Option<BoundObject>,
}

/// An object that a token is bound to.
pub(crate) enum BoundObject {
    /// A pod, and the node that it is on.
    Pod {
        /// The pod.
        pod: ObjectReference,
        /// The node of the pod.
        node: Option<ObjectReference>,
    },
    /// A secret.
    Secret(ObjectReference),
    /// A node.
    Node(ObjectReference),
}

/// Issues and verifies tokens.
pub(crate) struct ServiceAccountTokens {
    key: KeyFile,
    host: Host,
}

/// A valid token.
#[derive(Clone, Debug)]
pub(crate) struct AccountToken {
    /// The service account.
    pub(crate) caller: Caller,
    /// The audiences of the token that were asked for.
    pub(crate) audiences: Vec<String>,
    /// The objects that must be there, and the end.
    validity: Validity,
}

/// What a token depends on.
#[derive(Clone, Debug)]
struct Validity {
    account: (Key, String),
    /// The pod, secret or node that the token is bound to, and its uid, if the token names it.
    bound: Option<(Key, Option<String>)>,
    /// The token as the secret must have it.
    text: Option<String>,
    expires_at: Option<i64>,
}

impl ServiceAccountTokens {
    /// Returns tokens that are signed by the key in a file, which is generated when it is first needed. Without a file, the
    /// key is lost when the server stops.
    ///
    /// # Errors
    /// [`Error::ServiceAccountKey`](crate::Error::ServiceAccountKey) if the file is there and cannot be used.
    pub(crate) fn open(key: Option<PathBuf>, host: Host) -> Result<Self, crate::Error> {
        let key = KeyFile::new(key);
        key.get()?;
        Ok(Self { key, host })
    }

    /// Issues a token for a service account, from now on.
    ///
    /// # Errors
    /// [`Error::ServiceAccountKey`](crate::Error::ServiceAccountKey) if the key cannot be used.
    pub(crate) fn issue(&self, account: &Resource, terms: TokenTerms, now: Timestamp) -> Result<String, crate::Error> {
        let TokenTerms { audiences, seconds, bound } = terms;
        let (pod, secret, node) = match bound {
            None => (None, None, None),
            Some(BoundObject::Pod { pod, node }) => (Some(pod), None, node),
            Some(BoundObject::Secret(secret)) => (None, Some(secret), None),
            Some(BoundObject::Node(node)) => (None, None, Some(node)),
        };
        let namespace = account.key().namespace().to_owned();
        let serviceaccount = ObjectReference::of(account);
        let now = now.as_second();
        self.key.sign(&Claims {
            aud: audiences,
            exp: now + seconds,
            iat: now,
            iss: ISSUER.to_owned(),
            jti: uuid::Uuid::new_v4().to_string(),
            sub: service_account_user(&namespace, &serviceaccount.name),
            kubernetes: AccountClaims { namespace, serviceaccount, pod, secret, node },
            nbf: now,
        })
    }

    /// Verifies a token; `None` for a text that is none of these. An empty list of audiences stands for the one of this API.
    ///
    /// # Errors
    /// The reason why the token is not accepted.
    pub(crate) async fn authenticate(
        &self,
        text: &str,
        audiences: &[String],
    ) -> Result<Option<AccountToken>, InvalidToken> {
        let own = [ISSUER.to_owned()];
        let audiences = if audiences.is_empty() { &own[..] } else { audiences };
        let token = match claims::issuer(text).as_deref() {
            Some(ISSUER) => {
                let claims: Claims = self.verify(|key| key.verify(text, ISSUER, audiences))?;
                AccountToken::new(claims, audiences)
            }
            Some(SECRET_ISSUER) if audiences.contains(&own[0]) => {
                AccountToken::in_secret(self.verify(|key| key.verify_endless(text, SECRET_ISSUER))?, text)
            }
            Some(SECRET_ISSUER) => return Err(InvalidToken("token audiences do not match".to_owned())),
            _ => return Ok(None),
        };
        self.check(&token.validity).await?;
        Ok(Some(token))
    }

    /// Waits until a token is not valid any more.
    ///
    /// *Cancel safety*: nothing is lost.
    pub(crate) async fn revoked(&self, token: &AccountToken) {
        while self.check(&token.validity).await.is_ok() {
            tokio::time::sleep(CHECK_INTERVAL).await;
        }
    }

    /// Returns the configuration by which other programs find the key that verifies tokens.
    ///
    /// Source: OpenID Connect Discovery 1.0.
    pub(crate) fn openid_configuration(&self, own_address: &str) -> Value {
        json!({
            "issuer": ISSUER, "jwks_uri": format!("{own_address}{OPENID_KEYS}"),
            "response_types_supported": ["id_token"], "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["ES256"],
        })
    }

    /// Returns the public key as a set of keys in JSON.
    ///
    /// # Errors
    /// The reason why the key cannot be used.
    pub(crate) fn openid_keys(&self) -> Result<Value, crate::Error> {
        Ok(json!({ "keys": [self.key.get_or_generate()?.public()] }))
    }

    fn verify<C: DeserializeOwned>(
        &self,
        verified: impl FnOnce(&SigningKey) -> jsonwebtoken::errors::Result<C>,
    ) -> Result<C, InvalidToken> {
        let key = self.key.get().map_err(|error| InvalidToken(error.to_string()))?;
        let key = key.ok_or_else(|| InvalidToken("this host has issued no token".to_owned()))?;
        verified(&key).map_err(|error| InvalidToken(signing_key::reason(&error)))
    }

    /// Checks that a token has not expired, and that all its objects are there.
    async fn check(&self, validity: &Validity) -> Result<(), InvalidToken> {
        let now = Timestamp::now();
        if validity.expires_at.is_some_and(|end| end + LEEWAY_S < now.as_second()) {
            return Err(InvalidToken("service account token has expired".to_owned()));
        }
        let (account, uid) = &validity.account;
        let found = self.host.store().get(account).await;
        let is_there = found.is_ok_and(|found| found.uid() == uid && !is_gone(&found, now));
        if !is_there {
            let (namespace, name) = (account.namespace(), account.name());
            return Err(InvalidToken(format!("service account {namespace}/{name} has been deleted")));
        }
        let Some((bound, uid)) = &validity.bound else { return Ok(()) };
        let fits = |found: &Resource| {
            let has_text = |text: &String| token_in(found).as_ref() == Some(text);
            uid.as_ref().is_none_or(|uid| found.uid() == uid)
                && !is_gone(found, now)
                && validity.text.as_ref().is_none_or(has_text)
        };
        match self.host.store().get(bound).await {
            Ok(found) if fits(&found) => Ok(()),
            _ => Err(InvalidToken("service account token has been invalidated".to_owned())),
        }
    }
}

impl AccountToken {
    fn new(claims: Claims, audiences: &[String]) -> Self {
        let AccountClaims { namespace, serviceaccount, pod, secret, node } = claims.kubernetes;
        let mut caller = Caller::service_account(&namespace, &serviceaccount.name);
        caller.uid = Some(serviceaccount.uid.clone());
        let mut add = |name: &str, value: &str| {
            caller.extra.insert(format!("authentication.kubernetes.io/{name}"), vec![value.to_owned()]);
        };
        add("credential-id", &format!("JTI={}", claims.jti));
        for (kind, object) in [("pod", &pod), ("node", &node)] {
            if let Some(ObjectReference { name, uid }) = object {
                add(&format!("{kind}-name"), name);
                if !uid.is_empty() {
                    add(&format!("{kind}-uid"), uid);
                }
            }
        }
        let within = |kind: &str, namespace: &str, object: ObjectReference| {
            (core_key(kind, namespace, &object.name), Some(object.uid))
        };
        // A token of a pod names the node of the pod, too, and does not depend on it.
        let bound = match (pod, secret, node) {
            (Some(pod), ..) => Some(within("Pod", &namespace, pod)),
            (_, Some(secret), _) => Some(within("Secret", &namespace, secret)),
            (.., node) => node.map(|node| within("Node", "", node)),
        };
        let account = (core_key("ServiceAccount", &namespace, &serviceaccount.name), serviceaccount.uid);
        let validity = Validity { account, bound, text: None, expires_at: Some(claims.exp) };
        let audiences = claims.aud.into_iter().filter(|audience| audiences.contains(audience)).collect();
        Self { caller, audiences, validity }
    }

    /// Returns the token that a secret has.
    fn in_secret(claims: SecretClaims, text: &str) -> Self {
        let SecretClaims { namespace, secret, account, account_uid } = claims;
        let mut caller = Caller::service_account(&namespace, &account);
        caller.uid = Some(account_uid.clone());
        let validity = Validity {
            account: (core_key("ServiceAccount", &namespace, &account), account_uid),
            bound: Some((core_key("Secret", &namespace, &secret), None)),
            text: Some(text.to_owned()),
            expires_at: None,
        };
        Self { caller, audiences: vec![ISSUER.to_owned()], validity }
    }
}

/// Returns the key of an object of the core group.
pub(crate) fn core_key(kind: &str, namespace: &str, name: &str) -> Key {
    Key::new(Kind::new("", "v1", kind), namespace, name)
}

/// Returns whether an object has been deleted for longer than the leeway.
fn is_gone(object: &Resource, now: Timestamp) -> bool {
    let deleted = object.document()["metadata"]["deletionTimestamp"].as_str();
    let deleted = deleted.and_then(|text| text.parse::<Timestamp>().ok());
    deleted.is_some_and(|deleted| deleted.as_second() + LEEWAY_S < now.as_second())
}

/// Returns the token in a secret; `None` for a secret without one, and for one that has been marked as invalid.
fn token_in(secret: &Resource) -> Option<String> {
    let is_marked = secret.label("kubernetes.io/legacy-token-invalid-since").is_some();
    let text = secret.document()["data"]["token"].as_str().filter(|_| !is_marked)?;
    String::from_utf8(STANDARD.decode(text).ok()?).ok()
}
