//! The capabilities that a controller has used or was denied. They outlive its definitions.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use homeostat_component::layers::DenialObserver;
use homeostat_component::{Call, Capability, Needs, Severity};

use crate::context::Context;

/// Maximum bytes of a denial event's message; longer ones are cut.
const MESSAGE_BYTES_MAX: usize = 1024;

/// The observations of one controller.
#[derive(Debug, Default)]
pub(crate) struct Observations {
    pub(crate) needs: Arc<Needs>,
    /// In the order of [`Capability::ALL`].
    denials: [AtomicU64; Capability::ALL.len()],
}

impl Observations {
    /// Returns the denials by capability, in the order of [`Capability::ALL`].
    pub(crate) fn denials(&self) -> [u64; Capability::ALL.len()] {
        self.denials.each_ref().map(|count| count.load(Ordering::Relaxed))
    }

    /// Counts a denial and returns the previous count of its capability.
    fn count(&self, denied: Capability) -> u64 {
        let place = Capability::ALL.iter().position(|capability| *capability == denied);
        place.map_or(0, |place| self.denials[place].fetch_add(1, Ordering::Relaxed))
    }
}

/// Counts denials and records each as an event about the reconciled key. Equal events are merged.
///
/// Files and sockets, which a language's runtime may try, are reported only once: no grant covers them.
/// [`Needs`] has all of them.
pub(crate) struct DenialReporter {
    pub(crate) context: Arc<Context>,
    pub(crate) observations: Arc<Observations>,
}

impl DenialObserver for DenialReporter {
    fn denied(&self, call: &Call, capability: Capability, missing: &str) {
        let before = self.observations.count(capability);
        let (is_absent, reason) = match capability {
            Capability::Files => (true, "NoFiles"),
            Capability::Sockets => (true, "NoSockets"),
            Capability::Http | Capability::Resources(_) => (false, "Forbidden"),
        };
        if is_absent && before > 0 {
            return;
        }
        let message = &missing[..missing.floor_char_boundary(MESSAGE_BYTES_MAX)];
        self.context.event(&call.controller, call.key.clone(), Severity::Warning, reason, message);
    }
}
