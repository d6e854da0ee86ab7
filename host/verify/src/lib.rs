//! Reconciles as data: recorded, replayed, compared.
//!
//! Everything that a guest gets from outside of its sandbox is an answer to an effect. So a [`Trace`] with all of them is enough to run
//! the guest again, with no store, no network and no clock: it does the same, or it is not the same guest.
//!
//! * [`record()`] runs a key once, and keeps what passes.
//! * [`Replay`] is an innermost layer that answers from a trace alone.
//! * [`difference()`] says where two traces part, and whether the world or the guest was the first to differ.
//!
//! Absent on purpose: faults, schedules and checks. They are more layers over the same trait.

mod difference;
mod record;
mod replay;
mod trace;

pub use difference::{TraceDifference, difference};
pub use record::record;
pub use replay::{Replay, replay};
pub use trace::Trace;
