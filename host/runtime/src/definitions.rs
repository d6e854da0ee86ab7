//! Writes of `CustomResourceDefinition`s: each declares a kind.
//!
//! What the document will be is worked out first, so that one that is malformed or contradicts what is declared is refused before it is
//! stored. Its kind is declared once the store has it.
//!
//! Absent: taking a kind back when its definition goes.

use homeostat_store::{EventType, Request, Store, Written};

use crate::{Error, KindInfo, Kinds};

/// Stores a definition, and declares its kind.
///
/// When somebody else changes the same definition at the same time, the store may get another document than the one that was looked at:
/// then it is stored, and what is wrong with it is answered.
pub(crate) async fn write(store: &dyn Store, kinds: &Kinds, request: Request) -> Result<Written, Error> {
    let planned = store.submit(Request { dry_run: true, ..request.clone() }).await?;
    if planned.change != Some(EventType::Deleted) {
        kinds.check(&KindInfo::from_definition(planned.resource.document())?)?;
    }
    if request.dry_run {
        return Ok(planned);
    }
    let written = store.submit(request).await?;
    if written.change != Some(EventType::Deleted) {
        kinds.declare(KindInfo::from_definition(written.resource.document())?)?;
    }
    Ok(written)
}
