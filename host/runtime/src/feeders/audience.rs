//! Who would get a key, and what the grants of that version let it know.
//!
//! A feeder is shared by all versions of a controller, and grants change while it runs. So nothing about grants is kept beside a key: it is
//! asked when a key is about to be added, and once more when it is about to run.

use homeostat_component::Disclosure;
use homeostat_store::Key;

/// The versions of a controller that its keys go to. Must not wait.
pub(crate) trait Audience: Send + Sync + 'static {
    /// Returns whether whoever would reconcile `key` now may be told of it: its grants cover a watch of it.
    fn may_get(&self, key: &Key) -> bool;

    /// Returns whether whoever would reconcile `key` now may be told of it because `of` has changed, which reveals so much of `of`.
    fn may_learn(&self, key: &Key, of: &Key, reveals: Disclosure) -> bool;
}

#[cfg(test)]
mod tests;
