//! What one reconcile did, as far as two are compared by it.

use std::collections::BTreeSet;
use std::sync::Arc;

use homeostat_component::layers::DenialObserver;
use homeostat_component::{Call, Capability, Exchange, Fault, Outcome};
use parking_lot::Mutex;

/// Denials of one reconcile that are kept.
const DENIALS_MAX: usize = 64;

/// One reconcile that ended.
#[derive(Debug)]
pub(super) struct Run {
    /// What passed its grants, in order.
    pub(super) exchanges: Vec<Exchange>,
    pub(super) result: Result<Outcome, Fault>,
    /// What it was denied, in one line each.
    pub(super) denials: BTreeSet<String>,
}

/// Keeps what one reconcile is denied, and hands it on.
pub(super) struct DenialCollector {
    next: Option<Arc<dyn DenialObserver>>,
    kept: Mutex<BTreeSet<String>>,
}

impl DenialCollector {
    /// Hands on to `next`, where there is one.
    pub(super) fn before(next: Option<Arc<dyn DenialObserver>>) -> Arc<Self> {
        Arc::new(Self { next, kept: Mutex::default() })
    }

    /// Takes what was kept.
    pub(super) fn take(&self) -> BTreeSet<String> {
        std::mem::take(&mut self.kept.lock())
    }
}

impl DenialObserver for DenialCollector {
    fn denied(&self, call: &Call, capability: Capability, missing: &str) {
        if let Some(next) = &self.next {
            next.denied(call, capability, missing);
        }
        let mut kept = self.kept.lock();
        if kept.len() < DENIALS_MAX {
            kept.insert(in_one_line(missing).to_owned());
        }
    }
}

/// Cuts off the lines that would grant it, and what an address asks for: there may be a secret in that.
fn in_one_line(missing: &str) -> &str {
    let end = missing.find([';', '\n', '?']).unwrap_or(missing.len());
    &missing[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_denial_is_one_line_without_what_an_address_asks_for() {
        assert_eq!(in_one_line("no grant for get of Pod; the manifest would\ngrants:"), "no grant for get of Pod");
        assert_eq!(
            in_one_line("no grant for GET https://a.example/b?token=1; the"),
            "no grant for GET https://a.example/b"
        );
    }
}
