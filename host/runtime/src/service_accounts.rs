//! The service account of a pod: the volume with its token, its secrets for pulling images, and the secrets that it allows.
//!
//! In a cluster, a controller makes the account `default` of each namespace, and no pod is created before it. A host runs without
//! that controller. So a namespace without this account takes pods as they are.
//!
//! Source: the admission plug-in `ServiceAccount` of Kubernetes, with its messages.

use std::sync::Arc;

use homeostat_store::{ClockAndIds, Key, Kind, Resource, SystemClockAndIds};
use serde_json::{Map, Value, json};

use crate::Error;
use crate::error::found;
use crate::new_resource::NewResource;

/// The account of a pod that names none.
const DEFAULT: &str = "default";

/// The beginning of the names of volumes with a token.
const VOLUME_PREFIX: &str = "kube-api-access-";

/// Where containers find the token.
const MOUNT_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// The lifetime of a token, in seconds.
const TOKEN_SECONDS: u32 = 3607;

/// The annotation of an account whose pods use only the secrets that the account names.
const ENFORCES: &str = "kubernetes.io/enforce-mountable-secrets";

/// The annotation of a pod that a node made of a file.
const MIRROR: &str = "kubernetes.io/config.mirror";

/// The lists of containers of a new pod, with the words of a refusal.
const CONTAINERS: [(&str, &str); 2] = [("initContainers", "init container"), ("containers", "container")];

/// The list that `pods/ephemeralcontainers` changes, with the words of a refusal.
const EPHEMERAL_CONTAINERS: (&str, &str) = ("ephemeralContainers", "ephemeral container");

fn accounts() -> Kind {
    Kind::new("", "v1", "ServiceAccount")
}

/// Gives a new pod what its service account has for it, and leaves resources of other kinds as they are.
///
/// # Errors
/// [`Error::Forbidden`] for an account that does not exist in a namespace with the account `default`, and for a secret that the
/// account would have to name; [`Error::Store`].
pub(crate) async fn admit(new: NewResource<'_>, document: &mut Value) -> Result<(), Error> {
    if !new.is_pod || !new.kinds.has_built_in_schema(&accounts()) {
        return Ok(());
    }
    let refused = |reason: String| new.refused(&reason);
    let is_mirror = document["metadata"]["annotations"].get(MIRROR).is_some();
    let Some(spec) = document.get_mut("spec").and_then(Value::as_object_mut) else { return Ok(()) };
    if is_mirror {
        return check_mirror(spec).map_err(refused);
    }
    let named = named_account(spec).unwrap_or(DEFAULT).to_owned();
    if let Some(account) = account_of(new, &named).await? {
        add_account(spec, &named, account.document());
        check_secrets(spec, account.document()).map_err(refused)?;
    }
    Ok(())
}

/// Returns the account of a pod; `None` in a namespace without the account `default`, whose pods are taken as they are.
async fn account_of(pod: NewResource<'_>, named: &str) -> Result<Option<Arc<Resource>>, Error> {
    let namespace = &pod.target.namespace;
    let read = async |account: &str| found(pod.store.get(&Key::new(accounts(), namespace, account)).await);
    if let Some(account) = read(named).await? {
        return Ok(Some(account));
    }
    if named == DEFAULT || read(DEFAULT).await?.is_none() {
        return Ok(None);
    }
    Err(pod
        .refused(&format!("error looking up service account {namespace}/{named}: serviceaccount {named:?} not found")))
}

/// Checks the secrets of the ephemeral containers that a pod gets. `changed` is the pod after it.
///
/// # Errors
/// As [`admit`].
pub(crate) async fn admit_ephemeral_containers(pod: NewResource<'_>, changed: &Resource) -> Result<(), Error> {
    let Some(spec) = changed.document()["spec"].as_object() else { return Ok(()) };
    let Some(named) = named_account(spec).filter(|_| pod.kinds.has_built_in_schema(&accounts())) else {
        return Ok(());
    };
    let Some(account) = account_of(pod, named).await? else { return Ok(()) };
    if !enforces(account.document()) {
        return Ok(());
    }
    let checked = check_secrets_of_containers(spec, &[EPHEMERAL_CONTAINERS], account.document());
    checked.map_err(|reason| pod.refused(&reason))
}

/// Returns the account that a pod names, also in the former field.
fn named_account(spec: &Map<String, Value>) -> Option<&str> {
    let text = |field: &str| spec.get(field).and_then(Value::as_str).filter(|name| !name.is_empty());
    text("serviceAccountName").or_else(|| text("serviceAccount"))
}

/// Gives a pod the name of its account, the volume with the token, and the secrets for pulling images.
fn add_account(spec: &mut Map<String, Value>, name: &str, account: &Value) {
    spec.insert("serviceAccountName".to_owned(), name.into());
    let stated = spec.get("automountServiceAccountToken").and_then(Value::as_bool);
    if stated.or(account["automountServiceAccountToken"].as_bool()).unwrap_or(true) {
        mount(spec);
    }
    if items(spec, "imagePullSecrets").is_empty()
        && let Some(secrets) = account["imagePullSecrets"].as_array().filter(|secrets| !secrets.is_empty())
    {
        let names: Vec<Value> = secrets.iter().map(|secret| json!({ "name": secret["name"] })).collect();
        spec.insert("imagePullSecrets".to_owned(), names.into());
    }
}

/// Mounts the volume with the token into each container that has nothing there.
fn mount(spec: &mut Map<String, Value>) {
    let named = items(spec, "volumes").iter().filter_map(|volume| volume["name"].as_str());
    let existing = named.into_iter().find(|name| name.starts_with(VOLUME_PREFIX)).map(str::to_owned);
    let volume = existing.clone().unwrap_or_else(|| format!("{VOLUME_PREFIX}{}", SystemClockAndIds.suffix()));
    let mut is_mounted = false;
    for (list, _) in CONTAINERS {
        let containers = spec.get_mut(list).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten().filter_map(Value::as_object_mut) {
            if items(container, "volumeMounts").iter().any(|mount| mount["mountPath"] == MOUNT_PATH) {
                continue;
            }
            push(container, "volumeMounts", json!({ "name": volume, "readOnly": true, "mountPath": MOUNT_PATH }));
            is_mounted = true;
        }
    }
    if is_mounted && existing.is_none() {
        push(spec, "volumes", json!({ "name": volume, "projected": token_source() }));
    }
}

/// Returns the source of the volume: the token, the certificates of the API server, and the namespace.
fn token_source() -> Value {
    let namespace = json!({ "apiVersion": "v1", "fieldPath": "metadata.namespace" });
    json!({ "defaultMode": 0o644, "sources": [
        { "serviceAccountToken": { "path": "token", "expirationSeconds": TOKEN_SECONDS } },
        { "configMap": { "name": "kube-root-ca.crt", "items": [{ "key": "ca.crt", "path": "ca.crt" }] } },
        { "downwardAPI": { "items": [{ "path": "namespace", "fieldRef": namespace }] } },
    ] })
}

/// Refuses accounts and secrets in a pod that a node made of a file.
fn check_mirror(spec: &Map<String, Value>) -> Result<(), String> {
    if named_account(spec).is_some() {
        return Err("a mirror pod may not reference service accounts".to_owned());
    }
    let volumes = items(spec, "volumes");
    let sources = || volumes.iter().filter_map(|volume| volume["projected"]["sources"].as_array()).flatten();
    let has_secret = volumes.iter().chain(sources()).any(|source| source.get("secret").is_some())
        || !secrets_of_containers(spec, &CONTAINERS).is_empty()
        || !items(spec, "imagePullSecrets").is_empty();
    if has_secret {
        return Err("a mirror pod may not reference secrets".to_owned());
    }
    match sources().any(|source| source.get("serviceAccountToken").is_some()) {
        true => Err("a mirror pod may not use ServiceAccountToken volume projections".to_owned()),
        false => Ok(()),
    }
}

/// Returns whether pods use only the secrets that their account names.
fn enforces(account: &Value) -> bool {
    let stated = account["metadata"]["annotations"][ENFORCES].as_str().unwrap_or_default();
    matches!(stated, "1" | "t" | "T" | "true" | "TRUE" | "True")
}

/// Returns whether an account names a secret in a list.
fn names(account: &Value, list: &str, secret: &str) -> bool {
    account[list].as_array().into_iter().flatten().any(|named| named["name"].as_str() == Some(secret))
}

fn name_of(account: &Value) -> &str {
    account["metadata"]["name"].as_str().unwrap_or_default()
}

fn unnamed_secret(what: &str, secret: &str, account: &Value) -> String {
    let name = name_of(account);
    format!(
        "{what} secret.secretName=\"{secret}\" is not allowed because service account {name} does not reference that secret"
    )
}

/// Refuses secrets in the environment of containers that an account does not name.
fn check_secrets_of_containers(
    spec: &Map<String, Value>,
    lists: &[(&str, &str)],
    account: &Value,
) -> Result<(), String> {
    let mut secrets = secrets_of_containers(spec, lists).into_iter();
    match secrets.find(|(secret, _)| !names(account, "secrets", secret)) {
        Some((secret, whence)) => Err(unnamed_secret(&format!("{whence} referencing"), secret, account)),
        None => Ok(()),
    }
}

/// Refuses secrets that an account does not name, if the account asks for that.
fn check_secrets(spec: &Map<String, Value>, account: &Value) -> Result<(), String> {
    if !enforces(account) {
        return Ok(());
    }
    for volume in items(spec, "volumes") {
        let secret = volume["secret"]["secretName"].as_str().unwrap_or_default();
        if volume.get("secret").is_some() && !names(account, "secrets", secret) {
            return Err(unnamed_secret("volume with", secret, account));
        }
    }
    check_secrets_of_containers(spec, &CONTAINERS, account)?;
    for (at, pull) in items(spec, "imagePullSecrets").iter().enumerate() {
        let secret = pull["name"].as_str().unwrap_or_default();
        if !names(account, "imagePullSecrets", secret) {
            let name = name_of(account);
            return Err(format!(
                "imagePullSecrets[{at}].name=\"{secret}\" is not allowed because service account {name} does not reference that imagePullSecret"
            ));
        }
    }
    Ok(())
}

/// Returns the secrets in the environment of the containers, with the words of a refusal.
fn secrets_of_containers<'d>(spec: &'d Map<String, Value>, lists: &[(&str, &str)]) -> Vec<(&'d str, String)> {
    let mut found = Vec::new();
    for (list, kind) in lists {
        for container in items(spec, list).iter().filter_map(Value::as_object) {
            let name = container.get("name").and_then(Value::as_str).unwrap_or_default();
            for variable in items(container, "env") {
                let variable_name = variable["name"].as_str().unwrap_or_default();
                let secret = variable["valueFrom"]["secretKeyRef"]["name"].as_str();
                found.extend(secret.map(|secret| (secret, format!("{kind} {name} with envVar {variable_name}"))));
            }
            for source in items(container, "envFrom") {
                let secret = source["secretRef"]["name"].as_str();
                found.extend(secret.map(|secret| (secret, format!("{kind} {name} with envFrom"))));
            }
        }
    }
    found
}

fn items<'d>(fields: &'d Map<String, Value>, list: &str) -> &'d [Value] {
    fields.get(list).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// Adds an item to a list, which is made if it is absent. A value of another type stays, and is refused later.
fn push(fields: &mut Map<String, Value>, list: &str, item: Value) {
    let value = fields.entry(list).or_insert(Value::Null);
    if value.is_null() {
        *value = json!([]);
    }
    if let Some(items) = value.as_array_mut() {
        items.push(item);
    }
}

#[cfg(test)]
mod tests;
