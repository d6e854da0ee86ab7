//! kubectl on controllers.

use serde_json::{Value, json};

use super::*;
use crate::kubectl::Cluster;

/// C1, C5: kubectl creates, changes and deletes a controller. A refused version leaves the old one running.
#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
async fn kubectl_creates_changes_and_deletes_a_controller() {
    let (test, code) = host_with_code().await;
    let (one, two) = (code.greeter("one"), code.greeter("two"));
    let cluster = Cluster::over(test).await;
    let test = &cluster.test;
    cluster.file("a.json", &controller("greeter", &one).to_string());
    cluster.done(&["apply", "-f", "a.json"]).await;
    cluster.done(&["wait", "--for=condition=Ready", "--timeout=60s", "controller/greeter"]).await;
    test.apply(demo("Greeting", "world", json!({ "name": "World" }))).await;
    test.until(&demo_key("Greeting", "world"), "is greeted", |document| !document["status"].is_null()).await;

    let explained = cluster.done(&["explain", "controller.spec.limits"]).await;
    assert!(explained.contains("effectBytes") && explained.contains("From 1ms to 1h"), "{explained}");

    let misspelt = "{\"spec\": {\"limit\": {}}}";
    let said = cluster.refused(&["patch", "controller", "greeter", "--type=merge", "-p", misspelt]).await;
    assert!(said.contains("spec.limit"), "{said}");
    let wrong = "{\"spec\": {\"concurrency\": 0}}";
    let said = cluster.refused(&["patch", "controller", "greeter", "--type=merge", "-p", wrong]).await;
    assert!(said.contains("spec.concurrency") && said.contains("out of bounds"), "{said}");

    let other = format!("{{\"spec\": {{\"component\": {{\"digest\": \"{two}\"}}, \"concurrency\": 2}}}}");
    cluster.done(&["patch", "controller", "greeter", "--type=merge", "-p", &other]).await;
    eventually("the swap", async || (test.status("greeter").generation == 2).then_some(())).await;
    assert_eq!((test.status("greeter").digest, test.status("greeter").concurrency), (two.clone(), 2));
    let absent = format!("{{\"spec\": {{\"component\": {{\"digest\": \"{}\"}}}}}}", Digest::of(b"absent"));
    cluster.done(&["patch", "controller", "greeter", "--type=merge", "-p", &absent]).await;
    cluster.done(&["wait", "--for=condition=Degraded", "--timeout=60s", "controller/greeter"]).await;
    assert_eq!(test.status("greeter").digest, two, "the running version keeps running");

    let revisions = cluster.json(&["get", "controllerrevisions"]).await;
    let names: Vec<&Value> =
        revisions["items"].as_array().unwrap().iter().map(|item| &item["metadata"]["name"]).collect();
    assert_eq!(names, ["greeter-1", "greeter-2"], "a version that never ran has no revision");

    cluster.done(&["delete", "controller", "greeter", "--wait=false"]).await;
    cluster.done(&["apply", "-f", "a.json"]).await;
    eventually("the name to be used again", async || {
        let status = test.host.status("greeter")?;
        (status.digest == one && status.generation == 1).then_some(())
    })
    .await;
    cluster.done(&["delete", "controller", "greeter"]).await;
    eventually("the controller to be gone", async || test.host.status("greeter").is_none().then_some(())).await;
    eventually("its revisions to be collected", async || {
        let left = cluster.json(&["get", "controllerrevisions"]).await;
        left["items"].as_array().unwrap().is_empty().then_some(())
    })
    .await;
}

/// Header values are credentials. The host never shows them, and refuses to store the placeholder that it
/// shows.
#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
async fn header_values_are_hidden_from_readers_and_not_overwritten_by_an_edit() {
    let (test, code) = host_with_code().await;
    let digest = code.greeter("one");
    let cluster = Cluster::over(test).await;
    let mut document = controller("greeter", &digest);
    document["spec"]["grants"]["http"] =
        json!([{ "urls": ["https://a.example/*"], "headers": { "authorization": { "value": "Bearer hush" } } }]);
    cluster.file("a.json", &document.to_string());
    cluster.done(&["apply", "-f", "a.json"]).await;
    cluster.done(&["wait", "--for=condition=Ready", "--timeout=60s", "controller/greeter"]).await;
    for shown in [
        &["get", "controllers", "-o", "yaml"][..],
        &["get", "controller", "greeter", "-o", "json"],
        &["get", "controllerrevision", "greeter-1", "-o", "json"],
        &["get", "controllers", "-o", "json", "--watch", "--request-timeout=2s"],
    ] {
        let (_, said) = cluster.run(shown).await;
        assert!(!said.contains("hush") && said.contains("***"), "{shown:?}: {said}");
    }
    let mut shown = cluster.json(&["get", "controller", "greeter"]).await;
    shown["spec"]["concurrency"] = 3.into();
    cluster.file("shown.json", &shown.to_string());
    let said = cluster.refused(&["replace", "-f", "shown.json"]).await;
    assert!(said.contains("spec.grants.http[0].headers.authorization.value"), "{said}");
    let grants = cluster.test.host.definition("greeter").unwrap().grants;
    assert!(json!(grants).to_string().contains("hush"), "the host still has the value");
}
