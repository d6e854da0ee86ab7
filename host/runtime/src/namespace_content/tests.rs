//! Tests of namespaces, on a whole host over memory.

use std::time::Duration;

use homeostat_component::Engine;
use homeostat_fixtures::memory_store;
use homeostat_store::{Change, Precondition, Propagation, Request, Subresource, Write};
use serde_json::{Value, json};

use crate::namespaces::key;
use crate::{BuiltInGroups, Error, Host, NamespacePolicy, Options};

async fn host() -> Host {
    host_with(NamespacePolicy::Existing).await
}

async fn host_with(namespaces: NamespacePolicy) -> Host {
    let engine = Engine::new(homeostat_component::EngineOptions::default()).expect("the engine starts");
    let options = Options { built_in: BuiltInGroups::All, namespaces, ..Options::new(engine, memory_store()) };
    Host::start(options).await.expect("the host starts")
}

fn config_map(namespace: &str, finalizers: &[&str]) -> Write {
    let metadata = json!({ "name": "c", "namespace": namespace, "finalizers": finalizers });
    Write::Create { document: json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata }) }
}

fn namespace(name: &str) -> Write {
    Write::Create { document: json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } }) }
}

async fn delete(host: &Host, name: &str) {
    let (precondition, propagation) = (Precondition::default(), Propagation::Background);
    let delete = Write::Delete { key: key(name), precondition, propagation, grace_seconds: None };
    host.write(delete.into()).await.expect("namespaces can be deleted");
}

async fn until_gone(host: &Host, name: &str) {
    let gone = async {
        while host.store().get(&key(name)).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), gone).await.expect("the namespace goes");
}

#[tokio::test(start_paused = true)]
async fn a_namespace_must_exist_before_something_is_created_in_it() {
    let host = host().await;
    host.write(config_map("default", &[]).into()).await.expect("this namespace always exists");
    let refused = host.write(config_map("a", &[]).into()).await.expect_err("there is no such namespace");
    assert!(matches!(&refused, Error::MissingNamespace(name) if name == "a"), "{refused}");
    host.write(namespace("a").into()).await.expect("namespaces can be created");
    host.write(config_map("a", &[]).into()).await.expect("the namespace exists now");
}

/// Where any name is a namespace, a host has none at first. A created namespace holds its content, and its deletion refuses nothing.
#[tokio::test(start_paused = true)]
async fn without_namespaces_a_resource_needs_none() {
    let host = host_with(NamespacePolicy::Any).await;
    assert!(host.store().get(&key("default")).await.is_err());
    let created = host.write(config_map("a", &[]).into()).await.expect("any name is a namespace");
    host.write(namespace("a").into()).await.expect("namespaces can be created");
    delete(&host, "a").await;
    until_gone(&host, "a").await;
    assert!(host.store().get(created.resource.key()).await.is_err());
    host.write(config_map("a", &[]).into()).await.expect("the name is still a namespace");
}

#[tokio::test(start_paused = true)]
async fn a_namespace_that_always_exists_is_created_again() {
    let host = host().await;
    let former = host.store().get(&key("kube-node-lease")).await.expect("it always exists").uid().to_owned();
    delete(&host, "kube-node-lease").await;
    let created = async {
        while host.store().get(&key("kube-node-lease")).await.is_ok_and(|found| found.uid() == former)
            || host.store().get(&key("kube-node-lease")).await.is_err()
        {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), created).await.expect("it is created again");
}

#[tokio::test(start_paused = true)]
async fn a_deleted_namespace_waits_for_its_content() {
    let host = host().await;
    host.write(namespace("a").into()).await.expect("namespaces can be created");
    let held = host.write(config_map("a", &["demo.dev/held"]).into()).await.expect("the namespace exists");
    delete(&host, "a").await;
    let terminating = async {
        while host.store().get(&key("a")).await.expect("it is held").status()["phase"] != "Terminating" {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), terminating).await.expect("the phase changes");
    let refused = host.write(config_map("a", &[]).into()).await.expect_err("the namespace is being deleted");
    let reason = "unable to create new content in namespace a because it is being terminated";
    assert!(matches!(refused, Error::TerminatingNamespace { .. }), "{refused}");
    assert_eq!(refused.to_string(), format!("configmaps \"c\" is forbidden: {reason}"));
    let told = async {
        loop {
            let namespace = host.store().get(&key("a")).await.expect("it is held");
            let conditions = namespace.status()["conditions"].as_array().cloned().unwrap_or_default();
            if !conditions.is_empty() {
                return conditions;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let told = tokio::time::timeout(Duration::from_secs(60), told).await.expect("the status tells what is left");
    let held_by = "Some content in the namespace has finalizers remaining: demo.dev/held in 1 resource instances";
    let words: Vec<&Value> = told.iter().filter(|told| told["status"] == "True").map(|told| &told["message"]).collect();
    assert_eq!(words, ["Some resources are remaining: configmaps. has 1 resource instances", held_by]);
    // Kubernetes' own tests wait for this one, whatever it says.
    assert!(told.iter().any(|told| told["type"] == "NamespaceDeletionContentFailure"), "{told:?}");
    let change = Change::Merge(json!({ "metadata": { "finalizers": null } }));
    let release = Write::Patch { key: held.resource.key().clone(), change, precondition: Precondition::default() };
    host.write(release.into()).await.expect("finalizers can be removed");
    until_gone(&host, "a").await;
    assert!(host.store().get(held.resource.key()).await.is_err());
}

/// Clients decide about the finalizers of a namespace, and cannot leave its content behind.
#[tokio::test(start_paused = true)]
async fn the_content_of_a_namespace_goes_whatever_its_finalizers_are() {
    let host = host().await;
    let finalize = async |finalizers: &[&str]| {
        let change = Change::Merge(json!({ "spec": { "finalizers": finalizers } }));
        let write = Write::Patch { key: key("a"), change, precondition: Precondition::default() };
        let request = Request { subresource: Some(Subresource::Finalize), ..write.into() };
        host.write(request).await.expect("the finalizers change")
    };
    for finalizers in [&[][..], &["demo.dev/wait"]] {
        host.write(namespace("a").into()).await.expect("namespaces can be created");
        let content = host.write(config_map("a", &[]).into()).await.expect("the namespace exists");
        finalize(finalizers).await;
        let propagation = Propagation::Background;
        let delete =
            Write::Delete { key: key("a"), precondition: Precondition::default(), propagation, grace_seconds: None };
        let deleted = host.write(delete.into()).await.expect("namespaces can be deleted");
        assert!(deleted.resource.is_deleting());
        if !finalizers.is_empty() {
            let waits = async {
                let left = json!(finalizers);
                while host.store().get(&key("a")).await.expect("it is held").document()["spec"]["finalizers"] != left {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            };
            tokio::time::timeout(Duration::from_secs(60), waits).await.expect("the content goes");
            finalize(&[]).await;
        }
        until_gone(&host, "a").await;
        assert!(host.store().get(content.resource.key()).await.is_err(), "{finalizers:?}");
    }
}
