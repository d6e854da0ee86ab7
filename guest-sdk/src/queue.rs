//! The queue of this controller: keys that the guest enqueues itself.
//!
//! The key is of the managed kind, and the manifest grants `enqueue` for it. A call takes effect at once, also when the
//! reconcile fails later. Equal keys merge.

use std::time::Duration;

pub use crate::bindings::imports::homeostat::reconciler::queue::Priority;
use crate::host::queue as wit;
use crate::kind::Key;
use crate::store_error::Error;

/// When an enqueued key runs. The default is now, among the changes.
///
/// ```
/// # use homeostat_sdk::queue::{Options, Priority};
/// # use std::time::Duration;
/// let quiet = Options { after: Duration::from_secs(60), hold: true, ..Options::default() };
/// # assert_eq!(quiet.priority, Priority::Normal);
/// ```
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Options {
    /// The delay from now until the key is due. At most 365 days count.
    pub after: Duration,
    /// The priority band.
    pub priority: Priority,
    /// The delay is a minimum: no event shortens it.
    pub hold: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { after: Duration::ZERO, priority: Priority::Normal, hold: false }
    }
}

/// Puts a key of the managed kind on the queue of this controller, as a change of its resource does. The resource need
/// not exist.
///
/// # Errors
///
/// [`Error::Forbidden`], [`Error::Invalid`] for a key that no resource of the managed kind can have,
/// [`Error::Unavailable`] when the queue is full, or when another host holds the lease of the key.
pub fn enqueue(key: &Key, options: Options) -> Result<(), Error> {
    let Options { after, priority, hold } = options;
    let after = u64::try_from(after.as_millis()).unwrap_or(u64::MAX);
    Ok(wit::enqueue(key, wit::EnqueueOptions { after, priority, hold })?)
}
