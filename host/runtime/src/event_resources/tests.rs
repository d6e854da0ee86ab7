//! Tests of events as resources, on a whole host over memory.

use std::sync::Arc;
use std::time::Duration;

use homeostat_component::{Engine, EngineOptions, Severity};
use homeostat_fixtures::memory_store;
use homeostat_store::{Query, Resource, Revision, Store, Write};
use serde_json::{Value, json};

use super::{OF_ALL_MAX, OF_CONTROLLER_MAX, events};
use crate::events::{EventSource, NewEvent};
use crate::{BuiltInGroups, Host, Options};

const HOUR: Duration = Duration::from_secs(3600);

async fn host(events_max: usize) -> Host {
    host_over(memory_store(), events_max, HOUR).await
}

async fn host_over(store: Arc<dyn Store>, events_max: usize, event_ttl: Duration) -> Host {
    let engine = Engine::new(EngineOptions::default()).expect("the engine starts");
    let options = Options { built_in: BuiltInGroups::All, events_max, event_ttl, ..Options::new(engine, store) };
    Host::start(options).await.expect("the host starts")
}

/// Records one occurrence of an event.
fn occur(host: &Host) {
    occur_of(host, "web", "its grants do not cover it");
}

fn occur_of(host: &Host, controller: &str, message: &str) {
    let event = NewEvent {
        controller: &controller.into(),
        source: EventSource::Host,
        key: None,
        severity: Severity::Warning,
        reason: "Refused",
        message,
    };
    host.events().record(crate::clock::now(), event);
}

async fn stored(host: &Host) -> Vec<Value> {
    let page = host.store().list(&Query::all(events())).await.expect("events can be listed");
    page.items.iter().map(|event| event.document().clone()).collect()
}

async fn until(host: &Host, holds: impl Fn(&[Value]) -> bool) -> Vec<Value> {
    let wait = async {
        loop {
            let found = stored(host).await;
            if holds(&found) {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(600), wait).await.expect("the events come")
}

fn client_event(name: &str, last: &str) -> Write {
    Write::Create {
        document: json!({
            "apiVersion": "v1", "kind": "Event", "metadata": { "name": name, "namespace": "default" },
            "involvedObject": { "kind": "Pod", "namespace": "default", "name": "p" },
            "reason": "Started", "message": "it started", "lastTimestamp": last,
        }),
    }
}

#[tokio::test(start_paused = true)]
async fn events_of_the_host_become_resources_and_repeated_ones_are_counted() {
    let host = host(100).await;
    for _ in 0..3 {
        occur(&host);
    }
    let found = until(&host, |found| found.iter().any(|event| event["count"] == 3)).await;
    assert_eq!((found.len(), &found[0]["reason"], &found[0]["type"]), (1, &json!("Refused"), &json!("Warning")));
    occur(&host);
    let found = until(&host, |found| found.iter().any(|event| event["count"] == 4)).await;
    assert_eq!(found.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_events_is_written_up_to_a_rate_of_each_controller_and_of_all() {
    for (controllers, written) in [(1, OF_CONTROLLER_MAX), (2, 2 * OF_CONTROLLER_MAX), (10, OF_ALL_MAX)] {
        let host = host(10_000).await;
        for controller in 0..controllers {
            for number in 0..2 * OF_CONTROLLER_MAX {
                occur_of(&host, &format!("flood-{controller}"), &format!("number {number}"));
            }
        }
        until(&host, |found| !found.is_empty()).await;
        // The next events are written once the former ones are.
        occur(&host);
        let is_later = |event: &Value| event["message"] == "its grants do not cover it";
        let found = until(&host, |found| found.iter().any(is_later)).await;
        assert_eq!(found.len(), written + 1, "{controllers} controllers");
    }
}

#[test]
fn an_event_ages_from_its_last_occurrence_and_from_its_creation() {
    let aged = |last: &str, created: &str| {
        let text = json!({
            "apiVersion": "v1", "kind": "Event", "lastTimestamp": last,
            "metadata": { "name": "e", "namespace": "default", "uid": "u", "resourceVersion": "1", "creationTimestamp": created },
        });
        super::age(&Resource::from_text_at(&text.to_string(), Revision(1)).expect("well formed"))
    };
    let (old, now) = ("2020-01-01T00:00:00Z", jiff::Timestamp::now().to_string());
    assert!(aged(old, old) > Duration::from_secs(3600));
    assert!(aged(old, &now) < Duration::from_secs(60), "a client may report late");
    assert!(aged(&now, old) < Duration::from_secs(60));
}

#[tokio::test(start_paused = true)]
async fn events_above_the_bound_are_deleted() {
    let host = host(3).await;
    let now = jiff::Timestamp::now().to_string();
    for number in 0..5 {
        host.write(client_event(&format!("e{number}"), &now).into()).await.expect("clients write events");
    }
    let found = until(&host, |found| found.len() == 3).await;
    let names: Vec<&str> = found.iter().filter_map(|event| event["metadata"]["name"].as_str()).collect();
    assert_eq!(names, ["e2", "e3", "e4"]);
}

#[tokio::test(start_paused = true)]
async fn events_are_kept_over_a_restart_within_the_bound() {
    let store = memory_store();
    let before = host_over(store.clone(), 10, HOUR).await;
    let now = jiff::Timestamp::now().to_string();
    for number in 0..5 {
        before.write(client_event(&format!("e{number}"), &now).into()).await.expect("clients write events");
    }
    // As by a kill: a shutdown would close the store.
    drop(before);
    let after = host_over(store, 3, HOUR).await;
    let found = until(&after, |found| found.len() <= 3).await;
    let names: Vec<&str> = found.iter().filter_map(|event| event["metadata"]["name"].as_str()).collect();
    assert_eq!(names, ["e2", "e3", "e4"]);
}

#[tokio::test(start_paused = true)]
async fn an_event_is_deleted_after_its_time() {
    let store = memory_store();
    let host = host_over(store, 10, Duration::from_millis(1)).await;
    let now = jiff::Timestamp::now().to_string();
    host.write(client_event("e", &now).into()).await.expect("clients write events");
    until(&host, <[Value]>::is_empty).await;
}
