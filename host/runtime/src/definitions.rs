//! Writes of `CustomResourceDefinition`s: each declares a kind.
//!
//! What the document will be is worked out first, so that one that is malformed or contradicts what is declared is refused before it is
//! stored. Its kind is declared once the store has it.
//!
//! Absent: taking a kind back when its definition goes.

use homeostat_store::{EventType, Key, Store, SystemSource, Write, Written, semantics};

use crate::{Error, KindInfo, Kinds};

/// Stores a definition, and declares its kind.
///
/// When somebody else changes the same definition at the same time, the store may get another document than the one that was looked at:
/// then it is stored, and what is wrong with it is answered.
pub(crate) async fn write(store: &dyn Store, kinds: &Kinds, write: Write) -> Result<Written, Error> {
    if let Some(planned) = plan(store, &write).await? {
        kinds.check(&KindInfo::from_definition(&planned)?)?;
    }
    let written = store.write(write).await?;
    if written.change != Some(EventType::Deleted) {
        kinds.declare(KindInfo::from_definition(written.resource.document())?)?;
    }
    Ok(written)
}

/// Returns the document that a write would leave; `None` when it takes the resource away.
async fn plan(store: &dyn Store, write: &Write) -> Result<Option<serde_json::Value>, Error> {
    let target = write.target()?;
    let current = match &target.name {
        Some(name) => found(store.get(&Key::new(target.kind, &target.namespace, name)).await)?,
        None => None,
    };
    let lookup = |_: &Key| Ok(current.clone());
    let performed = semantics::perform(&SystemSource, write.clone(), store.revision().next(), lookup)?;
    if performed.event() == Some(EventType::Deleted) {
        return Ok(None);
    }
    Ok(Some(performed.decision.resource().document().clone()))
}

fn found<R>(read: homeostat_store::Result<R>) -> homeostat_store::Result<Option<R>> {
    match read {
        Ok(resource) => Ok(Some(resource)),
        Err(homeostat_store::Error::NotFound { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}
