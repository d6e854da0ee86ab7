//! The document of a copy, as another store gets it.

use serde_json::{Value, json};

use super::{CopyTarget, MoveTask};
use crate::copy_mark::CopyMark;
use crate::far_owner::{self, OwnerStore};
use crate::{Error, Key, Kind, Resource, Result, Store};

impl MoveTask<'_> {
    /// Returns the document of a copy: with plain references to the owners that live in the target. `None` while an
    /// owner of the same kind has no copy there, which the copy has to name by the uid of that copy.
    ///
    /// # Errors
    /// `Invalid` for a resource of which the target can have no copy.
    pub(super) async fn copied_document(
        &self,
        source: &Resource,
        target: &CopyTarget<'_>,
        writes: bool,
    ) -> Result<Option<Value>> {
        let mut document = without_revision(source);
        CopyMark::remove(&mut document);
        far_owner::split(&mut document, &|owner: &Kind| {
            let part = self.stores.part(owner);
            let is_there = owner.same_type(self.kind) || part.name == *target.name;
            (!is_there).then(|| OwnerStore { name: part.name.clone(), content: part.content() })
        })?;
        let from = self.stores.part(self.kind).store.manager_prefix();
        rename_managers(&mut document, &from, &target.store.manager_prefix());
        if !target.gives_uids {
            return Ok(Some(document));
        }
        if source.is_deleting() {
            let reason = format!(
                "{} is being deleted, and store {} takes no such resource: wait until it is gone, or remove its finalizers",
                source.key(),
                target.name
            );
            return Err(Error::invalid("kind", reason));
        }
        if !self.replace_owners(source.key(), &mut document, target).await? && writes {
            return Ok(None);
        }
        CopyMark::finished(source.uid(), source.revision()).write(&mut document);
        Ok(Some(document))
    }

    /// Gives the references to owners in the target the uids that the owners have there: the collector of a cluster
    /// deletes a resource whose owner it does not find. Returns `false` if an owner of the same kind has no copy yet.
    async fn replace_owners(&self, key: &Key, document: &mut Value, target: &CopyTarget<'_>) -> Result<bool> {
        let references = document.pointer_mut("/metadata/ownerReferences").and_then(Value::as_array_mut);
        let mut has_copies = true;
        for reference in references.into_iter().flatten() {
            let text = |field: &str| reference.get(field).and_then(Value::as_str).unwrap_or_default();
            let (name, uid) = (text("name"), text("uid"));
            let Ok(kind) = Kind::parse(text("apiVersion"), text("kind")) else { continue };
            let Some(current) = self.stores.current_uid(&kind, key.namespace(), name, uid).await? else {
                let reason = format!(
                    "{key} has the owner {} {name:?} with the uid {uid}, which does not exist: the collector of store {} would delete the copy",
                    kind.name, target.name
                );
                return Err(Error::invalid("kind", reason));
            };
            let there = if kind.same_type(self.kind) {
                self.copy_of(Key::new(kind, key.namespace(), name), uid, target).await?
            } else {
                Some(current)
            };
            match there {
                Some(uid) => reference["uid"] = json!(uid),
                None => has_copies = false,
            }
        }
        Ok(has_copies)
    }

    /// Returns the uid of the copy of a resource; `None` if there is none yet.
    async fn copy_of(&self, key: Key, uid: &str, target: &CopyTarget<'_>) -> Result<Option<String>> {
        let cluster_scoped = Key::new(key.kind().clone(), "", key.name());
        for key in [key, cluster_scoped] {
            match target.store.get(&key).await {
                Ok(found) if found.uid() == uid || CopyMark::of(&found).is_some_and(|mark| mark.uid == uid) => {
                    return Ok(Some(found.uid().to_owned()));
                }
                Ok(_) | Err(Error::NotFound { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }
}

/// Gives the managers of the fields the names by which the new store knows them.
fn rename_managers(document: &mut Value, from: &str, to: &str) {
    let entries = document.pointer_mut("/metadata/managedFields").and_then(Value::as_array_mut);
    if from == to {
        return;
    }
    for entry in entries.into_iter().flatten() {
        let Some(name) = entry.get("manager").and_then(Value::as_str) else { continue };
        // Other clients of a cluster have names without the prefix of this host, and keep them.
        let renamed = match name.strip_prefix(from) {
            Some(name) => format!("{to}{name}"),
            None => name.to_owned(),
        };
        entry["manager"] = json!(renamed);
    }
}

pub(super) fn without_revision(resource: &Resource) -> Value {
    // Parsed here, so that the page does not keep the documents.
    let mut document = serde_json::from_str(resource.text()).unwrap_or_else(|_| resource.document().clone());
    if let Some(metadata) = document.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("resourceVersion");
    }
    document
}
