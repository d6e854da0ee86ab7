//! Dynamic watches on behalf of the key that is being reconciled, in addition to the watches of
//! [`describe`](crate::Reconciler::describe).
//!
//! The calls of one reconcile form a set. It replaces the previous set when the reconcile succeeds, and is
//! dropped when the reconcile fails. So repeat the calls in each reconcile, for everything that it read and
//! depends on. At most 64.

use crate::host::watches as wit;
use crate::kind::{Key, Kind, kind_of};
use crate::selector::Selector;
use crate::store_error::Error;

/// Requeues the current key when `target` changes. The resource need not exist yet. Needs the grant `watch`.
///
/// # Errors
///
/// [`Error::Forbidden`], [`Error::NotFound`] for an undeclared kind, [`Error::TooLarge`].
pub fn follow(target: &Key) -> Result<(), Error> {
    Ok(wit::follow(target)?)
}

/// Requeues the current key when any resource of kind `K` changes that the selector matches before or after
/// the change. It covers resources for which `watch` is granted. A selector with labels, fields or an owner
/// also needs the grant `get` or `list`.
///
/// # Errors
///
/// As [`follow`].
pub fn follow_all<K: Kind>(selector: Selector) -> Result<(), Error> {
    Ok(wit::follow_all(&kind_of::<K>(), &selector.into_wit())?)
}
