//! Creates the resources that a host has from its start.

use homeostat_store::{Error, Result, Store, Write};
use serde_json::Value;

/// Creates a resource unless it exists.
///
/// # Errors
/// Those of the store.
pub(crate) async fn create_missing(store: &dyn Store, document: Value) -> Result<()> {
    match store.write(Write::Create { document }).await {
        Ok(_) | Err(Error::AlreadyExists { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}
