//! The steps of moving a kind to or from a cluster.
//!
//! A copy is up to three requests, because the server takes the status and the owners of the fields only afterwards.
//! The last one writes the mark of a finished copy ([`CopyMark`]). So a copy that was interrupted is found and made
//! again.
//!
//! Deliberately absent: which resources are moved ([`homeostat_store::moves`]).

use std::sync::Arc;

use homeostat_store::cached::UpstreamResponse;
use homeostat_store::copy_mark::{COPY_ANNOTATION, CopyMark};
use homeostat_store::{
    Change, Error, FINALIZER_ORPHAN, Precondition, Propagation, Resource, Result, Write, WriteResponse,
};
use serde_json::{Value, json};

use super::wire::metadata;
use super::{MANAGER_BYTES_MAX, WriteAttempt};
use crate::read;

/// The metadata of an original that the server refuses or ignores in a copy.
const OWN_METADATA: [&str; 6] =
    ["uid", "creationTimestamp", "generation", "managedFields", "deletionGracePeriodSeconds", "selfLink"];

impl WriteAttempt<'_> {
    /// Makes a step of a move.
    pub(super) async fn moved(&self, write: &Write) -> Result<UpstreamResponse> {
        match write {
            Write::Create { document } => self.copy(document).await,
            Write::Delete { precondition, .. } => self.remove(precondition).await,
            other => Err(Error::invalid("write", format!("{} is no step of a move", other.verb()))),
        }
    }

    /// Writes a copy, also over an unfinished or an old copy of the same original.
    async fn copy(&self, original: &Value) -> Result<UpstreamResponse> {
        let namespace = self.cluster.namespace_of(self.served);
        if namespace.is_some_and(|namespace| namespace != self.key.namespace()) {
            let reason = format!("{} is outside of the namespace of this store", self.key);
            return Err(Error::invalid("metadata.namespace", reason));
        }
        let mut document = original.clone();
        let managers = managers(original);
        let fields = metadata(&mut document);
        OWN_METADATA.iter().for_each(|field| drop(fields.remove(*field)));
        let uid = original.pointer("/metadata/uid").and_then(Value::as_str).unwrap_or_default();
        CopyMark { uid: uid.to_owned(), revision: None }.write(&mut document);
        let created = self.plain(&Write::Create { document: document.clone() }, None).await;
        let copy = match created {
            Err(Error::AlreadyExists { .. }) => self.replace_copy(uid, &document).await?,
            created => created?.response.resource,
        };
        self.finish(&copy, original, managers).await
    }

    /// Replaces an unfinished or an old copy.
    async fn replace_copy(&self, uid: &str, document: &Value) -> Result<Arc<Resource>> {
        let current = read::get(self.cluster, &self.key).await?;
        let is_copy = current.uid() == uid || CopyMark::of(&current).is_some_and(|mark| mark.uid == uid);
        if !is_copy {
            return Err(Error::AlreadyExists { key: self.key.clone(), current: current.revision() });
        }
        if current.is_deleting() {
            return Err(Error::unavailable(format!("the former {} is still being deleted", self.key)));
        }
        let (uid, revision) = (Some(current.uid().to_owned()), Some(current.revision()));
        let precondition = Precondition { uid, revision };
        Ok(self.update(document, &precondition, Some(current)).await?.response.resource)
    }

    /// Writes the status of a copy, then its owners of fields and the mark of a finished copy.
    async fn finish(&self, copy: &Resource, original: &Value, managers: Value) -> Result<UpstreamResponse> {
        let precondition = Precondition { uid: Some(copy.uid().to_owned()), revision: None };
        let status = original.get("status").cloned().unwrap_or(Value::Null);
        if !status.is_null() || !copy.status().is_null() {
            let (key, precondition) = (self.key.clone(), precondition.clone());
            self.plain(&Write::UpdateStatus { key, status, precondition }, None).await?;
        }
        let mark = original.pointer("/metadata/annotations").and_then(|annotations| annotations.get(COPY_ANNOTATION));
        let mut patch = json!({"metadata": {"annotations": {COPY_ANNOTATION: mark}}});
        if managers.as_array().is_some_and(|managers| !managers.is_empty()) {
            patch["metadata"]["managedFields"] = managers;
        }
        self.plain(&Write::Patch { key: self.key.clone(), change: Change::Merge(patch), precondition }, None).await
    }

    /// Removes a resource in spite of its finalizers. The collector of the cluster takes the reference away from the
    /// dependents, and does not delete them.
    async fn remove(&self, precondition: &Precondition) -> Result<UpstreamResponse> {
        let current = read::get(self.cluster, &self.key).await?;
        if precondition.uid.as_deref().is_some_and(|uid| uid != current.uid()) {
            return Err(Error::Conflict { key: self.key.clone(), current: Some(current.revision()) });
        }
        let precondition = Precondition { uid: Some(current.uid().to_owned()), revision: None };
        let mut last =
            UpstreamResponse { at: Some(current.revision()), response: WriteResponse::unchanged(Arc::clone(&current)) };
        if current.finalizers().any(|name| name != FINALIZER_ORPHAN) {
            // Who deletes a resource that is being deleted already cannot add a finalizer.
            let rest: Vec<&str> = current.finalizers().filter(|name| *name == FINALIZER_ORPHAN).collect();
            let change = Change::Merge(json!({"metadata": {"finalizers": rest}}));
            let patch = Write::Patch { key: self.key.clone(), change, precondition: precondition.clone() };
            last = self.plain(&patch, Some(Arc::clone(&current))).await?;
        }
        if current.is_deleting() {
            return Ok(last);
        }
        let known = Some(Arc::clone(&last.response.resource));
        let key = self.key.clone();
        self.delete(&Write::Delete { key, precondition, propagation: Propagation::Orphan, grace_seconds: None }, known)
            .await
    }
}

/// Returns the owners of the fields of an original, as far as the server takes them.
fn managers(original: &Value) -> Value {
    let entries = original.pointer("/metadata/managedFields").and_then(Value::as_array);
    let fits = |entry: &&Value| {
        entry.get("manager").and_then(Value::as_str).is_some_and(|name| name.len() <= MANAGER_BYTES_MAX)
    };
    entries.into_iter().flatten().filter(fits).cloned().collect()
}
