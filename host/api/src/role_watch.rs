//! Follows the stored roles and bindings, so that each request sees their newest state without a read of the store.

use std::sync::{Arc, Once};
use std::time::Duration;

use arc_swap::ArcSwap;
use futures_util::future::select_all;
use homeostat_runtime::Host;
use homeostat_store::{Error, Kind, Query, Result, Scope, Store, Watch};
use serde_json::Value;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::rbac::role_book::{RoleBook, RoleDocuments};

/// The group of roles and bindings.
pub(crate) const GROUP: &str = "rbac.authorization.k8s.io";
/// The kinds, in the order of [`RoleDocuments`].
const KINDS: [&str; 4] = ["Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding"];
/// The wait after a failed read of the store.
const PAUSE: Duration = Duration::from_secs(1);

/// How long the first request that needs roles waits for their first read.
const FIRST_READ_MAX: Duration = Duration::from_secs(2);

/// The newest roles and bindings. Until the first read there are none, so that nothing is allowed by them. The first request
/// that needs them begins to follow them: most hosts have no callers with rights of their own.
#[derive(Clone)]
pub(crate) struct RoleWatch(Arc<RoleFollower>);

struct RoleFollower {
    book: ArcSwap<RoleBook>,
    host: Host,
    stopped: CancellationToken,
    is_started: Once,
    /// Whether there is nothing more to wait for.
    is_read: watch::Sender<bool>,
}

impl RoleWatch {
    /// Returns roles that are followed until `stopped` is cancelled.
    pub(crate) fn new(host: Host, stopped: CancellationToken) -> Self {
        let (is_read, _) = watch::channel(false);
        Self(Arc::new(RoleFollower { book: ArcSwap::default(), host, stopped, is_started: Once::new(), is_read }))
    }

    /// Returns the newest roles and bindings. The first call waits until they are read, for at most two seconds.
    ///
    /// *Cancel safety*: nothing is lost.
    pub(crate) async fn book(&self) -> Arc<RoleBook> {
        self.0.is_started.call_once(|| drop(tokio::spawn(Arc::clone(&self.0).follow())));
        if *self.0.is_read.borrow() {
            return self.0.book.load_full();
        }
        let mut is_read = self.0.is_read.subscribe();
        let first_read = tokio::time::timeout(FIRST_READ_MAX, is_read.wait_for(|is_read| *is_read)).await;
        if first_read.is_err() {
            // A store that is away delays one request.
            self.0.is_read.send_replace(true);
        }
        self.0.book.load_full()
    }
}

impl RoleFollower {
    /// Follows the roles until the server stops. Returns at once on a host without these kinds.
    async fn follow(self: Arc<Self>) {
        let is_served = self.host.kinds().list().iter().any(|info| info.kind.group == GROUP);
        if !is_served {
            self.is_read.send_replace(true);
            return;
        }
        let store = self.host.store();
        let follow = async {
            loop {
                if let Err(error) = self.follow_once(&*store).await {
                    if matches!(error, Error::Closed) {
                        return;
                    }
                    tracing::debug!(%error, "the stored roles are read again");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        };
        tokio::select! {
            () = follow => {}
            () = self.stopped.cancelled() => {}
        }
    }

    /// Reads all roles, and reads them again with each change, until a watch fails.
    async fn follow_once(&self, store: &dyn Store) -> Result<()> {
        let mut watches: Vec<Watch> = Vec::with_capacity(KINDS.len());
        for kind in KINDS.map(kind) {
            let scope = Scope::Kind(kind);
            let from = store.revision(&scope).await?;
            watches.push(store.watch(scope, from).await?);
        }
        loop {
            self.read(store).await?;
            let next = watches.iter_mut().map(|watch| Box::pin(watch.next()));
            let (changed, ..) = select_all(next).await;
            changed?;
        }
    }

    async fn read(&self, store: &dyn Store) -> Result<()> {
        let [roles, cluster_roles, bindings, cluster_bindings] = KINDS.map(kind);
        let documents = RoleDocuments {
            roles: documents(store, roles).await?,
            cluster_roles: documents(store, cluster_roles).await?,
            bindings: documents(store, bindings).await?,
            cluster_bindings: documents(store, cluster_bindings).await?,
        };
        let book = RoleBook::new(&documents);
        if book.left_out > 0 {
            tracing::warn!(
                bindings = book.left_out,
                "stored bindings have no effect, because there are too many rules"
            );
        }
        self.book.store(Arc::new(book));
        self.is_read.send_replace(true);
        Ok(())
    }
}

fn kind(name: &str) -> Kind {
    Kind::new(GROUP, "v1", name)
}

async fn documents(store: &dyn Store, kind: Kind) -> Result<Vec<Value>> {
    let page = store.list(&Query::all(kind)).await?;
    Ok(page.items.iter().map(|resource| resource.document().clone()).collect())
}
