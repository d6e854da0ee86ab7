//! Follows the stored roles and bindings, so that each request sees their newest state without a read of the store.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use futures_util::future::select_all;
use homeostat_runtime::Host;
use homeostat_store::{Error, Kind, Query, Result, Scope, Store, Watch};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::rbac::role_book::{RoleBook, RoleDocuments};

/// The group of roles and bindings.
pub(crate) const GROUP: &str = "rbac.authorization.k8s.io";
/// The kinds, in the order of [`RoleDocuments`].
const KINDS: [&str; 4] = ["Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding"];
/// The wait after a failed read of the store.
const PAUSE: Duration = Duration::from_secs(1);

/// The newest roles and bindings. Until the first read there are none, so that nothing is allowed by them.
#[derive(Clone, Debug, Default)]
pub(crate) struct RoleWatch(Arc<ArcSwap<RoleBook>>);

impl RoleWatch {
    /// Returns the newest roles and bindings.
    pub(crate) fn book(&self) -> Arc<RoleBook> {
        self.0.load_full()
    }

    /// Follows the roles until `stopped` is cancelled. Returns at once on a host without these kinds.
    pub(crate) async fn follow(self, host: Host, stopped: CancellationToken) {
        let is_served = host.kinds().list().iter().any(|info| info.kind.group == GROUP);
        if !is_served {
            return;
        }
        let store = host.store();
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
            () = stopped.cancelled() => {}
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
        self.0.store(Arc::new(book));
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
