//! The annotation by which a store that gives uids of its own shows which resource a copy was made of. Pure.
//!
//! The server of a cluster gives every resource a new uid. So a copy there has the uid of its original in this
//! annotation, and the revision of the original that it shows. A repeated copy recognises its own copies by the uid.
//! It compares revisions and no documents, because the server adds defaults.
//!
//! Deliberately absent: requests. [`crate::moves`] compares marks, and the store of the cluster writes them.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{Resource, Revision};

/// The annotation of a copy, as JSON.
pub const COPY_ANNOTATION: &str = "homeostat.dev/moved-from";

/// The value of [`COPY_ANNOTATION`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopyMark {
    /// The uid of the original.
    pub uid: String,
    /// The revision of the original; `None` while the copy is unfinished.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
}

impl CopyMark {
    /// Returns the mark of a finished copy.
    pub(crate) fn finished(uid: &str, revision: Revision) -> Self {
        Self { uid: uid.to_owned(), revision: Some(revision.to_string()) }
    }

    /// Returns the mark of a resource; `None` if it is no copy.
    pub fn of(resource: &Resource) -> Option<Self> {
        serde_json::from_str(resource.annotation(COPY_ANNOTATION)?).ok()
    }

    /// Returns the value of the annotation.
    pub fn text(&self) -> String {
        json!(self).to_string()
    }

    /// Puts the annotation into a document, which has metadata.
    pub fn write(&self, document: &mut Value) {
        let annotations = &mut document["metadata"]["annotations"];
        if !annotations.is_object() {
            *annotations = json!({});
        }
        annotations[COPY_ANNOTATION] = self.text().into();
    }

    /// Removes the annotation from a document.
    pub(crate) fn remove(document: &mut Value) {
        let Some(metadata) = document.get_mut("metadata").and_then(Value::as_object_mut) else { return };
        let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) else { return };
        if annotations.remove(COPY_ANNOTATION).is_some() && annotations.is_empty() {
            metadata.remove("annotations");
        }
    }
}
