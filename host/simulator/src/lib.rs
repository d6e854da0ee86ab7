//! Runs one controller over a store in memory, in virtual time, for the tests of its author.
//!
//! The parts are those of the host: the store in memory, the schemas, the garbage collector, the rules of the
//! queue, the declared mappings, the grants, and the meaning of a result. Only time, ids and faults are the
//! simulator's own, so that a test gives the same result each time.
//!
//! * [`Simulator`] runs a controller key by key, or until nothing is queued.
//! * [`Case`] is a test as written in a file, and [`run`] runs it.
//!
//! Deliberately absent: a network (each HTTP request is unreachable), several controllers at once, and the
//! limits of the manifest.

mod cases;
mod clock;
mod difference;
mod effects;
mod reconciler;
mod simulator;

pub use cases::{Case, CaseError, Expectation, StoreFault, run};
pub use difference::differences;
pub use effects::{InjectedFault, Operation, RecordedEvent, RecordedLine};
pub use reconciler::{ComponentReconciler, Reconciler};
pub use simulator::{Error, RECONCILES_MAX, Run, Simulator};
