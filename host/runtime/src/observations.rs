//! What a controller was seen to ask for, and what it was denied. Outlives its definitions.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use homeostat_component::layers::DenialObserver;
use homeostat_component::{Call, Capability, Needs, Severity};

use crate::context::Context;

/// Bytes of the message of a denial's event. Cut above.
const MESSAGE_BYTES_MAX: usize = 1024;

/// What belongs to one controller.
#[derive(Debug, Default)]
pub(crate) struct Observations {
    pub(crate) needs: Arc<Needs>,
    /// In the order of [`Capability::ALL`].
    denials: [AtomicU64; Capability::ALL.len()],
}

impl Observations {
    /// Returns how often each capability was denied, in the order of [`Capability::ALL`].
    pub(crate) fn denials(&self) -> [u64; Capability::ALL.len()] {
        self.denials.each_ref().map(|count| count.load(Ordering::Relaxed))
    }

    /// Counts a denial, and returns how many of its capability were counted before.
    fn count(&self, denied: Capability) -> u64 {
        let place = Capability::ALL.iter().position(|capability| *capability == denied);
        place.map_or(0, |place| self.denials[place].fetch_add(1, Ordering::Relaxed))
    }
}

/// Counts denials, and makes each an event about the key that was reconciled. Equal ones are one event, which is counted.
///
/// Files and sockets, which a language's own library may try, are told the first time only: nobody can grant them. What comes after is in [`Needs`].
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
