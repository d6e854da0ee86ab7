//! Applies the resources of a folder that are no controllers.

use std::sync::Arc;

use homeostat_component::Digest;
use homeostat_runtime::Error;
use homeostat_runtime::reasons::chain;
use homeostat_store::EventType;
use tokio::task::JoinSet;

use super::{Document, Folder, Problem};

/// Who applies: the field manager of everything that comes from a folder.
pub(super) const MANAGER: &str = "homeostat-folder";
/// Resources that are applied at once. The store writes them in one go.
const AT_ONCE: usize = 32;

/// A document to apply, and the digest of its text.
type Work = (Arc<Document>, Digest);

/// What is applied when: some resources must be there before others make sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Definitions of kinds: before the controllers, whose components may name the same kinds.
    Definitions,
    /// All else.
    Resources,
}

impl Phase {
    fn of(document: &Document) -> Self {
        if document.value["kind"] == "CustomResourceDefinition" { Self::Definitions } else { Self::Resources }
    }
}

impl Folder {
    /// Applies what is new or has changed in one phase, namespaces first. Returns what could not be applied.
    pub(super) async fn apply(&mut self, documents: &[Document], phase: Phase) -> Vec<Problem> {
        let mut left: Vec<Work> = Vec::new();
        for document in
            documents.iter().filter(|document| document.controller.is_none() && Phase::of(document) == phase)
        {
            let digest = Digest::of(document.value.to_string().as_bytes());
            match self.applied.get_mut(&document.identity()) {
                Some((file, applied)) if *applied == digest => file.clone_from(&document.file),
                _ => left.push((Arc::new(document.clone()), digest)),
            }
        }
        let (namespaces, others): (Vec<Work>, Vec<Work>) =
            left.into_iter().partition(|(document, _)| document.value["kind"] == "Namespace");
        let mut problems = Vec::new();
        for some in namespaces.chunks(AT_ONCE).chain(others.chunks(AT_ONCE)) {
            problems.extend(self.apply_at_once(some).await);
        }
        problems
    }

    async fn apply_at_once(&mut self, some: &[Work]) -> Vec<Problem> {
        let mut applying = JoinSet::new();
        for (document, digest) in some {
            let (host, document, digest) = (self.host.clone(), document.clone(), digest.clone());
            applying.spawn(async move {
                (host.apply_resource(document.value.clone(), MANAGER, true).await, document, digest)
            });
        }
        let mut problems = Vec::new();
        for (result, document, digest) in applying.join_all().await {
            match result {
                Ok(written) => {
                    let identity = document.identity();
                    match written.change {
                        Some(EventType::Added) => self.screen.say(&format!("{identity} created")),
                        Some(_) => self.screen.say(&format!("{identity} configured")),
                        None => {}
                    }
                    self.applied.insert(identity, (document.file.clone(), digest));
                }
                Err(error) => problems.push(problem(&document, &error)),
            }
        }
        problems
    }
}

fn problem(document: &Document, error: &Error) -> Problem {
    let what = document.identity();
    let text = chain(error);
    match error {
        Error::UnknownKind { .. } => document.problem_at(document.kind_place, format!("{what} is not applied: {text}")),
        _ => document.problem(format!("{what} is not applied: {text}")),
    }
}
