//! The grants of the version that would reconcile a key.
//!
//! All versions of a controller share a feeder, and grants change while it runs. So no grant is stored with a
//! key: it is checked when the key is added, and again when it runs.

use homeostat_component::Disclosure;
use homeostat_store::Key;

/// The versions that reconcile the keys of a controller. Must not block.
pub(crate) trait Audience: Send + Sync + 'static {
    /// Returns whether the version that would reconcile `key` now may receive it: its grants cover a watch of
    /// it.
    fn may_get(&self, key: &Key) -> bool;

    /// Returns whether the version that would reconcile `key` now may receive it because `of` has changed,
    /// which reveals `reveals` of `of`.
    fn may_learn(&self, key: &Key, of: &Key, reveals: Disclosure) -> bool;
}
