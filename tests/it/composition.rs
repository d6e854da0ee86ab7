//! A kind that is made while the host runs, with a controller that another controller creates.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use homeostat_component::Digest;
use homeostat_fixtures::demo_key;
use homeostat_runtime::CodeSource;
use homeostat_runtime::manifest::ComponentSource;
use homeostat_store::{Change, Key, Kind, Precondition, Propagation, Write};
use homeostat_testing::eventually;
use homeostat_tests::{TestHost, guest, repository};
use serde_json::{Value, json};

const CREATED: &str = "composed-welcomes";

/// The components of the examples, by file name.
struct Examples;

#[async_trait]
impl CodeSource for Examples {
    async fn fetch(&self, source: &ComponentSource) -> Result<Vec<u8>, String> {
        let file = source.file.as_deref().ok_or("no file")?;
        let name = file.strip_suffix(".wasm").filter(|name| ["composer", "instances", "greeter"].contains(name));
        std::fs::read(guest(name.ok_or("no example")?)).map_err(|error| error.to_string())
    }

    async fn sweep(&self, _: &BTreeSet<Digest>) {}
}

fn documents(file: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(repository().join("examples/composition").join(file)).unwrap();
    serde_saphyr::from_multiple(&text).unwrap()
}

fn controller_key(name: &str) -> Key {
    Key::new(Kind::new("homeostat.dev", "v1alpha1", "Controller"), "", name)
}

fn composition_key() -> Key {
    Key::new(Kind::new("compose.homeostat.dev", "v1", "Composition"), "", "welcome")
}

fn welcome_key(name: &str) -> Key {
    Key::new(Kind::new("composed.homeostat.dev", "v1", "Welcome"), "default", name)
}

fn welcome(name: &str, guest: &str) -> Value {
    json!({
        "apiVersion": "composed.homeostat.dev/v1", "kind": "Welcome",
        "metadata": { "name": name, "namespace": "default" }, "spec": { "guest": guest },
    })
}

fn has_condition(document: &Value, kind: &str, status: &str, reason: &str) -> bool {
    let conditions = document["status"]["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().any(|condition| {
        condition["type"] == kind
            && condition["status"] == status
            && (reason.is_empty() || condition["reason"] == reason)
    })
}

async fn runs(test: &TestHost, name: &str) {
    eventually(&format!("{name} to run"), async || {
        test.host.controllers().iter().any(|status| status.name == name).then_some(())
    })
    .await;
}

async fn delete(test: &TestHost, key: Key) {
    let (precondition, propagation) = (Precondition::default(), Propagation::Background);
    test.host.write(Write::Delete { key, precondition, propagation, grace_seconds: None }.into()).await.unwrap();
}

async fn is_gone(test: &TestHost, key: Key) {
    eventually(&format!("{key} to be gone"), async || test.get(&key).await.is_none().then_some(())).await;
}

/// Starts a host with the controllers of the example, and makes the kind `Welcome`.
async fn host() -> TestHost {
    let test = TestHost::start().await;
    test.host.run_controllers(Arc::new(Examples)).await.unwrap();
    for document in documents("controllers.yaml") {
        test.apply(document).await;
    }
    for name in ["composer", "greeter"] {
        runs(&test, name).await;
    }
    for document in documents("welcome.yaml") {
        test.apply(document).await;
    }
    test.until(&composition_key(), "is ready", |document| has_condition(document, "Ready", "True", "Running")).await;
    test
}

/// W6: A kind of run time has its controller at run time. Its instances are composed, and end with its definition.
#[tokio::test(flavor = "multi_thread")]
async fn a_kind_of_run_time_gets_a_controller_and_ends_with_its_composition() {
    let test = host().await;
    test.apply(welcome("a", "Ada")).await;
    test.until(&welcome_key("a"), "is composed", |document| has_condition(document, "Ready", "True", "Composed")).await;
    let second = demo_key("Greeting", "a-second");
    test.until(&second, "has the status of the first one", |document| {
        document["spec"]["name"] == "Ada, who was told: Hello, Ada!"
    })
    .await;
    // A change of an instance changes its resources.
    test.apply(welcome("a", "Grace")).await;
    test.until(&second, "is changed", |document| document["spec"]["name"] == "Grace, who was told: Hello, Grace!")
        .await;
    delete(&test, composition_key()).await;
    let definition = Kind::new("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
    is_gone(&test, Key::new(definition, "", "welcomes.composed.homeostat.dev")).await;
    is_gone(&test, controller_key(CREATED)).await;
    is_gone(&test, second).await;
    eventually("the created controller to end", async || {
        (!test.host.controllers().iter().any(|status| status.name == CREATED)).then_some(())
    })
    .await;
}

/// W3: A created controller maps a further kind by references, and follows the resources that it has made.
#[tokio::test(flavor = "multi_thread")]
async fn a_created_controller_watches_resources_that_refer_to_its_instances() {
    let test = host().await;
    let grant = json!({ "kinds": ["demo.homeostat.dev/Banner"], "verbs": ["get", "watch"] });
    let mut composer = documents("controllers.yaml").remove(0);
    composer["spec"]["grants"]["resources"].as_array_mut().unwrap().push(grant.clone());
    test.apply(composer).await;
    let mut composition = documents("welcome.yaml").remove(0);
    composition["spec"]["grants"].as_array_mut().unwrap().push(grant);
    composition["spec"]["watches"] = json!([{
        "name": "banners",
        "of": { "apiVersion": "demo.homeostat.dev/v1", "kind": "Banner", "plural": "banners", "namespaced": false },
        "mapping": { "field": "/spec/for" },
    }]);
    test.apply(composition).await;
    let banner = |to: Value| {
        json!({
            "apiVersion": "demo.homeostat.dev/v1", "kind": "Banner", "metadata": { "name": "b" }, "spec": { "for": to },
        })
    };
    eventually("the watched kind to be declared", async || {
        test.host.apply_resource(banner(json!([])), "test", true).await.ok()
    })
    .await;
    test.apply(welcome("a", "Ada")).await;
    test.until(&welcome_key("a"), "is composed", |document| has_condition(document, "Ready", "True", "Composed")).await;
    let before = test.idle(CREATED).await.reconciles;
    let instance = json!({ "group": "composed.homeostat.dev", "kind": "Welcome", "namespace": "default", "name": "a" });
    test.apply(banner(json!([instance, { "kind": "Greeting", "namespace": "default", "name": "a" }]))).await;
    eventually("the banner to run the instance", async || (test.status(CREATED).reconciles > before).then_some(()))
        .await;
    // The instance follows what it has made.
    delete(&test, demo_key("Greeting", "a-second")).await;
    test.until(&demo_key("Greeting", "a-second"), "is made again", |document| !document["status"].is_null()).await;
}

/// A created controller loses the rights that its creator loses, at once, and gets them back.
#[tokio::test(flavor = "multi_thread")]
async fn a_created_controller_ends_when_its_creator_loses_a_right() {
    let test = host().await;
    runs(&test, CREATED).await;
    let manifest = documents("controllers.yaml").remove(0);
    let full = manifest["spec"]["grants"]["resources"].clone();
    let fewer: Vec<Value> = full.as_array().unwrap().iter().take(3).cloned().collect();
    let grant = async |resources: Value| {
        let change = Change::Merge(json!({ "spec": { "grants": { "resources": resources } } }));
        let key = controller_key("composer");
        let write = Write::Patch { key, change, precondition: Precondition::default() };
        test.host.write(write.into()).await.unwrap();
    };
    grant(fewer.into()).await;
    test.until(&controller_key(CREATED), "waits", |document| has_condition(document, "Loaded", "False", "Waiting"))
        .await;
    eventually("the created controller to end", async || {
        (!test.host.controllers().iter().any(|status| status.name == CREATED)).then_some(())
    })
    .await;
    grant(full).await;
    runs(&test, CREATED).await;
}

/// A person who widens the grants of a created controller widens nothing, until they make it their own.
#[tokio::test(flavor = "multi_thread")]
async fn a_created_controller_that_is_edited_gets_no_more_than_its_creator_has() {
    let test = host().await;
    runs(&test, CREATED).await;
    let patch = async |change: Value| {
        let (key, change) = (controller_key(CREATED), Change::Merge(change));
        let write = Write::Patch { key, change, precondition: Precondition::default() };
        test.host.write(write.into()).await.unwrap();
    };
    patch(json!({ "spec": { "grants": { "resources": [{ "kinds": ["*"], "verbs": ["*"] }] } } })).await;
    test.until(&controller_key(CREATED), "waits", |document| has_condition(document, "Loaded", "False", "Waiting"))
        .await;
    patch(json!({ "metadata": { "labels": { "homeostat.dev/created-by": null } } })).await;
    runs(&test, CREATED).await;
}
