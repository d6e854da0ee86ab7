//! The changes of the kinds that controllers manage, wherever the resources live.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use homeostat_runtime::Host;
use homeostat_store::{Event, Kind, Result, Revision, Scope, Store};
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, sleep, timeout};

/// Changes that wait to be reported, at most. The watches wait for room.
const EVENTS_MAX: usize = 1024;
/// The wait before a watch that failed is opened again.
const RETRY: Duration = Duration::from_secs(1);

/// One watch for each kind, in a task of its own: kinds of different stores have no common order.
pub(super) struct KindWatches {
    store: Arc<dyn Store>,
    /// The revisions of the stores at the start, by name.
    start: HashMap<Arc<str>, Revision>,
    tasks: JoinSet<()>,
    watched: HashMap<Kind, AbortHandle>,
    sender: mpsc::Sender<Event>,
    events: mpsc::Receiver<Event>,
}

impl KindWatches {
    /// Returns watches of no kind. Kinds are watched from the present revision of their stores on.
    pub(super) fn new(store: Arc<dyn Store>) -> Self {
        let start = store.status().into_iter().filter_map(|status| Some((status.name, status.revision?))).collect();
        let (sender, events) = mpsc::channel(EVENTS_MAX);
        Self { store, start, tasks: JoinSet::new(), watched: HashMap::new(), sender, events }
    }

    /// Watches these kinds, and no others.
    pub(super) fn watch_only(&mut self, host: &Host, kinds: &[Kind]) {
        while self.tasks.try_join_next().is_some() {}
        self.watched.retain(|kind, watch| {
            let stays = kinds.contains(kind);
            if !stays {
                watch.abort();
            }
            stays
        });
        for kind in kinds.iter().filter(|kind| !self.watched.contains_key(kind)).cloned().collect::<Vec<_>>() {
            let store_name = host.kinds().of(&kind).and_then(|info| info.store).unwrap_or_default();
            let from = self.start.get(&store_name).copied();
            let watch = watch(Arc::clone(&self.store), kind.clone(), from, self.sender.clone());
            self.watched.insert(kind, self.tasks.spawn(watch));
        }
    }

    /// Returns the changes since the last call: as long as one follows the other within `pause`, and for `max` at
    /// the longest.
    pub(super) async fn changes(&mut self, pause: Duration, max: Duration) -> Vec<Event> {
        let (mut events, end) = (Vec::new(), Instant::now() + max);
        while Instant::now() < end
            && let Ok(Some(event)) = timeout(pause, self.events.recv()).await
        {
            events.push(event);
        }
        events
    }
}

/// Sends the changes of a kind until the receiver is gone. What a store has forgotten or cannot tell is left out.
async fn watch(store: Arc<dyn Store>, kind: Kind, mut from: Option<Revision>, sender: mpsc::Sender<Event>) {
    while !sender.is_closed() {
        // An error is in the status of the store already.
        drop(send_changes(&*store, &kind, from.take(), &sender).await);
        sleep(RETRY).await;
    }
}

async fn send_changes(
    store: &dyn Store,
    kind: &Kind,
    from: Option<Revision>,
    sender: &mpsc::Sender<Event>,
) -> Result<()> {
    let scope = Scope::Kind(kind.clone());
    let from = match from {
        Some(from) => from,
        None => store.revision(&scope).await?,
    };
    let mut watch = store.watch(scope, from).await?;
    loop {
        let event = watch.next().await?;
        if sender.send(event).await.is_err() {
            return Ok(());
        }
    }
}
