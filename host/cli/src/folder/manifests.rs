//! The documents of a folder, by file.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::file_debouncer::FileChange;
use crate::manifest::{self, Document, Problem, ResourceId};

#[derive(Default)]
pub(super) struct Manifests {
    /// The documents and problems of each file.
    files: BTreeMap<PathBuf, (Vec<Document>, Vec<Problem>)>,
    /// The documents and problems of all files.
    content: Arc<Content>,
}

/// The content of all files.
#[derive(Default)]
pub(super) struct Content {
    /// The documents, one for each resource.
    pub(super) documents: Vec<Document>,
    /// The problems of all files, duplicates included.
    pub(super) problems: Vec<Problem>,
    pub(super) resources: BTreeSet<ResourceId>,
    pub(super) controllers: BTreeSet<String>,
}

impl Content {
    fn gather(files: &BTreeMap<PathBuf, (Vec<Document>, Vec<Problem>)>) -> Self {
        let mut documents: Vec<Document> = files.values().flat_map(|(documents, _)| documents).cloned().collect();
        let mut problems: Vec<Problem> = files.values().flat_map(|(_, problems)| problems).cloned().collect();
        problems.extend(manifest::take_duplicates(&mut documents));
        let controllers =
            documents.iter().filter_map(|document| Some(document.controller.as_ref()?.metadata.name.clone())).collect();
        let resources =
            documents.iter().filter(|document| document.controller.is_none()).map(Document::identity).collect();
        Self { documents, problems, resources, controllers }
    }
}

impl Manifests {
    /// Reads the manifests that changed.
    pub(super) async fn read(&mut self, changes: &[&FileChange]) {
        for change in changes {
            let path = change.path().to_owned();
            match change {
                FileChange::Gone(_) => drop(self.files.remove(&path)),
                FileChange::Changed(_) => {
                    let file = path.clone();
                    let read = tokio::task::spawn_blocking(move || manifest::read(&file)).await;
                    self.files.insert(path, read.expect("reading a manifest does not panic"));
                }
            }
        }
        if !changes.is_empty() {
            self.content = Arc::new(Content::gather(&self.files));
        }
    }

    /// Returns the documents and problems of all files.
    pub(super) fn content(&self) -> &Arc<Content> {
        &self.content
    }

    /// Returns whether a missing document has left this file: one that cannot be read may still contain it.
    pub(super) fn is_readable(&self, file: &Path) -> bool {
        self.files.get(file).is_none_or(|(_, problems)| problems.is_empty())
    }

    /// Returns whether every file can be read.
    pub(super) fn are_readable(&self) -> bool {
        self.files.values().all(|(_, problems)| problems.is_empty())
    }
}
