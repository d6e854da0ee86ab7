//! `serviceaccounts/NAME/token`: issues a token for a service account.
//!
//! Source: `pkg/registry/core/serviceaccount/storage/token.go` of Kubernetes.

use axum::response::Response;
use homeostat_store::schema::Reason;
use homeostat_store::{Error, Key};
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::request::{RequestContext, ResourceRequest};
use crate::service_accounts::{BoundObject, ISSUER, ObjectReference, TokenTerms, core_key};
use crate::status::Failure;

/// Group, version and kind of the request.
pub(crate) const KIND: (&str, &str, &str) = ("authentication.k8s.io", "v1", "TokenRequest");

/// The life of a token, in seconds. Source: Kubernetes.
const SECONDS_DEFAULT: i64 = 3600;
const SECONDS_MIN: i64 = 600;
const SECONDS_MAX: i64 = 1 << 32;

/// Most audiences of one token, and bytes of each.
const AUDIENCES_MAX: usize = 64;
const AUDIENCE_BYTES_MAX: usize = 1024;

/// The wishes of a client.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct TokenSpec {
    audiences: Option<Vec<String>>,
    expiration_seconds: Option<i64>,
    bound_object_ref: Option<BoundObjectRef>,
}

/// The object that a token is to be bound to.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct BoundObjectRef {
    kind: String,
    api_version: String,
    name: String,
    uid: String,
}

impl TokenSpec {
    fn parse(spec: Value) -> Result<Self, Failure> {
        match spec {
            Value::Null => Ok(Self::default()),
            Value::Object(_) => {
                serde_json::from_value(spec).map_err(|error| Failure::bad_request(format!("spec: {error}")))
            }
            _ => Err(Failure::bad_request("spec: it is not an object")),
        }
    }
}

/// Answers a request for a token.
pub(crate) async fn answer(request: &ResourceRequest<'_>, key: &Key) -> Result<Response, Failure> {
    let http = request.http;
    let mut document = http.document()?;
    let (group, version, kind) = KIND;
    let sent = document["kind"].as_str().unwrap_or_default();
    if !(sent.is_empty() || sent == kind) {
        let version = document["apiVersion"].as_str().unwrap_or_default();
        let words = format!("{sent} in version {version:?} cannot be handled as a {kind}");
        return Err(Failure::bad_request(words));
    }
    document["apiVersion"] = format!("{group}/{version}").into();
    document["kind"] = kind.into();
    let named = |field: &str| document["metadata"][field].as_str().unwrap_or_default();
    let has_own = |field: &str, own: &str| named(field).is_empty() || named(field) == own;
    if !has_own("namespace", key.namespace()) {
        let words = "the namespace of the provided object does not match the namespace sent on the request";
        return Err(Failure::bad_request(words));
    }
    if !has_own("name", key.name()) {
        let detail = format!("{:?}: must match the service account name if specified", named("name"));
        return Err(invalid(key.name(), "metadata.name", &detail));
    }
    let account = http.api.host.store().get_live(key).await?;
    if !has_own("uid", account.uid()) {
        let (sent, own) = (named("uid"), account.uid());
        let words =
            format!("the UID in the token request ({sent}) does not match the UID of the service account ({own})");
        return Err(Failure::conflict_of(kind, key.name(), &words));
    }
    let TokenSpec { audiences, expiration_seconds, bound_object_ref } = TokenSpec::parse(document["spec"].take())?;
    let audiences = audiences.filter(|named| !named.is_empty()).unwrap_or_else(|| vec![ISSUER.to_owned()]);
    let seconds = expiration_seconds.unwrap_or(SECONDS_DEFAULT);
    check(&audiences, seconds)?;
    let bound = match &bound_object_ref {
        Some(object) => Some(bound(http, key, object).await?),
        None => None,
    };
    let now = Timestamp::now();
    let terms = TokenTerms { audiences: audiences.clone(), seconds, bound };
    let token = http.api.service_accounts.issue(&account, terms, now);
    let token = token.map_err(|error| Failure::internal(format!("failed to generate token: {error}")))?;
    let end = now + SignedDuration::from_secs(seconds);
    document["metadata"] = json!({
        "name": key.name(), "namespace": key.namespace(), "uid": account.uid(),
        "creationTimestamp": in_seconds(now),
    });
    document["spec"] = json!({ "audiences": audiences, "expirationSeconds": seconds });
    if let Some(BoundObjectRef { kind, api_version, name, uid }) = bound_object_ref {
        document["spec"]["boundObjectRef"] = json!({ "kind": kind, "apiVersion": api_version, "name": name });
        if !uid.is_empty() {
            document["spec"]["boundObjectRef"]["uid"] = uid.into();
        }
    }
    document["status"] = json!({ "token": token, "expirationTimestamp": in_seconds(end) });
    http.created(document)
}

fn check(audiences: &[String], seconds: i64) -> Result<(), Failure> {
    let field = "spec.expirationSeconds";
    if seconds < SECONDS_MIN {
        return Err(invalid("", field, &format!("{seconds}: may not specify a duration less than 10 minutes")));
    }
    if seconds > SECONDS_MAX {
        return Err(invalid("", field, &format!("{seconds}: may not specify a duration larger than 2^32 seconds")));
    }
    if audiences.len() > AUDIENCES_MAX || audiences.iter().any(|audience| audience.len() > AUDIENCE_BYTES_MAX) {
        let words =
            format!("a token has at most {AUDIENCES_MAX} audiences, and each at most {AUDIENCE_BYTES_MAX} bytes");
        return Err(Failure::bad_request(words));
    }
    Ok(())
}

/// Returns the object that a token is bound to, which has to be there.
async fn bound(http: &RequestContext<'_>, account: &Key, object: &BoundObjectRef) -> Result<BoundObject, Failure> {
    let store = http.api.host.store();
    let BoundObjectRef { kind, api_version, name, uid } = object;
    // As there, any version.
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let namespace = match (group, kind.as_str()) {
        ("", "Pod" | "Secret") => account.namespace(),
        ("", "Node") => "",
        _ => {
            let words = format!("cannot bind token to object of type {group}/{version}, Kind={kind}");
            return Err(Failure::bad_request(words));
        }
    };
    let found = store.get_live(&core_key(kind, namespace, name)).await.map_err(|error| match error {
        Error::NotFound { .. } => Failure::not_found_of(&format!("{}s", kind.to_lowercase()), name),
        error => error.into(),
    })?;
    let spec = &found.document()["spec"];
    if kind == "Pod" && spec["serviceAccountName"].as_str().unwrap_or_default() != account.name() {
        return Err(Failure::bad_request(format!(
            "cannot bind token for serviceaccount {:?} to pod running with different serviceaccount name.",
            account.name()
        )));
    }
    if !(uid.is_empty() || uid == found.uid()) {
        let words = format!(
            "the UID in the bound object reference ({uid}) does not match the UID in record. The object might have been \
             deleted and then recreated"
        );
        return Err(Failure::conflict_of(kind, name, &words));
    }
    let reference = ObjectReference::of(&found);
    Ok(match kind.as_str() {
        "Secret" => BoundObject::Secret(reference),
        "Node" => BoundObject::Node(reference),
        _ => {
            let node = match spec["nodeName"].as_str().filter(|node| !node.is_empty()) {
                Some(node) => {
                    let found = store.get(&core_key("Node", "", node)).await;
                    let uid = found.map(|node| node.uid().to_owned()).unwrap_or_default();
                    Some(ObjectReference { name: node.to_owned(), uid })
                }
                None => None,
            };
            BoundObject::Pod { pod: reference, node }
        }
    })
}

/// Returns a time as Kubernetes writes it, in whole seconds.
pub(crate) fn in_seconds(time: Timestamp) -> Value {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string().into()
}

fn invalid(name: &str, field: &str, detail: &str) -> Failure {
    let (group, _, kind) = KIND;
    Failure::invalid_of((group, kind), name, Reason::Invalid, field, detail)
}
