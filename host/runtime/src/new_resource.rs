//! The resource that a write creates, or the pod whose part it changes.

use homeostat_store::{Change, Key, Store, Target, Write};
use serde_json::Value;

use crate::error::found;
use crate::{Error, Kinds, priorities};

/// The facts that each plug-in has about a resource that is created, or a pod whose part is changed, besides its document.
#[derive(Clone, Copy)]
pub(crate) struct NewResource<'w> {
    pub(crate) store: &'w dyn Store,
    pub(crate) kinds: &'w Kinds,
    pub(crate) target: &'w Target,
    pub(crate) is_pod: bool,
}

impl<'w> NewResource<'w> {
    pub(crate) fn new(store: &'w dyn Store, kinds: &'w Kinds, target: &'w Target) -> Self {
        Self { store, kinds, target, is_pod: target.kind.same_type(&priorities::pods()) }
    }

    /// Returns the refusal of a pod or claim of a volume.
    pub(crate) fn refused(&self, reason: &str) -> Error {
        let plural = if self.is_pod { "pods" } else { "persistentvolumeclaims" };
        Error::forbidden(plural, self.target.name.as_deref().unwrap_or_default(), reason)
    }
}

/// Returns the document or patch of a write to a whole resource; `None` for other writes.
pub(crate) fn sent_value(write: &Write) -> Option<&Value> {
    match write {
        Write::Create { document } | Write::Update { document, .. } | Write::Apply { document, .. } => Some(document),
        Write::Patch { change: Change::Merge(patch) | Change::Strategic(patch) | Change::Json(patch), .. } => {
            Some(patch)
        }
        _ => None,
    }
}

/// Returns the document of the resource that a write to a target creates; `None` for a write that creates none.
///
/// # Errors
/// [`Error::Store`].
pub(crate) async fn new_document<'w>(
    store: &dyn Store,
    write: &'w mut Write,
    target: &Target,
) -> Result<Option<&'w mut Value>, Error> {
    if let Write::Apply { .. } = write {
        let key = Key::new(target.kind.clone(), &target.namespace, target.name.as_deref().unwrap_or_default());
        if found(store.get_live(&key).await)?.is_some() {
            return Ok(None);
        }
    }
    Ok(match write {
        Write::Create { document } | Write::Apply { document, .. } => Some(document),
        _ => None,
    })
}
