//! Reconciles as data: recorded, replayed, compared.
//!
//! A guest's only inputs are the answers to its effects. So a [`Trace`] with all of them is enough to run the
//! guest again without a store, a network or a clock. The same guest then behaves the same.
//!
//! * [`record()`] reconciles a key once, and records the trace.
//! * [`Replay`] is an innermost layer that answers from a trace alone.
//! * [`difference()`] finds the first difference of two traces, and whether the world or the guest caused it.
//!
//! Deliberately absent: faults, schedules and checks. They are further layers over the same trait.

mod difference;
mod record;
mod replay;
mod trace;

pub use difference::{TraceDifference, difference};
pub use record::record;
pub use replay::{Replay, replay};
pub use trace::Trace;
