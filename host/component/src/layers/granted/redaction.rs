//! Redacts the answer to a write for a controller that may not read the resource.
//!
//! The full answer has the whole stored document, and errors quote it. A controller that may write but not
//! read gets back its own input, and the store's names and numbers: uid, revision, generation. It also learns
//! whether the resource exists: hiding that would make the result of the write a lie.

use homeostat_store::{Change, Write};
use serde_json::{Value, json};

use crate::effect::{Answer, ResourceData, StoreError, WriteData};

/// Operations of a JSON patch whose result discloses content of the document.
const READING: [&str; 3] = ["test", "copy", "move"];

/// Returns whether a write also reads: repeated patches of this kind could reveal the whole document.
pub(super) fn reads(write: &Write) -> bool {
    let change = match write {
        Write::Patch { change, .. } | Write::PatchStatus { change, .. } => change,
        _ => return false,
    };
    let Change::Json(Value::Array(operations)) = change else { return false };
    operations.iter().any(|operation| operation["op"].as_str().is_some_and(|op| READING.contains(&op)))
}

/// The content of a write, which the controller may see again.
pub(super) struct WrittenDocument {
    document: Value,
    /// Whether an invalid result may stem from stored content, not only from this write.
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

    /// Reduces an answer to the written content and the values set by the store.
    pub(super) fn redact(self, answer: Answer) -> Answer {
        let error =
            |text: &str| format!("{text}; the details are shown only to controllers with the grant `get` or `list`");
        match answer {
            Answer::Written(Ok(WriteData { resource, change })) => {
                Answer::Written(Ok(WriteData { resource: self.into_stored(resource), change }))
            }
            Answer::Written(Err(StoreError::Owned(_))) => {
                Answer::Written(Err(StoreError::Owned(error("other managers own fields of the document"))))
            }
            Answer::Written(Err(StoreError::Invalid(_))) if self.is_laid_over => {
                Answer::Written(Err(StoreError::Invalid(error("the resulting document is invalid"))))
            }
            Answer::Written(Err(StoreError::TooLarge(_))) if self.is_laid_over => {
                Answer::Written(Err(StoreError::TooLarge(error("the resulting document is too large"))))
            }
            other => other,
        }
    }

    fn into_stored(self, stored: ResourceData) -> ResourceData {
        let mut document = self.document;
        // A written document always has metadata.
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
