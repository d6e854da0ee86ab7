//! The data of one reconcile that the comparison uses.

use std::collections::BTreeSet;
use std::sync::Arc;

use homeostat_component::layers::DenialObserver;
use homeostat_component::{Call, Capability, Exchange, Fault, Outcome};
use parking_lot::Mutex;

/// Maximum number of denials kept of one reconcile.
const DENIALS_MAX: usize = 64;

/// One finished reconcile.
#[derive(Debug)]
pub(super) struct Run {
    /// The effects that passed its grants, with their answers, in order.
    pub(super) exchanges: Vec<Exchange>,
    pub(super) result: Result<Outcome, Fault>,
    /// Its denials, in one line each.
    pub(super) denials: BTreeSet<String>,
}

/// Collects the denials of one reconcile and forwards them.
pub(super) struct DenialCollector {
    next: Option<Arc<dyn DenialObserver>>,
    kept: Mutex<BTreeSet<String>>,
}

impl DenialCollector {
    /// Returns a collector that forwards to `next`.
    pub(super) fn before(next: Option<Arc<dyn DenialObserver>>) -> Arc<Self> {
        Arc::new(Self { next, kept: Mutex::default() })
    }

    /// Returns and removes the collected denials.
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

/// Removes the suggested grants and the query of a URL, which may contain a secret.
fn in_one_line(missing: &str) -> &str {
    let end = missing.find([';', '\n', '?']).unwrap_or(missing.len());
    &missing[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_denial_is_one_line_without_the_query_of_its_address() {
        assert_eq!(in_one_line("no grant for get of Pod; the manifest would\ngrants:"), "no grant for get of Pod");
        assert_eq!(
            in_one_line("no grant for GET https://a.example/b?token=1; the"),
            "no grant for GET https://a.example/b"
        );
    }
}
