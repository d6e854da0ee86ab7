//! Opens the stores that a file names, besides the host's own.

pub(crate) mod check;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use homeostat_runtime::Stores;
use homeostat_runtime::manifest::Span;
#[cfg(any(feature = "kubernetes", feature = "nats"))]
use homeostat_store::cached;
use homeostat_store::memory::MemoryStore;
use homeostat_store::moves::MovedKinds;
use homeostat_store::routes::HOME;
#[cfg(any(feature = "kubernetes", feature = "nats"))]
use homeostat_store::routes::Routes;
use homeostat_store::schema::Schemas;
use homeostat_store::{Options, RoutedStore, Store, StorePart};

#[cfg(any(feature = "kubernetes", feature = "nats"))]
use crate::content_records::ContentRecords;
use crate::exit;
use crate::layout::MOVES;
use crate::stores_config::{NamedStore, Storage, StoresConfig};

/// The pause between two looks at stores that are waited for. No server is asked.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Returns the stores of a host: its own, and those of the file. The host remembers in the folder `data` which
/// content they have.
///
/// Waits for no server: the kinds of a store whose server does not answer wait, and the others do not.
///
/// # Errors
/// When a rule of the file hides resources of the host's own store or shows an old copy of a kind, and when the memory
/// of their content or of moved kinds is damaged.
pub(crate) async fn open(home: Arc<dyn Store>, file: Option<StoresConfig>, data: &Path) -> Result<Stores> {
    let path = data.join(MOVES);
    let moved = MovedKinds::open(path.clone()).with_context(|| format!("cannot read {}", path.display()));
    let mut moved = moved.map_err(|error| exit::failed(format!("{error:#}: restore it from a backup")))?;
    let file = match file {
        Some(file) => file,
        None if moved.is_empty() => return Ok(Stores::One(home)),
        // The revisions of moved kinds go on.
        None => StoresConfig::empty(),
    };
    let followed = moved.follow_routes(&file.routes, &*home).await;
    followed.map_err(|(kind, reason)| file.refuse_route(&kind, &reason))?;
    let mut hidden = home.kinds().await.context("cannot read the kinds of the host's own store")?;
    for kind in hidden.clone() {
        if moved.former(&kind).await.is_some_and(|former| *former == *HOME) {
            hidden.retain(|other| *other != kind);
        }
    }
    file.check_home(&hidden)?;
    let opener = Opener {
        schemas: home.schemas().cloned().unwrap_or_default(),
        #[cfg(any(feature = "kubernetes", feature = "nats"))]
        routes: file.routes.clone(),
        #[cfg(any(feature = "kubernetes", feature = "nats"))]
        records: ContentRecords::open(data, file.stores.iter().map(|store| Arc::clone(&store.name)).collect())?,
    };
    let others = file.stores.into_iter().map(|store| opener.open(store)).collect::<Result<_>>()?;
    let routed = RoutedStore::with_moves(home, others, file.routes, moved).context("the stores cannot be used")?;
    Ok(Stores::Routed(Arc::new(routed)))
}

/// Waits until all stores can be used, for at most this time.
///
/// # Errors
/// When one cannot be used by then. The message has the reason of each.
pub(crate) async fn wait(stores: &Stores, most: Duration) -> Result<()> {
    let whole = stores.whole();
    let ready = async {
        while whole.health().is_err() {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    };
    if tokio::time::timeout(most, ready).await.is_ok() {
        return Ok(());
    }
    let reasons: Vec<String> =
        whole.status().iter().filter_map(|status| status.health().err()).map(|error| error.to_string()).collect();
    let span = Span(most);
    Err(exit::failed(format!("not all stores can be used after {span}:\n{}", reasons.join("\n"))))
}

/// Opens one store after another.
struct Opener {
    /// Those of the host's own store. Stores that validate on this host share them.
    schemas: Schemas,
    /// How much of the kinds the caches keep.
    #[cfg(any(feature = "kubernetes", feature = "nats"))]
    routes: Routes,
    #[cfg(any(feature = "kubernetes", feature = "nats"))]
    records: Arc<ContentRecords>,
}

impl Opener {
    fn open(&self, store: NamedStore) -> Result<StorePart> {
        let opened: Arc<dyn Store> = match store.storage {
            Storage::Memory => Arc::new(MemoryStore::with_schemas(Options::default(), self.schemas.clone())),
            #[cfg(feature = "nats")]
            Storage::Nats(settings) => {
                let cache = self.cache(&store.name, store.cache_bytes_max);
                Arc::new(homeostat_nats::open(*settings, self.schemas.clone(), cache)?)
            }
            #[cfg(feature = "kubernetes")]
            Storage::Kubernetes(settings) => {
                Arc::new(homeostat_kubernetes::open(*settings, self.cache(&store.name, store.cache_bytes_max)))
            }
        };
        Ok(StorePart { name: store.name, store: opened })
    }

    /// Returns the options of the cache of a store.
    #[cfg(any(feature = "kubernetes", feature = "nats"))]
    fn cache(&self, name: &Arc<str>, bytes_max: Option<u64>) -> cached::Options {
        let defaults = cached::Options::default();
        cached::Options {
            bytes_max: bytes_max.unwrap_or(defaults.bytes_max),
            accepted: self.records.of(name),
            record: Some(self.records.record(name)),
            routes: self.routes.clone(),
            ..defaults
        }
    }
}
