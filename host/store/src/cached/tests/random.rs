//! Random steps of two hosts and another client, with faults. At rest the caches equal the server.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use homeostat_testing::Dice;
use tokio::time::timeout;

use super::server::{Server, create, delete, key, resize, size, sizes, widgets};
use super::{cache, subscribed, wait_for};
use crate::cached::CachedStore;
use crate::{Error, EventType, Resource, Revision, Scope, Store, Watch};

/// The state of widgets, by name.
type Model = BTreeMap<String, Arc<Resource>>;

struct Host {
    store: CachedStore,
    watch: Watch,
    /// The state according to the events of the watch.
    seen: Model,
    /// The last revision of each name that a read has shown.
    shown: BTreeMap<String, Revision>,
}

impl Host {
    /// Reads one resource: it must not be older than any read before.
    async fn read(&mut self, name: &str) {
        match self.store.get(&key(name)).await {
            Ok(resource) => {
                let shown = self.shown.insert(name.to_owned(), resource.revision());
                assert!(shown.is_none_or(|shown| shown <= resource.revision()), "{name} went back");
            }
            Err(Error::NotFound { .. } | Error::Unavailable { .. }) => {}
            Err(error) => panic!("{error:?}"),
        }
    }

    /// Makes a write. Once it is acknowledged, it has to be seen.
    async fn write(&mut self, dice: &mut Dice, name: &str) {
        let number = dice.below(1000);
        let written = match dice.below(3) {
            0 => create(&self.store, name).await,
            1 => resize(&self.store, name, number).await,
            _ => delete(&self.store, name).await.map(|_| Arc::new(gone())),
        };
        let Ok(written) = written else { return };
        if written.uid().is_empty() {
            let read = self.store.get(&key(name)).await;
            assert!(matches!(read, Err(Error::NotFound { .. } | Error::Unavailable { .. })), "{read:?}");
        } else {
            match self.store.get(&key(name)).await {
                Ok(read) => assert!(read.revision() >= written.revision(), "{name} was not seen"),
                Err(Error::Unavailable { .. }) => {}
                Err(error) => panic!("{error:?}"),
            }
        }
        self.read(name).await;
    }

    /// Applies the events that have come.
    async fn drain(&mut self) {
        while let Ok(event) = timeout(Duration::from_millis(1), self.watch.next()).await {
            let event = event.expect("the history reaches back");
            let name = event.resource.key().name().to_owned();
            let before = self.seen.get(&name);
            assert_eq!(before, event.previous.as_ref(), "the event follows the one before");
            match event.kind {
                EventType::Deleted => drop(self.seen.remove(&name)),
                EventType::Added | EventType::Modified => drop(self.seen.insert(name, event.resource)),
            }
        }
    }
}

/// A resource that stands for a deletion.
fn gone() -> Resource {
    let document = serde_json::json!({"apiVersion": "v1", "kind": "Gone", "metadata": {"name": "gone"}});
    Resource::from_document(document).expect("well formed")
}

async fn host(server: &Arc<Server>) -> (Host, crate::Subscription) {
    let (store, user) = subscribed(server).await;
    let watch = store.watch(widgets(), Revision::ZERO).await.expect("the history is there");
    (Host { store, watch, seen: Model::new(), shown: BTreeMap::new() }, user)
}

fn disturb(server: &Server, dice: &mut Dice) {
    let [lags, away, loses, forgets, hides, skips] = [30, 10, 15, 40, 50, 50].map(|cases| dice.percent(cases));
    server.fault(|faults| {
        (faults.lags, faults.away, faults.loses_answers) = (lags, away, loses);
        (faults.forgets, faults.hides_deletions, faults.skips_overwritten) = (forgets, hides, skips);
    });
    if dice.percent(30) {
        server.cut();
    }
}

async fn round(seed: u64) {
    let mut dice = Dice::new(seed);
    let server = Server::new();
    let ((mut one, _one), (mut two, _two)) = (host(&server).await, host(&server).await);
    let names = ["a", "b", "c", "d"];
    for _ in 0..dice.below(150) {
        let name = dice.one(&names).copied().expect("there are names");
        match dice.below(10) {
            0..=2 => one.write(&mut dice, name).await,
            3..=4 => two.write(&mut dice, name).await,
            5 => {
                let at_server = server.store();
                drop(resize(&*at_server, name, dice.below(1000)).await);
            }
            6 => one.read(name).await,
            7 => {
                one.drain().await;
                two.drain().await;
            }
            8 => drop(sizes(&one.store).await),
            _ => disturb(&server, &mut dice),
        }
    }
    server.fault(|faults| *faults = super::server::Faults { cuts: faults.cuts, ..Default::default() });
    let at_rest = server.store().revision(&Scope::Everything).await.expect("it is open");
    for host in [&mut one, &mut two] {
        wait_for(|| cache(&host.store).revision == Some(at_rest) && host.store.health().is_ok()).await;
        host.drain().await;
        let wanted = sizes(&*server.store()).await;
        assert_eq!(sizes(&host.store).await, wanted);
        let seen = host.seen.iter().map(|(name, resource)| (name.clone(), size(resource))).collect();
        assert_eq!(Ok(seen), wanted);
        let cached = host.store.shared.kind(&super::kind("Widget")).expect("it is in use");
        assert!(cached.lock().own.rows().is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn caches_equal_the_server_at_rest_and_no_read_goes_back() {
    for seed in 0..200 {
        tokio::spawn(round(seed)).await.unwrap_or_else(|error| panic!("round {seed}: {error}"));
    }
}
