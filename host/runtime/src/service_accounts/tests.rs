use homeostat_component::{Engine, EngineOptions};
use homeostat_fixtures::memory_store;
use homeostat_store::{Change, Precondition, Request, Subresource, Write};

use super::*;
use crate::{BuiltInGroups, Host, Options};

fn spec(value: Value) -> Map<String, Value> {
    let Value::Object(spec) = value else { panic!("no object") };
    spec
}

fn completed(pod: Value, account: &Value) -> Value {
    let mut spec = spec(pod);
    add_account(&mut spec, DEFAULT, account);
    spec.into()
}

#[test]
fn each_container_mounts_the_token_of_the_account() {
    let pod = completed(
        json!({
            "initContainers": [{ "name": "i" }],
            "containers": [{ "name": "a" }, { "name": "b", "volumeMounts": [{ "name": "own", "mountPath": MOUNT_PATH }] }],
            "volumes": [{ "name": "own", "emptyDir": {} }],
        }),
        &json!({ "imagePullSecrets": [{ "name": "pull" }] }),
    );
    let volume = pod["volumes"][1]["name"].as_str().unwrap();
    assert!(volume.starts_with(VOLUME_PREFIX) && volume.len() == VOLUME_PREFIX.len() + 5, "{volume}");
    let mount = json!({ "name": volume, "readOnly": true, "mountPath": MOUNT_PATH });
    assert_eq!(pod["initContainers"][0]["volumeMounts"], json!([mount]));
    assert_eq!(pod["containers"][0]["volumeMounts"], json!([mount]));
    assert_eq!(pod["containers"][1]["volumeMounts"], json!([{ "name": "own", "mountPath": MOUNT_PATH }]));
    let sources = pod["volumes"][1]["projected"]["sources"].as_array().unwrap();
    assert_eq!(sources[0]["serviceAccountToken"], json!({ "path": "token", "expirationSeconds": 3607 }));
    assert_eq!(pod["serviceAccountName"], DEFAULT);
    assert_eq!(pod["imagePullSecrets"], json!([{ "name": "pull" }]));
}

#[test]
fn a_pod_and_its_account_opt_out_and_the_word_of_the_pod_counts() {
    let [yes, no, silent] = [json!(true), json!(false), Value::Null];
    for (pod, account, is_mounted) in
        [(&yes, &no, true), (&no, &yes, false), (&silent, &no, false), (&silent, &silent, true)]
    {
        let pod = json!({ "automountServiceAccountToken": pod, "containers": [{ "name": "c" }] });
        let account = json!({ "automountServiceAccountToken": account });
        let volumes = completed(pod.clone(), &account)["volumes"].as_array().map_or(0, Vec::len);
        assert_eq!(volumes == 1, is_mounted, "{pod} {account}");
    }
}

#[test]
fn a_volume_and_pull_secrets_that_a_pod_has_already_are_used() {
    let own = format!("{VOLUME_PREFIX}own");
    let pod = json!({
        "containers": [{ "name": "c" }], "volumes": [{ "name": own }], "imagePullSecrets": [{ "name": "mine" }],
    });
    let pod = completed(pod, &json!({ "imagePullSecrets": [{ "name": "pull" }] }));
    assert_eq!(pod["volumes"], json!([{ "name": own }]));
    assert_eq!(pod["containers"][0]["volumeMounts"][0]["name"], json!(own));
    assert_eq!(pod["imagePullSecrets"], json!([{ "name": "mine" }]));
}

#[test]
fn an_account_that_enforces_its_secrets_refuses_others() {
    let account = |enforces: &str| {
        json!({
            "metadata": { "name": "a", "annotations": { ENFORCES: enforces } },
            "secrets": [{ "name": "s" }], "imagePullSecrets": [{ "name": "p" }],
        })
    };
    let env = |secret: &str| json!([{ "name": "V", "valueFrom": { "secretKeyRef": { "name": secret, "key": "k" } } }]);
    let named = json!({
        "volumes": [{ "name": "v", "secret": { "secretName": "s" } }], "imagePullSecrets": [{ "name": "p" }],
        "containers": [{ "name": "c", "env": env("s"), "envFrom": [{ "secretRef": { "name": "s" } }] }],
    });
    assert_eq!(check_secrets(&spec(named), &account("true")), Ok(()));
    for (pod, reason) in [
        (json!({ "volumes": [{ "secret": { "secretName": "o" } }] }), "volume with secret.secretName=\"o\" is not"),
        (
            json!({ "containers": [{ "name": "c", "env": env("o") }] }),
            "container c with envVar V referencing secret.secretName=\"o\" is not",
        ),
        (
            json!({ "initContainers": [{ "name": "i", "envFrom": [{ "secretRef": { "name": "o" } }] }] }),
            "init container i with envFrom referencing secret.secretName=\"o\" is not",
        ),
        (json!({ "imagePullSecrets": [{ "name": "p" }, { "name": "o" }] }), "imagePullSecrets[1].name=\"o\" is not"),
    ] {
        let refused = check_secrets(&spec(pod.clone()), &account("true")).unwrap_err();
        assert!(refused.starts_with(reason), "{refused}");
        assert_eq!(check_secrets(&spec(pod), &account("no")), Ok(()));
    }
}

#[test]
fn a_mirror_pod_has_neither_accounts_nor_secrets() {
    assert_eq!(check_mirror(&spec(json!({ "containers": [{ "name": "c" }] }))), Ok(()));
    let projected = |source: Value| json!({ "volumes": [{ "name": "v", "projected": { "sources": [source] } }] });
    for (pod, reason) in [
        (json!({ "serviceAccount": "a" }), "service accounts"),
        (json!({ "volumes": [{ "name": "v", "secret": {} }] }), "secrets"),
        (projected(json!({ "secret": {} })), "secrets"),
        (projected(json!({ "serviceAccountToken": {} })), "ServiceAccountToken"),
    ] {
        let refused = check_mirror(&spec(pod)).unwrap_err();
        assert!(refused.contains(reason), "{refused}");
    }
}

#[tokio::test]
async fn ephemeral_containers_use_only_the_secrets_that_the_account_names() {
    let engine = Engine::new(EngineOptions::default()).unwrap();
    let options = Options { built_in: BuiltInGroups::All, ..Options::new(engine, memory_store()) };
    let host = Host::start(options).await.unwrap();
    let create = async |kind: &str, name: &str, annotations: Value, part: Value| {
        let metadata = json!({ "name": name, "namespace": "default", "annotations": annotations });
        let mut document = json!({ "apiVersion": "v1", "kind": kind, "metadata": metadata });
        document.as_object_mut().unwrap().extend(spec(part));
        host.write(Write::Create { document }.into()).await.unwrap();
    };
    create("ServiceAccount", "strict", json!({ ENFORCES: "true" }), json!({ "secrets": [{ "name": "s" }] })).await;
    create("ServiceAccount", "free", json!({}), json!({})).await;
    let add = async |pod: &str, name: &str, secret: &str| {
        let source = json!({ "secretKeyRef": { "name": secret, "key": "k" } });
        let container = json!({ "name": name, "image": "i", "env": [{ "name": "V", "valueFrom": source }] });
        let change = Change::Strategic(json!({ "spec": { "ephemeralContainers": [container] } }));
        let key = Key::new(Kind::new("", "v1", "Pod"), "default", pod);
        let write = Write::Patch { key, change, precondition: Precondition::default() };
        host.write(Request { subresource: Some(Subresource::EphemeralContainers), ..write.into() }).await
    };
    for account in ["strict", "free"] {
        let pod = json!({ "serviceAccountName": account, "containers": [{ "name": "c", "image": "i" }] });
        create("Pod", account, json!({}), json!({ "spec": pod })).await;
        add(account, "named", "s").await.unwrap();
    }
    add("free", "other", "o").await.unwrap();
    let refused = add("strict", "other", "o").await.unwrap_err();
    let words = "pods \"strict\" is forbidden: ephemeral container other with envVar V referencing secret.secretName=\"o\" is not";
    assert!(matches!(refused, Error::Forbidden(_)) && refused.to_string().contains(words), "{refused}");
}
