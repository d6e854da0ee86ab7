//! Cleanup before a resource is deleted, for things outside the store, which no owner reference can reach.

use serde_json::json;

use crate::kind::Kind;
use crate::outcome::{Failure, Outcome};
use crate::resource::{Patch, Resource};

/// Runs `apply` while the resource exists, and `cleanup` when it is being deleted.
///
/// The finalizer `name` is added to the resource before `apply` runs for the first time, and removed after
/// `cleanup` succeeds; then the resource disappears. So no external thing that `apply` created is left
/// behind. `cleanup` may run again after it succeeded, if the host stopped in between, so it must accept that
/// everything is already gone. Needs the grant `patch`.
///
/// ```no_run
/// # use homeostat_sdk::prelude::*;
/// # fn close_account(_: &str) -> Result<(), Failure> { Ok(()) }
/// # fn open_account(_: &str) -> Result<(), Failure> { Ok(()) }
/// # fn reconcile<Account: Kind>(key: Key) -> Result<Outcome, Failure> {
/// let Some(mut account) = Account::get_opt(&key)? else {
///     return Ok(Outcome::settled());
/// };
/// finalizer(
///     &mut account,
///     "demo.homeostat.dev/account",
///     |account| open_account(&account.metadata.name).map(|()| Outcome::settled()),
///     |account| close_account(&account.metadata.name),
/// )
/// # }
/// ```
///
/// # Errors
///
/// Those of `apply` and `cleanup`, and of the patch. If the resource changed in the meantime, the patch fails
/// with a conflict, which is retried with backoff like any failure.
pub fn finalizer<K: Kind>(
    resource: &mut Resource<K>,
    name: &str,
    apply: impl FnOnce(&mut Resource<K>) -> Result<Outcome, Failure>,
    cleanup: impl FnOnce(&mut Resource<K>) -> Result<(), Failure>,
) -> Result<Outcome, Failure> {
    let present = resource.metadata.finalizers.iter().any(|finalizer| finalizer == name);
    match (resource.is_deleting(), present) {
        (true, true) => {
            cleanup(resource)?;
            let left = resource.metadata.finalizers.iter().filter(|finalizer| *finalizer != name).cloned().collect();
            match set(resource, left) {
                Ok(()) | Err(crate::Error::NotFound(_)) => Ok(Outcome::settled()),
                Err(error) => Err(error.into()),
            }
        }
        (true, false) => Ok(Outcome::settled()),
        (false, true) => apply(resource),
        (false, false) => {
            let mut finalizers = resource.metadata.finalizers.clone();
            finalizers.push(name.to_owned());
            set(resource, finalizers)?;
            apply(resource)
        }
    }
}

/// Replaces the list of finalizers as read: a finalizer added by another client in the meantime causes a
/// conflict instead of being lost.
fn set<K: Kind>(resource: &mut Resource<K>, finalizers: Vec<String>) -> Result<(), crate::Error> {
    resource.patch_as_read(Patch::Merge(json!({ "metadata": { "finalizers": finalizers } })))
}
