//! The keyed work queue: it decides *which key runs next and when*, and nothing else.
//!
//! One key has at most one entry, whatever is added how often:
//!
//! ```text
//!             add                    claim                 finish
//!  (absent) ───────▶ ready ────────────────────▶ running ─────────▶ (absent) | waiting | ready | parked
//!      │               ▲  due, add, expedite        │ add: dirty, runs once more after finish
//!      └─ add_after ─▶ waiting                      └ a dropped claim: ready again
//! ```
//!
//! The rules live in [`state`], which is pure: every method takes the time, and randomness where it needs any, as
//! arguments. [`Queue`] is the thin asynchronous shell around it: one mutex, a list of sleeping claimers, one timer.
//!
//! Deliberately absent: what a key means, what a reconcile does, channels, background tasks (the one timer belongs to
//! one of the sleeping claimers), a rate limit over all keys, and any memory of keys that are finished.
//!
//! ```
//! use std::time::Duration;
//! use homeostat_workqueue::{Added, Next, Priority, Queue};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), homeostat_workqueue::Refused> {
//! let queue = Queue::<&str>::default();
//! queue.add("web", Priority::NORMAL)?;
//! assert_eq!(queue.add("web", Priority::HIGH)?, Added::Merged);
//!
//! let claim = queue.claim().await.expect("the queue is open");
//! assert_eq!(*claim.key(), "web");
//! claim.finish(Next::After(Duration::from_secs(60)));
//! assert_eq!(queue.stop().dropped, ["web"]);
//! # Ok(())
//! # }
//! ```
//!
//! **Invariants.** A key is claimed by at most one worker at a time. A queued key is handed out exactly once per claim.
//! No delay fires early. No ready key waits while a claimer sleeps, unless a suspension holds it back.
//!
//! **Bounds.** The queue holds one entry per distinct key, [`Options::keys_max`] of them at most, and
//! [`Options::error_bytes_max`] bytes of error texts; several queues can share a [`SharedCapacity`]. A new key that finds no room is
//! [refused](Refused::Full), whatever was there before stays, and a key that is there already always merges. An entry takes about
//! 100 bytes, the handle of an `Arc<str>` as its key included, and returns its memory when the key is finished.

mod backoff;
mod bands;
mod claim;
mod index;
mod item;
mod lock;
mod moment;
mod options;
mod priority;
mod queue;
mod report;
mod room;
mod slab;
pub mod state;
mod timers;
mod verbs;
mod waiters;

pub use backoff::Backoff;
pub use claim::Claim;
pub use moment::Moment;
pub use options::{AGEING_CLAIMS, DuringDelay, Options};
pub use priority::Priority;
pub use queue::Queue;
pub use report::{Ages, CloseReport, Counters, Entry, Finishes, KeyCounts};
pub use room::SharedCapacity;
pub use verbs::{AddError, AddOutcome, ChangeOutcome, FinishOutcome, Key, KeyState, Next, ShutdownPhase};
