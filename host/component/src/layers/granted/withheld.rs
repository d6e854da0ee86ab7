//! What the answer to a write says to a controller that may not read what it wrote.
//!
//! The answer has the whole document as stored, and errors quote it. Who may write and not read learns what it said itself, and the names and
//! numbers that the store gave: uid, revision, generation. That the resource is there, or is not, it learns as well: a write that kept
//! that to itself would be a lie.

use homeostat_store::{Change, Write};
use serde_json::{Value, json};

use crate::effect::{Answer, ResourceData, StoreError, WriteData};

/// Operations of a JSON patch whose outcome tells what stands in a document.
const READING: [&str; 3] = ["test", "copy", "move"];

/// Says whether a write reads what is there: with such a patch one could ask until one knows.
pub(super) fn reads(write: &Write) -> bool {
    let change = match write {
        Write::Patch { change, .. } | Write::PatchStatus { change, .. } => change,
        _ => return false,
    };
    let Change::Json(Value::Array(operations)) = change else { return false };
    operations.iter().any(|operation| operation["op"].as_str().is_some_and(|op| READING.contains(&op)))
}

/// What a controller has said in a write, and so may hear again.
pub(super) struct WrittenDocument {
    document: Value,
    /// Whether what is refused as invalid is made of what is there as well.
    is_laid_over: bool,
}

impl WrittenDocument {
    pub(super) fn of(write: &Write) -> Self {
        let named = |key: &homeostat_store::Key| {
            let metadata = json!({"name": key.name(), "namespace": key.namespace()});
            json!({"apiVersion": key.kind().api_version(), "kind": key.kind().name, "metadata": metadata})
        };
        let document = match write {
            Write::Create { document }
            | Write::Update { document, .. }
            | Write::Apply { document, .. }
            | Write::ApplyStatus { document, .. } => document.clone(),
            Write::UpdateStatus { key, status, .. } => {
                let mut document = named(key);
                document["status"] = status.clone();
                document
            }
            Write::Patch { key, .. } | Write::PatchStatus { key, .. } | Write::Delete { key, .. } => named(key),
        };
        Self { document, is_laid_over: !matches!(write, Write::Create { .. } | Write::Update { .. }) }
    }

    /// Leaves in an answer what was said, and what the store gave.
    pub(super) fn redact(self, answer: Answer) -> Answer {
        let error = |text: &str| {
            format!("{text}; what is there is told to a controller that may `get` it, which this one may not")
        };
        match answer {
            Answer::Written(Ok(WriteData { resource, change })) => {
                Answer::Written(Ok(WriteData { resource: self.into_stored(resource), change }))
            }
            Answer::Written(Err(StoreError::Owned(_))) => {
                Answer::Written(Err(StoreError::Owned(error("fields of the document belong to somebody else"))))
            }
            Answer::Written(Err(StoreError::Invalid(_))) if self.is_laid_over => {
                Answer::Written(Err(StoreError::Invalid(error("the document that would come of it is not acceptable"))))
            }
            Answer::Written(Err(StoreError::TooLarge(_))) if self.is_laid_over => {
                Answer::Written(Err(StoreError::TooLarge(error("the document that would come of it is too large"))))
            }
            other => other,
        }
    }

    fn into_stored(self, stored: ResourceData) -> ResourceData {
        let mut document = self.document;
        // A document that was written has metadata.
        if let Some(metadata) = document["metadata"].as_object_mut() {
            metadata.insert("name".to_owned(), stored.key.name().into());
            match stored.key.namespace() {
                "" => metadata.remove("namespace"),
                namespace => metadata.insert("namespace".to_owned(), namespace.into()),
            };
            metadata.insert("uid".to_owned(), stored.uid.as_str().into());
            metadata.insert("resourceVersion".to_owned(), stored.revision.as_str().into());
            metadata.insert("generation".to_owned(), stored.generation.into());
        }
        ResourceData { json: document.to_string(), ..stored }
    }
}
