//! The resource that a write creates.

use homeostat_store::{Key, Store, Target, Write};
use serde_json::Value;

use crate::Error;
use crate::error::found;

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
