//! Events of the host about resources of a cluster, written as `events.k8s.io/v1`.
//!
//! [`EventOutlet::record`] never waits. Events that come faster than they can be written are dropped, oldest
//! first: the host keeps its own log of events.

mod series;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use homeostat_store::{EventRecord, EventSink, Key, Kind};
use http::Method;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::task::AbortHandle;

use self::series::{Action, Identity, Series};
use crate::cluster::Cluster;
use crate::errors::RequestError;
use crate::path::{self, Parameters};
use crate::requests::Call;

/// Events that wait to be written.
const QUEUE_MAX: usize = 1024;
/// Least time between two requests.
const SPACING: Duration = Duration::from_millis(100);
/// How often repetitions are looked for.
const LOOK_INTERVAL: Duration = Duration::from_secs(5);
/// How long nothing is written after the server refused the right to.
const FORBIDDEN_WAIT: Duration = Duration::from_secs(600);
/// Longest note, reason and controller, in bytes. Source: the validation of `events.k8s.io/v1`.
const NOTE_BYTES_MAX: usize = 1024;
const WORD_BYTES_MAX: usize = 128;
const CONTROLLER_BYTES_MAX: usize = 63;
/// Longest beginning of an event's name; a dot and a number follow.
const NAME_BYTES_MAX: usize = 230;
/// The namespace of events about resources outside of namespaces. Source: client-go.
const NAMESPACE: &str = "default";

/// Writes events to a cluster. Ends when it is dropped.
pub struct EventOutlet {
    queue: Arc<Queue>,
    task: AbortHandle,
}

#[derive(Default)]
struct Queue {
    waiting: Mutex<VecDeque<EventRecord>>,
    added: Notify,
}

impl EventOutlet {
    /// Starts to write events. `instance` tells the hosts of a controller apart, as the name of the machine.
    ///
    /// # Panics
    /// When called outside of a tokio runtime with time.
    pub fn start(cluster: Arc<Cluster>, instance: impl Into<String>) -> Self {
        let queue = Arc::<Queue>::default();
        let interval = cluster.event_interval();
        let instance = shortened(&instance.into(), WORD_BYTES_MAX).to_owned();
        let writer = EventWriter {
            cluster,
            queue: Arc::clone(&queue),
            instance,
            series: Series::new(interval),
            began: Instant::now(),
        };
        Self { queue, task: tokio::spawn(writer.run()).abort_handle() }
    }

    /// Has an event written, later. Never waits. At the bound, the event that has waited longest is dropped.
    pub fn record(&self, event: EventRecord) {
        let mut waiting = self.queue.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.len() >= QUEUE_MAX {
            waiting.pop_front();
        }
        waiting.push_back(event);
        drop(waiting);
        self.queue.added.notify_one();
    }
}

impl EventSink for EventOutlet {
    fn record(&self, event: EventRecord) {
        Self::record(self, event);
    }
}

impl std::fmt::Debug for EventOutlet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("EventOutlet")
    }
}

impl Drop for EventOutlet {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct EventWriter {
    cluster: Arc<Cluster>,
    queue: Arc<Queue>,
    instance: String,
    series: Series,
    began: Instant,
}

impl EventWriter {
    async fn run(mut self) {
        loop {
            let next = self.queue.waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
            let now = self.began.elapsed();
            let (identity, action) = match next {
                Some(event) => {
                    let (identity, count) = identity(event);
                    let action = self.series.occurred(now, &identity, count);
                    (identity, action)
                }
                None => match self.series.due(now) {
                    Some((identity, action)) => (identity, Some(action)),
                    None => {
                        // Either way the queue is looked at: an event came, or repetitions may be due.
                        let wait = LOOK_INTERVAL.min(self.cluster.event_interval());
                        drop(tokio::time::timeout(wait, self.queue.added.notified()).await);
                        continue;
                    }
                },
            };
            let Some(action) = action else { continue };
            tokio::time::sleep(SPACING).await;
            self.write(&identity, action).await;
        }
    }

    async fn write(&mut self, identity: &Identity, action: Action) {
        let (call, name, count) = match action {
            Action::Create(count) => {
                let document = document(identity, count, &self.instance, Timestamp::now());
                let name = document["metadata"]["name"].as_str().unwrap_or_default().to_owned();
                (self.call(identity, None, &document).await, name, count)
            }
            Action::Count(name, count) => {
                let patch = json!({ "series": series(count, Timestamp::now()) });
                (self.call(identity, Some(&name), &patch).await, name, count)
            }
        };
        let Some(call) = call else { return };
        match self.cluster.requests.send(call).await {
            Ok(_) => self.series.written(identity, Some(name), count),
            Err(RequestError::Refused(status)) if status.code == 403 => {
                tracing::warn!(reason = ?status.message, "events are not written to the cluster for some time");
                tokio::time::sleep(FORBIDDEN_WAIT).await;
            }
            Err(RequestError::Refused(status)) if status.code == 404 => self.series.written(identity, None, 0),
            Err(failure) => {
                let error = failure.about("write of an event");
                tracing::debug!(%error, "an event is not written to the cluster");
            }
        }
    }

    /// Returns the request for an event; `None` where the server has no events.
    async fn call(&self, identity: &Identity, name: Option<&str>, body: &Value) -> Option<Call> {
        let served = self.cluster.served(&Kind::new("events.k8s.io", "v1", "Event")).await.ok()?;
        let parameters =
            Parameters::default().with("fieldManager", &format!("{}events", self.cluster.manager_prefix()));
        let text = Bytes::from(body.to_string());
        let namespace = namespace(&identity.regarding);
        match name {
            None => {
                let path = path::collection(&served, "v1", Some(namespace)).ok()?;
                let body = Some(("application/json", text));
                Some(Call::with_body("event", Method::POST, parameters.after(&path), body))
            }
            Some(name) => {
                let path = path::item(&served, "v1", namespace, name).ok()?;
                let body = Some(("application/merge-patch+json", text));
                Some(Call::with_body("event", Method::PATCH, parameters.after(&path), body))
            }
        }
    }
}

fn identity(event: EventRecord) -> (Identity, u64) {
    let EventRecord { controller, regarding, uid, reason, note, is_warning, count } = event;
    let note = shortened(&note, NOTE_BYTES_MAX).to_owned();
    let reason = shortened(&reason, WORD_BYTES_MAX).to_owned();
    (Identity { controller, regarding, uid, reason, note, is_warning }, count.max(1))
}

fn namespace(regarding: &Key) -> &str {
    if regarding.namespace().is_empty() { NAMESPACE } else { regarding.namespace() }
}

/// Returns the document of a new event.
fn document(identity: &Identity, count: u64, instance: &str, now: Timestamp) -> Value {
    let Identity { controller, regarding, uid, reason, note, is_warning } = identity;
    let mut about = json!({"apiVersion": regarding.kind().api_version(), "kind": regarding.kind().name,
        "name": regarding.name(), "namespace": regarding.namespace(), "uid": uid});
    if let Some(about) = about.as_object_mut() {
        about.retain(|_, value| value != "");
    }
    let name = shortened(regarding.name(), NAME_BYTES_MAX).trim_end_matches(['.', '-']).to_owned();
    let number = now.as_microsecond();
    let mut document = json!({
        "apiVersion": "events.k8s.io/v1", "kind": "Event",
        "metadata": {"name": format!("{name}.{number:x}"), "namespace": namespace(regarding)},
        "eventTime": time(now), "action": "Reconcile", "reason": reason, "note": note,
        "type": if *is_warning { "Warning" } else { "Normal" }, "regarding": about,
        "reportingController": format!("homeostat.dev/{}", shortened(controller, CONTROLLER_BYTES_MAX)),
        "reportingInstance": instance,
    });
    if count > 1 {
        document["series"] = series(count, now);
    }
    document
}

fn series(count: u64, now: Timestamp) -> Value {
    json!({"count": count.min(i32::MAX as u64), "lastObservedTime": time(now)})
}

/// Formats a time with microseconds, as the server demands.
fn time(now: Timestamp) -> String {
    format!("{now:.6}")
}

/// Returns the beginning of a text, of at most so many bytes.
fn shortened(text: &str, bytes_max: usize) -> &str {
    &text[..text.floor_char_boundary(bytes_max)]
}

#[cfg(test)]
mod tests {
    use homeostat_store::{EventRecord, Key, Kind};
    use jiff::Timestamp;
    use serde_json::json;

    use super::{document, identity, shortened};

    fn record(regarding: Key) -> EventRecord {
        EventRecord {
            controller: "c".repeat(100),
            regarding,
            uid: "u".to_owned(),
            reason: "Started".to_owned(),
            note: "é".repeat(1000),
            is_warning: true,
            count: 3,
        }
    }

    #[test]
    fn an_event_has_the_form_that_the_server_demands() {
        let key = Key::new(Kind::new("apps", "v1", "Deployment"), "n", "a");
        let (identity, count) = identity(record(key));
        let event = document(&identity, count, "host", Timestamp::UNIX_EPOCH);
        assert_eq!(event["metadata"], json!({"name": "a.0", "namespace": "n"}));
        assert_eq!(event["eventTime"], "1970-01-01T00:00:00.000000Z");
        let about = json!({"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "n", "name": "a", "uid": "u"});
        assert_eq!(event["regarding"], about);
        assert_eq!(event["type"], "Warning");
        assert_eq!(event["series"], json!({"count": 3, "lastObservedTime": "1970-01-01T00:00:00.000000Z"}));
        assert_eq!(event["note"].as_str().unwrap().len(), 1024);
        assert_eq!(event["reportingController"].as_str().unwrap().len(), "homeostat.dev/".len() + 63);
    }

    #[test]
    fn an_event_about_a_cluster_scoped_resource_is_in_the_default_namespace() {
        let node = Key::new(Kind::new("", "v1", "Node"), "", "a");
        let (identity, _) = identity(EventRecord { uid: String::new(), ..record(node) });
        let event = document(&identity, 1, "host", Timestamp::UNIX_EPOCH);
        assert_eq!(event["metadata"]["namespace"], "default");
        assert_eq!(event["regarding"], json!({"apiVersion": "v1", "kind": "Node", "name": "a"}));
        assert_eq!(event.get("series"), None);
    }

    #[test]
    fn a_text_is_cut_between_characters() {
        assert_eq!(shortened("aé", 2), "a");
        assert_eq!(shortened("aé", 3), "aé");
        assert_eq!(shortened("", 3), "");
    }
}
