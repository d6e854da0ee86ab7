//! A document is created once, reads back as it was stored, and an update with the same content changes
//! nothing.

use homeostat_store::{DOCUMENT_BYTES_MAX, Key, Kind, Precondition, Resource, Selector, Store, View, Write};
use serde_json::Value;

use crate::target::{Acceptance, Outcome, bytes, is_shallow, must, same};
use crate::test_store;

pub(crate) fn judge(input: &[u8]) -> Outcome {
    let Ok(document) = serde_json::from_slice::<Value>(input) else { return Ok(Acceptance::Rejected) };
    if let Ok(resource) = Resource::from_document(document.clone()) {
        reads(&resource)?;
    }
    let store = test_store::store();
    let Ok(created) = test_store::submit(&store, Write::Create { document }, false) else {
        return Ok(Acceptance::Rejected);
    };
    let stored = &created.resource;
    reads(stored)?;
    must("a stored document is bounded", stored.bytes() <= DOCUMENT_BYTES_MAX + 1024)?;
    must("a stored document is not too deep", is_shallow(stored.document()))?;
    let read = test_store::wait(store.get(stored.key()))
        .map_err(|error| format!("the created resource is missing: {error}"))?;
    same("a resource reads back as it was stored", &read, stored)?;
    let update = Write::Update { document: stored.document().clone(), precondition: Precondition::default() };
    let updated =
        test_store::submit(&store, update, false).map_err(|error| format!("cannot be written back: {error}"))?;
    same("an identical update changes nothing", &updated.change, &None)?;
    let dependents = stored
        .owners()
        .iter()
        .map(|owner| test_store::wait(store.dependents(&owner.uid)))
        .collect::<Result<Vec<_>, _>>();
    let dependents = dependents.map_err(|error| format!("dependents cannot be read: {error}"))?;
    must("an owner has its dependents", dependents.iter().all(|found| found.contains(stored)))?;
    Ok(Acceptance::Accepted)
}

/// Reads all parts of a resource, and its text.
fn reads(resource: &Resource) -> Result<(), String> {
    let (labels, annotations) = (resource.labels().count(), resource.annotations().count());
    let count = labels + annotations + resource.finalizers().count() + resource.owners().len();
    must("a document has no more parts than bytes", count <= bytes(resource.document()))?;
    let whole = serde_json::from_str::<Value>(&resource.view(View::Whole));
    must("the text of a document reads as the document", whole.is_ok_and(|whole| whole == *resource.document()))?;
    let metadata = serde_json::from_str::<Value>(&resource.view(View::Metadata));
    must("the view of the metadata is JSON", metadata.is_ok())?;
    same("the length is that of the text", &resource.bytes(), &(resource.view(View::Whole).len() as u64))?;
    let key = serde_json::to_string(resource.key()).map_err(|error| error.to_string())?;
    same("a key reads as it was written", &serde_json::from_str::<Key>(&key).ok().as_ref(), &Some(resource.key()))?;
    let kind = resource.key().kind();
    same("a kind reads as it was written", &Kind::parse(&kind.api_version(), &kind.name).as_ref(), &Ok(kind))?;
    must("the selector of everything means everything", Selector::default().matches(resource))
}
