//! The kinds that the server of a store defines by itself.

use std::collections::BTreeMap;
use std::sync::Arc;

use homeostat_store::catalog::Catalog;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{KindId, KindInfo, Kinds, id_of};
use crate::Error;

/// Such kinds, by group and name.
pub(super) type ServerKinds = BTreeMap<KindId, KindInfo>;

impl Kinds {
    /// Takes over the kinds of a store's catalog, and each change of it, until `end` is cancelled or the store is
    /// closed.
    pub(crate) async fn follow_catalog(
        &self,
        store: &Arc<str>,
        mut catalog: watch::Receiver<Arc<Catalog>>,
        end: CancellationToken,
    ) {
        loop {
            let known = Arc::clone(&catalog.borrow_and_update());
            self.set_server_kinds(store, &known);
            match end.run_until_cancelled(catalog.changed()).await {
                Some(Ok(())) => {}
                Some(Err(_)) | None => return,
            }
        }
    }

    /// Replaces the kinds that the server of a store defines. Those that live in other stores are left out.
    pub(super) fn set_server_kinds(&self, store: &Arc<str>, catalog: &Catalog) {
        let lives_here = |info: &KindInfo| info.store.as_ref().is_none_or(|name| name == store);
        let here = catalog.kinds().map(|kind| self.located(KindInfo::served_by(kind, store))).filter(lives_here);
        let here: Vec<_> = here.map(|info| (id_of(&info.kind), info)).collect();
        let mut by_type = self.by_type.write();
        for (id, served) in &here {
            if let Some(known) = by_type.get_mut(id) {
                known.scale = served.scale_in(&known.kind.version);
            }
        }
        let mut of_servers = self.of_servers.write();
        of_servers.retain(|_, info| !lives_here(info));
        of_servers.extend(here);
        drop(of_servers);
        drop(by_type);
        self.notify();
    }

    /// Returns a declared kind with the scale subresource that its server has, if a server defines it.
    pub(super) fn scaled(&self, info: KindInfo) -> KindInfo {
        match self.of_servers.read().get(&id_of(&info.kind)) {
            Some(served) => KindInfo { scale: served.scale_in(&info.kind.version), ..info },
            None => info,
        }
    }

    /// Checks that a declaration agrees with the server that defines the kind, as far as its kinds are known.
    pub(super) fn check_server(&self, info: &KindInfo) -> Result<(), Error> {
        let Some(known) = self.of_servers.read().get(&id_of(&info.kind)).cloned() else { return Ok(()) };
        if known.is_served_in(&info.kind.version) {
            return KindInfo { kind: info.kind.clone(), ..known }.agrees_with(info);
        }
        known.agrees_with(info)
    }
}
