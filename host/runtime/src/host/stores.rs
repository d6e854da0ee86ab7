//! Reports the states of several stores: as events, and in the status of the controllers that need them.

use std::time::Duration;

use homeostat_component::Severity;
use homeostat_store::Kind;
use tokio_util::sync::CancellationToken;

use super::Host;
use crate::Stores;
use crate::store_monitor::{StoreMonitor, Transition};

/// How often the states of the stores are compared.
const LOOK_EVERY: Duration = Duration::from_secs(1);

impl Host {
    /// Returns the stores, with the kinds that live in each.
    pub fn stores(&self) -> &Stores {
        &self.inner.context.stores
    }

    /// Reports each transition of a store until `end` is cancelled. A host with one store needs no reports: the
    /// readiness of the store is that of the host.
    pub(super) async fn report_stores(self, mut monitor: StoreMonitor, end: CancellationToken) {
        if matches!(self.stores(), Stores::One(_)) {
            return;
        }
        while end.run_until_cancelled(tokio::time::sleep(LOOK_EVERY)).await.is_some() {
            monitor.transitions().iter().for_each(|transition| self.report_transition(transition));
        }
    }

    /// Records an event, and updates the status of every controller that needs the store or the kind.
    fn report_transition(&self, Transition { store, kind, event, reason }: &Transition) {
        let context = &self.inner.context;
        let (severity, message) = match (reason, kind) {
            (Some(reason), _) => (Severity::Warning, reason.clone()),
            (None, Some(kind)) => (Severity::Normal, format!("the kind {kind} of store {store} can be used again")),
            (None, None) => (Severity::Normal, format!("store {store} can be used again")),
        };
        context.event(&"homeostat".into(), None, severity, event, &message);
        let is_meant = |used: &Kind| {
            kind.as_ref().is_none_or(|kind| kind.same_type(used))
                && context.stores.name_of(used).as_ref() == Some(store)
        };
        for status in self.controllers() {
            if is_meant(&status.manages) || status.watches.iter().any(is_meant) {
                self.report_again(&status.name);
            }
        }
    }
}
