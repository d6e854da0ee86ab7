//! The keyed work queue: it decides *which key runs next and when*, and nothing else.
//!
//! Each key has at most one entry, however often it is added:
//!
//! ```text
//!             add                    claim                 finish
//!  (absent) ───────▶ ready ────────────────────▶ running ─────────▶ (absent) | waiting | ready | parked
//!      │               ▲  due, add, expedite        │ add: dirty, runs once more after finish
//!      └─ add_after ─▶ waiting                      └ a dropped claim: ready again
//! ```
//!
//! The rules are in [`state`], which is pure: every method takes the time, and randomness where it needs any,
//! as arguments. [`Queue`] is the thin asynchronous shell around it: one mutex, a list of sleeping claimers,
//! one timer.
//!
//! Deliberately absent: the meaning of a key, the work of a reconcile, channels, a rate limit over all keys,
//! and any memory of finished keys. There are no background tasks either: one of the sleeping claimers owns
//! the one timer.
//!
//! ```
//! use std::time::Duration;
//! use homeostat_workqueue::{AddOutcome, Next, Priority, Queue};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), homeostat_workqueue::AddError> {
//! let queue = Queue::<&str>::default();
//! queue.add("web", Priority::NORMAL)?;
//! assert_eq!(queue.add("web", Priority::HIGH)?, AddOutcome::Merged);
//!
//! let claim = queue.claim().await.expect("the queue is open");
//! assert_eq!(*claim.key(), "web");
//! claim.finish(Next::After(Duration::from_secs(60)));
//! assert_eq!(queue.stop().dropped, ["web"]);
//! # Ok(())
//! # }
//! ```
//!
//! **Invariants.** At most one worker holds the claim of a key. A queued key is handed out exactly once per
//! claim. No delay fires early. While a key is ready and not suspended, no claimer sleeps.
//!
//! **Bounds.** The queue holds one entry per distinct key: at most [`Options::keys_max`] entries and
//! [`Options::error_bytes_max`] bytes of error texts. Several queues can share a [`SharedCapacity`]. A new
//! key without capacity is [refused](AddError::Full). The existing keys stay, and an add of an existing key
//! always merges. An entry takes about 100 bytes, including the handle of an `Arc<str>` as its key. It frees
//! its memory when the key is finished.

mod backoff;
mod bands;
mod capacity;
mod item;
mod moment;
mod options;
mod priority;
mod queue;
mod report;
mod slab;
pub mod state;
mod timers;
mod verbs;

pub use backoff::Backoff;
pub use capacity::SharedCapacity;
pub use moment::Moment;
pub use options::{AGEING_CLAIMS, DuringDelay, Options};
pub use priority::Priority;
pub use queue::{Claim, Queue};
pub use report::{Ages, CloseReport, Counters, Entry, Finishes, KeyCounts};
pub use verbs::{AddError, AddOutcome, ChangeOutcome, Delay, FinishOutcome, Key, KeyState, Next, ShutdownPhase};
