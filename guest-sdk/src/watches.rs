//! Changes to follow on behalf of the key that is being reconciled, beyond what [`describe`](crate::Reconciler::describe) names.
//!
//! The calls of one reconcile together are the new set: it replaces the last one when the reconcile succeeds, and is dropped when it
//! fails. So call them each time, for all that this reconcile read and depends on. At most 64.

use crate::bindings::imports::homeostat::reconciler::watches as wit;
use crate::kind::{Key, Kind, kind_of};
use crate::selector::Selector;
use crate::store_error::Error;

/// A change of `target` brings the key that is being reconciled back. The resource need not be there yet. Needs the grant `watch`.
///
/// # Errors
///
/// [`Error::Forbidden`], [`Error::NotFound`] for a kind that nobody has declared, [`Error::TooLarge`].
pub fn follow(target: &Key) -> Result<(), Error> {
    Ok(wit::follow(target)?)
}

/// A change of any resource of kind `K` that the selector means, before or after, does the same, as far as `watch` is granted. A selector of
/// labels, fields or an owner needs the grant `get` or `list` too.
///
/// # Errors
///
/// As [`follow`].
pub fn follow_all<K: Kind>(selector: Selector) -> Result<(), Error> {
    Ok(wit::follow_all(&kind_of::<K>(), &selector.into_wit())?)
}
