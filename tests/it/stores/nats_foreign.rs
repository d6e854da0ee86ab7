//! Kinds that follow buckets of other programs.

use std::ops::Deref;
use std::sync::Arc;

use async_nats::jetstream::{self, stream};
use homeostat_nats::settings::{ForeignBucket, StatusForm, StatusPlace, ValueForm};
use homeostat_nats::{Bucket, BucketSettings};
use homeostat_store::cached::{CachedState, Upstream};
use homeostat_store::{Change, Error, Key, Kind, Precondition, Propagation, Resource, Write};
use homeostat_testing::{eventually, eventually_blocking};
use homeostat_tests::shared_nats;
use serde_json::{Value, json};

use super::clusters::GREETER;
use super::hosts::{LiveHost, file, in_nats};
use super::nats::{admin, bucket_of, settings};

/// The programs around a store: they write a bucket of values and read one of statuses.
struct Programs {
    jetstream: jetstream::Context,
    values: String,
    statuses: String,
}

/// A store and the programs around it.
struct Foreign {
    programs: Programs,
    bucket: Arc<Bucket>,
}

impl Programs {
    async fn new(name: &str) -> Self {
        let jetstream = admin(&shared_nats().url()).await;
        let (values, statuses) = (format!("{name}-values"), format!("{name}-statuses"));
        for bucket in [&values, &statuses] {
            let config = stream::Config {
                name: format!("KV_{bucket}"),
                subjects: vec![format!("$KV.{bucket}.>")],
                max_messages_per_subject: 1,
                allow_rollup: true,
                ..Default::default()
            };
            jetstream.create_stream(config).await.unwrap();
        }
        Self { jetstream, values, statuses }
    }

    async fn put(&self, key: &str, value: &str) {
        let subject = format!("$KV.{}.{key}", self.values);
        self.jetstream.publish(subject, value.to_owned().into()).await.unwrap().await.unwrap();
    }

    async fn mark(&self, key: &str, operation: &str) {
        let mut headers = async_nats::HeaderMap::new();
        headers.insert("KV-Operation", operation);
        let subject = format!("$KV.{}.{key}", self.values);
        self.jetstream.publish_with_headers(subject, headers, "".into()).await.unwrap().await.unwrap();
    }

    async fn last(&self, bucket: &str, key: &str) -> Option<Value> {
        let stream = self.jetstream.get_stream_no_info(format!("KV_{bucket}")).await.unwrap();
        let message = stream.get_last_raw_message_by_subject(&format!("$KV.{bucket}.{key}")).await.ok()?;
        serde_json::from_slice(&message.payload).ok()
    }
}

impl Deref for Foreign {
    type Target = Programs;

    fn deref(&self) -> &Programs {
        &self.programs
    }
}

impl Foreign {
    async fn new(name: &str, status: impl FnOnce(&str) -> StatusPlace) -> Self {
        Self::of(name, ValueForm::Spec, status).await
    }

    /// Binds the kind to values of a form.
    async fn of(name: &str, value: ValueForm, status: impl FnOnce(&str) -> StatusPlace) -> Self {
        let programs = Programs::new(name).await;
        let binding = ForeignBucket {
            kind: kind(),
            namespaced: true,
            bucket: programs.values.clone(),
            key: "{namespace}/{name}".to_owned(),
            value,
            status: status(&programs.statuses),
        };
        let bucket = bucket_of(BucketSettings { foreign: vec![binding], ..settings(&shared_nats().url(), name) });
        bucket.connect().await.unwrap();
        Self { programs, bucket }
    }

    async fn resource(&self, name: &str, is_it: impl Fn(&Resource) -> bool) -> Arc<Resource> {
        let look = || async { self.bucket.get(&key(name)).await.ok().filter(|resource| is_it(resource)) };
        eventually("the resource of a value", look).await
    }

    async fn gone(&self, name: &str) {
        let look = || async { matches!(self.bucket.get(&key(name)).await, Err(Error::NotFound { .. })).then_some(()) };
        eventually("the end of a resource", look).await;
    }

    async fn write(&self, write: Write) -> Result<Arc<Resource>, Error> {
        Ok(self.bucket.submit(write.into(), CachedState::Unknown).await?.response.resource)
    }
}

fn kind() -> Kind {
    Kind::new("kumori.systems", "v1", "V3Deployment")
}

fn key(name: &str) -> Key {
    Key::new(kind(), "team", name)
}

fn status(name: &str, status: Value) -> Write {
    Write::UpdateStatus { key: key(name), status, precondition: Precondition::default() }
}

fn patch(name: &str, patch: Value) -> Write {
    Write::Patch { key: key(name), change: Change::Merge(patch), precondition: Precondition::default() }
}

fn has_size(size: u64) -> impl Fn(&Resource) -> bool {
    move |resource| resource.document()["spec"]["size"] == size
}

#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
#[tokio::test(flavor = "multi_thread")]
async fn a_put_a_delete_and_a_purge_of_another_program_bring_and_end_resources() {
    let foreign = Foreign::new("f-puts", |_| StatusPlace::Nowhere).await;
    foreign.put("team/web", r#"{"size":1}"#).await;
    let first = foreign.resource("web", has_size(1)).await;
    assert_eq!((first.generation(), first.annotation("homeostat.dev/key")), (1, Some("team/web")));
    foreign.put("team/web", r#"{"size":2}"#).await;
    let second = foreign.resource("web", has_size(2)).await;
    assert_eq!((second.generation(), second.uid()), (2, first.uid()));
    for operation in ["DEL", "PURGE"] {
        foreign.mark("team/web", operation).await;
        foreign.gone("web").await;
        foreign.put("team/web", r#"{"size":3}"#).await;
        assert_ne!(foreign.resource("web", has_size(3)).await.uid(), first.uid());
    }
    foreign.put("team/Web_1", r#"{"size":4}"#).await;
    foreign.resource("k-k5swexzr", has_size(4)).await;
}

#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
#[tokio::test(flavor = "multi_thread")]
async fn a_purge_without_a_marker_is_found_by_the_next_host() {
    let foreign = Foreign::new("f-purge", |_| StatusPlace::Nowhere).await;
    foreign.put("team/web", r#"{"size":1}"#).await;
    foreign.resource("web", has_size(1)).await;
    foreign.bucket.close().await;
    let stream = foreign.jetstream.get_stream_no_info("KV_f-purge-values").await.unwrap();
    stream.purge().await.unwrap();
    let binding = ForeignBucket {
        kind: kind(),
        namespaced: true,
        bucket: foreign.values.clone(),
        key: "{namespace}/{name}".to_owned(),
        value: ValueForm::Spec,
        status: StatusPlace::Nowhere,
    };
    let bucket = bucket_of(BucketSettings { foreign: vec![binding], ..settings(&shared_nats().url(), "f-purge") });
    bucket.connect().await.unwrap();
    Foreign { bucket, ..foreign }.gone("web").await;
}

#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
#[tokio::test(flavor = "multi_thread")]
async fn a_status_goes_to_the_bucket_that_the_binding_names() {
    let place = |bucket: &str| StatusPlace::Bucket {
        bucket: bucket.to_owned(),
        key: "{namespace}.{name}".to_owned(),
        form: StatusForm::Wrapped,
    };
    let foreign = Foreign::new("f-status", place).await;
    foreign.put("team/web", r#"{"size":1}"#).await;
    foreign.resource("web", has_size(1)).await;
    foreign.write(status("web", json!({"ready": true}))).await.unwrap();
    let wanted = json!({"status": {"ready": true}, "observedGeneration": 1});
    let look = || async { (foreign.last(&foreign.statuses, "team.web").await == Some(wanted.clone())).then_some(()) };
    eventually("the status", look).await;
    foreign.mark("team/web", "DEL").await;
    let look = || async { foreign.last(&foreign.statuses, "team.web").await.is_none().then_some(()) };
    eventually("the end of the status", look).await;
}

#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
#[tokio::test(flavor = "multi_thread")]
async fn a_status_goes_to_the_field_that_the_binding_names() {
    let foreign = Foreign::new("f-field", |_| StatusPlace::Field("/status".to_owned())).await;
    foreign.put("team/web", r#"{"size":1}"#).await;
    foreign.resource("web", has_size(1)).await;
    foreign.write(status("web", json!({"ready": true}))).await.unwrap();
    let wanted = json!({"size": 1, "status": {"ready": true}});
    let look = || async { (foreign.last(&foreign.values, "team/web").await == Some(wanted.clone())).then_some(()) };
    eventually("the status", look).await;
    foreign.put("team/web", r#"{"size":2,"status":{"ready":true}}"#).await;
    let resource = foreign.resource("web", has_size(2)).await;
    assert_eq!(resource.document()["spec"], json!({"size": 2}), "the status is no part of the spec");
}

#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
#[tokio::test(flavor = "multi_thread")]
async fn of_a_value_that_is_a_whole_document_only_the_spec_is_read() {
    let place = |_: &str| StatusPlace::Field("/status".to_owned());
    let foreign = Foreign::of("f-document", ValueForm::Document, place).await;
    foreign.put("team/web", r#"{"kind":"App","spec":{"size":1}}"#).await;
    let resource = foreign.resource("web", has_size(1)).await;
    assert_eq!(resource.document()["spec"], json!({"size": 1}), "the rest of the value is no part of the spec");
    foreign.write(status("web", json!({"ready": true}))).await.unwrap();
    let wanted = json!({"kind": "App", "spec": {"size": 1}, "status": {"ready": true}});
    let look = || async { (foreign.last(&foreign.values, "team/web").await == Some(wanted.clone())).then_some(()) };
    eventually("the status beside the spec", look).await;
    foreign.put("team/bare", r#"{"size":1}"#).await;
    let is_told = |resource: &Resource| resource.annotation("homeostat.dev/unreadable") == Some("it has no `spec`");
    foreign.resource("bare", is_told).await;
}

#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
#[tokio::test(flavor = "multi_thread")]
async fn a_resource_with_a_finalizer_outlives_its_value() {
    let foreign = Foreign::new("f-finalizer", |_| StatusPlace::Nowhere).await;
    foreign.put("team/web", r#"{"size":1}"#).await;
    let first = foreign.resource("web", has_size(1)).await;
    foreign.write(patch("web", json!({"metadata": {"finalizers": ["demo.dev/clean"]}}))).await.unwrap();
    foreign.mark("team/web", "DEL").await;
    let deleting = foreign.resource("web", Resource::is_deleting).await;
    assert!(has_size(1)(&deleting), "with its last spec");
    foreign.put("team/web", r#"{"size":2}"#).await;
    foreign.write(patch("web", json!({"metadata": {"finalizers": null}}))).await.unwrap();
    let second = foreign.resource("web", has_size(2)).await;
    assert_ne!(second.uid(), first.uid(), "the value that came back makes a new one");
}

#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
#[tokio::test(flavor = "multi_thread")]
async fn a_value_that_is_no_json_has_a_resource_that_says_so() {
    let foreign = Foreign::new("f-json", |_| StatusPlace::Nowhere).await;
    foreign.put("team/web", "no json").await;
    let is_told = |resource: &Resource| resource.annotation("homeostat.dev/unreadable").is_some();
    foreign.resource("web", is_told).await;
    foreign.put("team/web", r#"{"size":1}"#).await;
    let readable = foreign.resource("web", has_size(1)).await;
    assert!(!is_told(&readable));
    foreign.put("another/form/of/key/", "{}").await;
}

#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
#[tokio::test(flavor = "multi_thread")]
async fn only_metadata_and_status_of_a_foreign_kind_can_be_written() {
    let foreign = Foreign::new("f-guard", |_| StatusPlace::Nowhere).await;
    foreign.put("team/web", r#"{"size":1}"#).await;
    foreign.resource("web", has_size(1)).await;
    let document = json!({
        "apiVersion": "kumori.systems/v1", "kind": "V3Deployment", "metadata": {"name": "new", "namespace": "team"},
    });
    let deletion = Write::Delete {
        key: key("web"),
        precondition: Precondition::default(),
        propagation: Propagation::Background,
        grace_seconds: None,
    };
    for refused in [Write::Create { document }, patch("web", json!({"spec": {"size": 2}})), deletion] {
        let error = foreign.write(refused.clone()).await.unwrap_err();
        assert!(matches!(error, Error::Forbidden { .. }), "{refused:?}: {error}");
    }
    foreign.write(patch("web", json!({"metadata": {"labels": {"a": "b"}}}))).await.unwrap();
    foreign.write(status("web", json!({"ready": true}))).await.unwrap();
}

/// S15: A host runs a guest on the values of another program. The stores file binds its kind to their bucket, and the
/// guest's statuses come back to the bucket that the binding names.
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
#[test]
fn a_guest_reconciles_the_values_of_another_program() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let programs = runtime.block_on(Programs::new("f-host"));
    runtime.block_on(programs.put("team/early", r#"{"name":"early"}"#));
    let mut bus = in_nats("f-host");
    bus["nats"]["foreign"] = json!([{
        "kind": "demo.homeostat.dev/v1/Greeting", "namespaced": true, "bucket": programs.values,
        "key": "{namespace}/{name}", "status": {"bucket": programs.statuses, "key": "{namespace}.{name}"},
    }]);
    let stores = file(&[bus], &[("demo.homeostat.dev/Greeting", "bus")]);
    let live = LiveHost::with_files(&[("greeter.yaml", GREETER)], &["greeter"], "team", Some(&stores));
    let until_status = |name: &str, wanted: Option<Value>| {
        let key = format!("team.{name}");
        eventually_blocking(&format!("the status of {name} to be {wanted:?}; {}", live.host.stderr()), || {
            (runtime.block_on(programs.last(&programs.statuses, &key)) == wanted).then_some(())
        });
    };
    let greeted = |name: &str, generation: u64| {
        Some(json!({"status": {"message": format!("Hello, {name}!")}, "observedGeneration": generation}))
    };
    live.until("greetings", "early", "/status/message", &json!("Hello, early!"));
    until_status("early", greeted("early", 1));
    runtime.block_on(programs.put("team/web", r#"{"name":"Ann"}"#));
    until_status("web", greeted("Ann", 1));
    runtime.block_on(programs.put("team/web", r#"{"name":"Bob"}"#));
    until_status("web", greeted("Bob", 2));
    for operation in ["DEL", "PURGE"] {
        runtime.block_on(programs.mark("team/web", operation));
        until_status("web", None);
        let is_gone = || live.list("greetings")?.iter().all(|item| item["metadata"]["name"] != "web").then_some(());
        eventually_blocking("the end of the resource", is_gone);
        runtime.block_on(programs.put("team/web", r#"{"name":"Cleo"}"#));
        until_status("web", greeted("Cleo", 1));
    }
    live.host.terminate();
}
