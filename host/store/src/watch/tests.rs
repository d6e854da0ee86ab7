mod notifier;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use serde_json::json;

use super::{ChangeLog, Changes, Event, EventType, LogBatch, RevisionNotifier, Scope, WatchCursor};
use crate::history::{Bounds, History};
use crate::{Kind, Resource, Result, Revision};

/// A history with its last two events in memory; it counts its reads.
struct CountingLog {
    tip: RevisionNotifier,
    all: Mutex<History>,
    recent: Mutex<History>,
    recalled: AtomicUsize,
    read: AtomicUsize,
}

impl CountingLog {
    fn new() -> Arc<Self> {
        let history = |events_max| {
            let bounds = Bounds { events_max, bytes_max: u64::MAX, age_max: Duration::MAX };
            Mutex::new(History::new(Revision::ZERO, bounds))
        };
        Arc::new(Self {
            tip: RevisionNotifier::at(Revision::ZERO),
            all: history(100),
            recent: history(2),
            recalled: AtomicUsize::new(0),
            read: AtomicUsize::new(0),
        })
    }

    fn add(&self, kind: &str) {
        let revision = self.tip.revision().next();
        let metadata = json!({"name": "a", "resourceVersion": revision.to_string()});
        let resource = Resource::from_document(json!({"apiVersion": "v1", "kind": kind, "metadata": metadata}));
        let resource = Arc::new(resource.expect("well formed"));
        let event = Event { kind: EventType::Added, resource, previous: None, revision };
        for history in [&self.all, &self.recent] {
            history.lock().expect("no panic").push(event.clone(), 1, SystemTime::UNIX_EPOCH);
        }
        self.tip.advance(revision);
        self.tip.notify_rest();
    }

    /// Returns the number of reads from memory, and of all other reads, since the last call.
    fn count(&self) -> (usize, usize) {
        (self.recalled.swap(0, Ordering::SeqCst), self.read.swap(0, Ordering::SeqCst))
    }

    fn follow(self: &Arc<Self>, kind: &str) -> WatchCursor {
        WatchCursor::new(
            Arc::clone(self) as Arc<dyn ChangeLog>,
            Scope::Kind(Kind::new("", "v1", kind)),
            self.tip.revision(),
        )
    }
}

#[async_trait]
impl ChangeLog for CountingLog {
    fn recall(&self, scope: &Scope, after: Revision, events: &mut VecDeque<Event>) -> Option<Revision> {
        self.recalled.fetch_add(1, Ordering::SeqCst);
        self.recent.lock().expect("no panic").read(scope, after, events).ok()
    }

    async fn read(&self, scope: &Scope, after: Revision) -> Result<LogBatch> {
        self.read.fetch_add(1, Ordering::SeqCst);
        let mut events = Vec::new();
        let through = self.all.lock().expect("no panic").read(scope, after, &mut events)?;
        Ok(LogBatch { events, through })
    }

    fn tip(&self) -> &RevisionNotifier {
        &self.tip
    }
}

/// Polls once for the next event, and returns its revision if it is ready.
fn next(reader: &mut WatchCursor) -> Option<u64> {
    match reader.next().as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(event) => Some(event.expect("the history is there").revision.0),
        Poll::Pending => None,
    }
}

#[test]
fn an_event_is_looked_for_once_by_each_of_a_thousand_watches_and_in_memory_alone() {
    let log = CountingLog::new();
    let mut readers: Vec<_> = (0..1000).map(|_| log.follow("Pod")).collect();
    for event in 1..=3 {
        assert!(readers.iter_mut().all(|reader| next(reader).is_none()));
        assert_eq!(log.count(), (0, 0), "who waits looks for nothing");
        log.add("Pod");
        assert!(readers.iter_mut().all(|reader| next(reader) == Some(event)));
        assert_eq!(log.count(), (1000, 0));
    }
}

#[test]
fn a_watch_that_is_behind_reads_the_log_until_it_has_caught_up() {
    let log = CountingLog::new();
    let mut reader = log.follow("Pod");
    (0..5).for_each(|_| log.add("Pod"));
    assert_eq!((1..=5).map(|_| next(&mut reader)).collect::<Vec<_>>(), [1, 2, 3, 4, 5].map(Some));
    assert_eq!((next(&mut reader), log.count()), (None, (1, 1)));
    log.add("Pod");
    assert_eq!((next(&mut reader), log.count()), (Some(6), (1, 0)));
}

#[test]
fn events_of_another_kind_are_skipped() {
    let log = CountingLog::new();
    let mut reader = log.follow("Pod");
    (0..3).for_each(|_| log.add("Node"));
    assert_eq!((next(&mut reader), reader.position()), (None, Some(Revision(3))));
    log.add("Pod");
    assert_eq!((next(&mut reader), reader.position()), (Some(4), Some(Revision(4))));
}
