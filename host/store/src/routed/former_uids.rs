//! Kinds whose resources got other uids by a move into a cluster, while their dependents may name the former ones.
//!
//! Nobody sees such a kind before its dependents are changed ([`crate::moves::follow_uids`]): its reads and writes end
//! as `Unavailable`. A controller that compared uids would take its own dependents for those of others, and a
//! collector would take the owners for gone. Until the former store is pruned, a former uid in a write is replaced by
//! the current one.

use serde_json::{Value, json};

use super::RoutedStore;
use crate::copy_mark::CopyMark;
use crate::moved_kinds::References;
use crate::routes::KindPattern;
use crate::{Error, Key, Kind, Result};

impl RoutedStore {
    /// Fails for a kind whose dependents may name former uids.
    pub(super) fn check_open(&self, kind: &Kind) -> Result<()> {
        if self.moved.references(kind) == Some(References::Former) {
            return Err(Error::unavailable(waiting_reason(kind)));
        }
        Ok(())
    }

    /// Returns the reasons, for a person, why kinds of a store wait.
    pub(super) fn waiting_reasons(&self, store: &str) -> Vec<String> {
        let here = self.moved.waiting().into_iter().filter(|kind| *self.part(kind).name == *store);
        here.map(|kind| waiting_reason(&kind)).collect()
    }

    /// Returns the uid that an owner has now; `None` if neither a resource of this uid nor a copy of it is found.
    ///
    /// # Errors
    /// Those of [`Store::get_live`](crate::Store::get_live), but `NotFound`.
    pub(crate) async fn current_uid(
        &self,
        kind: &Kind,
        namespace: &str,
        name: &str,
        uid: &str,
    ) -> Result<Option<String>> {
        let store = &self.part(kind).store;
        let cluster_scoped = (!namespace.is_empty()).then_some("");
        for namespace in std::iter::once(namespace).chain(cluster_scoped) {
            let key = Key::new(kind.clone(), namespace, name);
            // A cache may be behind, so only a live read says that there is none.
            for is_live in [false, true] {
                match if is_live { store.get_live(&key).await } else { store.get(&key).await } {
                    Ok(found) if found.uid() == uid || CopyMark::of(&found).is_some_and(|mark| mark.uid == uid) => {
                        return Ok(Some(found.uid().to_owned()));
                    }
                    Ok(_) | Err(Error::NotFound { .. }) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(None)
    }

    /// Replaces former uids in the owner references of a document that is about to be written.
    ///
    /// # Errors
    /// As [`RoutedStore::current_uid`].
    pub(super) async fn replace_former_uids(&self, document: &mut Value) -> Result<()> {
        let own = document.pointer("/metadata/namespace").and_then(Value::as_str).unwrap_or_default().to_owned();
        let references = document.pointer_mut("/metadata/ownerReferences").and_then(Value::as_array_mut);
        for reference in references.into_iter().flatten() {
            let text = |field: &str| reference.get(field).and_then(Value::as_str).unwrap_or_default();
            let Ok(kind) = Kind::parse(text("apiVersion"), text("kind")) else { continue };
            if self.moved.references(&kind).is_none() {
                continue;
            }
            let namespace = if text("namespace").is_empty() { &own } else { text("namespace") };
            if let Some(current) = self.current_uid(&kind, namespace, text("name"), text("uid")).await? {
                reference["uid"] = json!(current);
            }
        }
        Ok(())
    }
}

fn waiting_reason(kind: &Kind) -> String {
    let name = KindPattern::of(kind);
    format!("{name} waits until its dependents name the uids that it has since it was moved")
}
