//! Kinds that follow buckets of other programs.

use std::sync::Arc;

use async_nats::jetstream::{self, stream};
use homeostat_nats::settings::{ForeignBucket, StatusForm, StatusPlace, ValueForm};
use homeostat_nats::{Bucket, BucketSettings};
use homeostat_store::cached::{CachedState, Upstream};
use homeostat_store::{Change, Error, Key, Kind, Precondition, Propagation, Resource, Write};
use homeostat_testing::eventually;
use homeostat_tests::shared_nats;
use serde_json::{Value, json};

use super::nats::{admin, bucket_of, settings};

/// The programs around a store: a bucket of values and one of statuses.
struct Foreign {
    jetstream: jetstream::Context,
    bucket: Arc<Bucket>,
    values: String,
    statuses: String,
}

impl Foreign {
    async fn new(name: &str, status: impl FnOnce(&str) -> StatusPlace) -> Self {
        let url = shared_nats().url();
        let jetstream = admin(&url).await;
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
        let binding = ForeignBucket {
            kind: kind(),
            namespaced: true,
            bucket: values.clone(),
            key: "{namespace}/{name}".to_owned(),
            value: ValueForm::Spec,
            status: status(&statuses),
        };
        let bucket = bucket_of(BucketSettings { foreign: vec![binding], ..settings(&url, name) });
        bucket.connect().await.unwrap();
        Self { jetstream, bucket, values, statuses }
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
    let deletion =
        Write::Delete { key: key("web"), precondition: Precondition::default(), propagation: Propagation::Background };
    for refused in [Write::Create { document }, patch("web", json!({"spec": {"size": 2}})), deletion] {
        let error = foreign.write(refused.clone()).await.unwrap_err();
        assert!(matches!(error, Error::Forbidden { .. }), "{refused:?}: {error}");
    }
    foreign.write(patch("web", json!({"metadata": {"labels": {"a": "b"}}}))).await.unwrap();
    foreign.write(status("web", json!({"ready": true}))).await.unwrap();
}
