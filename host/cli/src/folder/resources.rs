//! Applies the resources of a folder, except controllers.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;

use homeostat_component::Digest;
use homeostat_runtime::reasons::chain;
use homeostat_runtime::{Error, Host, Kinds};
use homeostat_store::{EventType, Kind};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::manifests::Manifests;
use super::{DELETION_GRACE, DeletionGrace, Document, Problem, ResourceId};
use crate::terminal::Screen;

/// The field manager of everything that comes from a folder.
pub(super) const MANAGER: &str = "homeostat-folder";
/// Resources that are applied concurrently. The store writes them in one batch.
const AT_ONCE: usize = 32;

/// A document to apply, and the digest of its text.
type Work = (Arc<Document>, Digest);

/// The order of documents: some resources need others first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// CustomResourceDefinitions. They precede controllers, whose components may declare the same kinds.
    Definitions,
    /// Namespaces, and resources of kinds that a definition declares: they do not wait until components are
    /// compiled.
    Known,
    /// All except definitions. A component may declare their kind and its schema.
    Resources,
}

impl Phase {
    /// Returns whether a document belongs to this phase, given the kinds that are declared now.
    fn takes(self, document: &Document, kinds: &Kinds) -> bool {
        let is_definition = document.value["kind"] == "CustomResourceDefinition";
        match self {
            Self::Definitions => is_definition,
            Self::Known => !is_definition && is_defined(document, kinds),
            Self::Resources => !is_definition,
        }
    }
}

/// Returns whether the schema of a document's kind does not depend on a component.
fn is_defined(document: &Document, kinds: &Kinds) -> bool {
    let text = |field: &str| document.value[field].as_str().unwrap_or_default();
    let kind = Kind::parse(text("apiVersion"), text("kind")).ok();
    text("kind") == "Namespace" || kind.and_then(|kind| kinds.served(&kind)).is_some_and(|info| info.is_of_definition())
}

/// Applies the resources of a folder.
pub(super) struct ResourceApplier {
    host: Host,
    screen: Screen,
    /// The applied documents, by resource: the file, and the digest of the text.
    applied: HashMap<ResourceId, (PathBuf, Digest)>,
    absent: DeletionGrace<ResourceId>,
}

impl ResourceApplier {
    pub(super) fn new(host: Host, screen: Screen) -> Self {
        Self { host, screen, applied: HashMap::new(), absent: DeletionGrace::new(DELETION_GRACE) }
    }

    /// Returns whether no resource is missing.
    pub(super) fn is_quiet(&self) -> bool {
        self.absent.is_empty()
    }

    /// Reports the resources that have left the folder for long enough.
    pub(super) fn report_absent(&mut self, now: Instant, manifests: &Manifests) {
        let known = &manifests.content().resources;
        let missing = self
            .applied
            .iter()
            .filter(|(identity, (file, _))| !known.contains(identity) && manifests.is_readable(file));
        let gone = missing.map(|(identity, _)| identity.clone()).collect();
        for identity in self.absent.due(now, gone) {
            self.applied.remove(&identity);
            let namespace = &identity.namespace;
            self.screen.info(&format!("{identity} is no longer in the folder and stays in the store; `homeostat delete {identity} -n {namespace}` deletes it"));
        }
    }

    /// Applies the new and changed documents of one phase, namespaces first. Returns a problem for each
    /// failure.
    pub(super) async fn apply(&mut self, documents: &[Document], phase: Phase) -> Vec<Problem> {
        let mut left: Vec<Work> = Vec::new();
        let kinds = self.host.kinds();
        let of_phase = |document: &&Document| document.controller.is_none() && phase.takes(document, &kinds);
        for document in documents.iter().filter(of_phase) {
            let digest = Digest::of(document.value.to_string().as_bytes());
            match self.applied.get_mut(&document.identity()) {
                Some((file, applied)) if *applied == digest => file.clone_from(&document.file),
                _ => left.push((Arc::new(document.clone()), digest)),
            }
        }
        let (namespaces, others): (Vec<Work>, Vec<Work>) =
            left.into_iter().partition(|(document, _)| document.value["kind"] == "Namespace");
        let mut failed = Vec::new();
        for some in namespaces.chunks(AT_ONCE).chain(others.chunks(AT_ONCE)) {
            failed.extend(self.apply_at_once(some).await);
        }
        problems(&failed)
    }

    async fn apply_at_once(&mut self, some: &[Work]) -> Vec<(Arc<Document>, Error)> {
        let mut applying = JoinSet::new();
        for (document, digest) in some {
            let (host, document, digest) = (self.host.clone(), document.clone(), digest.clone());
            applying.spawn(async move {
                (host.apply_resource(document.value.clone(), MANAGER, true).await, document, digest)
            });
        }
        let mut failed = Vec::new();
        for (result, document, digest) in applying.join_all().await {
            match result {
                Ok(written) => {
                    let identity = document.identity();
                    match written.change {
                        Some(EventType::Added) => self.screen.info(&format!("{identity} created")),
                        Some(_) => self.screen.info(&format!("{identity} configured")),
                        None => {}
                    }
                    self.applied.insert(identity, (document.file.clone(), digest));
                }
                Err(error) => failed.push((document, error)),
            }
        }
        failed
    }
}

/// Returns the problems of failed documents. Documents of an unknown kind are one problem for each kind, at
/// the position of the first one.
fn problems(failed: &[(Arc<Document>, Error)]) -> Vec<Problem> {
    let (mut problems, mut unknown) = (Vec::new(), BTreeMap::<String, Vec<&Document>>::new());
    for (document, error) in failed {
        match error {
            Error::UnknownKind { .. } => unknown.entry(chain(error)).or_default().push(document),
            _ => problems.push(document.problem(format!("{} is not applied: {}", document.identity(), chain(error)))),
        }
    }
    for (why, documents) in unknown {
        let Some(first) = documents.iter().min_by_key(|document| (&document.file, document.kind_place)) else {
            continue;
        };
        let what = match documents.len() {
            1 => format!("{} is", first.identity()),
            all => format!("{} and {} more are", first.identity(), all - 1),
        };
        problems.push(first.problem_at(first.kind_place, format!("{what} not applied: {why}")));
    }
    problems
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::manifest;

    #[test]
    fn documents_of_one_unknown_kind_are_one_problem_at_the_first_document() {
        let text = "apiVersion: v1\nkind: Pdo\nmetadata: {name: NAME}\n---\n";
        let text: String = ["one", "two", "three"].map(|name| text.replace("NAME", name)).concat();
        let (documents, _) = manifest::read_bytes(Path::new("a.yaml"), text.as_bytes());
        let unknown = || Error::UnknownKind { kind: "v1/Pdo".to_owned(), similar: Vec::new() };
        let mut failed: Vec<_> = documents.into_iter().map(|document| (Arc::new(document), unknown())).collect();
        failed.reverse();
        let texts: Vec<String> = problems(&failed).iter().map(ToString::to_string).collect();
        assert_eq!(texts.len(), 1, "{texts:?}");
        assert!(texts[0].starts_with("a.yaml:2:7: pdo/one and 2 more are not applied: "), "{texts:?}");
        failed.truncate(1);
        assert!(problems(&failed)[0].to_string().starts_with("a.yaml:10:7: pdo/three is not applied: "));
    }
}
