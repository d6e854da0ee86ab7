//! Sends writes, and reads what the server made of them.

mod moved;
pub(crate) mod scale;
pub(crate) mod wire;

use std::sync::Arc;
use std::time::Instant;

use homeostat_store::cached::{CachedState, UpstreamResponse};
use homeostat_store::{
    Change, Error, EventType, FieldValidation, Key, Precondition, Request, Resource, Result, Revision, Write,
    WriteResponse,
};
use http::StatusCode;
use http::header::WARNING;
use serde_json::{Value, json};

use self::wire::{Form, Subject, Wire, metadata, without};
use crate::catalog::ServedKind;
use crate::cluster::Cluster;
use crate::document;
use crate::errors::{self, RequestError};
use crate::read;
use crate::requests::{Call, ServerResponse};

/// Tries of a write that this host computes, when others change the resource at the same time.
const TRIES_MAX: u32 = 4;
/// Longest name of a manager. Source: Kubernetes.
const MANAGER_BYTES_MAX: usize = 128;

/// A write on its way.
struct WriteAttempt<'a> {
    cluster: &'a Cluster,
    served: &'a ServedKind,
    subject: &'a Subject,
    key: Key,
    form: Form<'a>,
    until: Option<Instant>,
}

/// Makes one change. No request of it goes on after `until`.
pub(crate) async fn submit(
    cluster: &Cluster,
    request: Request,
    cached: CachedState,
    until: Option<Instant>,
) -> Result<UpstreamResponse> {
    // The server has no fence: the host holds a write back once its lease has passed the deadline, and a write
    // ends within `ClusterSettings::write_deadline`.
    // The server converts the documents of its kinds itself, so no write here was converted.
    // A subresource belongs to a kind whose rules are in this host.
    let Request { write, subresource: _, manager, dry_run, field_validation, is_move, is_planned: _, fence: _ } =
        request;
    let subject = Subject::of(&write)?;
    let prefix = cluster.manager_prefix();
    check_manager(prefix, write_manager(&write).unwrap_or(&manager))?;
    let served = cluster.served(&subject.kind).await?;
    let form = Form { served: &served, prefix, manager: &manager, dry_run, field_validation };
    let attempt = WriteAttempt { cluster, served: &served, subject: &subject, key: subject.key(), form, until };
    let known = match cached {
        CachedState::Known { resource, .. } => resource,
        CachedState::Unknown => None,
    };
    let _lock = match attempt.key.name() {
        // The server makes the name.
        "" => None,
        _ => Some(cluster.write_lock(&attempt.key).await?),
    };
    if is_move {
        return attempt.moved(&write).await;
    }
    if has_strange_revision(&write) {
        return Err(Error::Conflict { key: subject.key(), current: attempt.current().await });
    }
    match &write {
        Write::Update { document, precondition } => attempt.update(document, precondition, known).await,
        Write::Delete { .. } => attempt.delete(&write, known).await,
        Write::Patch { change, precondition, .. } if cluster.is_computed(change, &subject.kind) => {
            attempt.compute(change, precondition, known, false).await
        }
        Write::PatchStatus { change, .. } if cluster.is_computed(change, &subject.kind) => {
            attempt.compute(change, &Precondition::default(), known, true).await
        }
        write => match guard(write).filter(|guard| guard.on_every_kind || served.status) {
            // An apply would create what is gone: only the server knows.
            Some(guard) => attempt.guarded(write, guard, known.filter(|_| !guard.on_every_kind)).await,
            None => attempt.plain(write, known).await,
        },
    }
}

/// Returns the manager that an apply names itself.
fn write_manager(write: &Write) -> Option<&String> {
    match write {
        Write::Apply { manager, .. } | Write::ApplyStatus { manager, .. } => Some(manager),
        _ => None,
    }
}

/// Checks the name of a manager, which the server sees behind a prefix.
fn check_manager(prefix: &str, manager: &str) -> Result<()> {
    let is_printable = !manager.is_empty() && manager.chars().all(|sign| !sign.is_control());
    if !is_printable || prefix.len() + manager.len() > MANAGER_BYTES_MAX {
        let bytes_max = MANAGER_BYTES_MAX.saturating_sub(prefix.len());
        return Err(Error::invalid("fieldManager", format!("must have 1 to {bytes_max} bytes of printable text")));
    }
    Ok(())
}

/// Returns whether a document has a revision that is none: then it is not the current one.
fn has_strange_revision(write: &Write) -> bool {
    match write {
        Write::Update { document, .. } | Write::Apply { document, .. } | Write::ApplyStatus { document, .. } => {
            let revision = document.pointer("/metadata/resourceVersion").and_then(Value::as_str).unwrap_or_default();
            !revision.is_empty() && revision.parse::<Revision>().is_err()
        }
        _ => false,
    }
}

/// A precondition that the server does not look at.
#[derive(Clone, Copy)]
struct Guard {
    /// Whether this is so for every kind; otherwise for the status of custom kinds.
    on_every_kind: bool,
}

/// Returns the precondition of a write that the server does not look at. It compares the uid of custom resources
/// with that of a status only in the tests of a JSON patch. An apply creates a resource that does not exist,
/// also if the write demands a uid or a revision.
fn guard(write: &Write) -> Option<Guard> {
    let has = |document: &Value, field: &str| {
        document
            .get("metadata")
            .and_then(Value::as_object)
            .is_some_and(|metadata| wire::text_of(metadata, field).is_some())
    };
    let (needs_guard, on_every_kind) = match write {
        Write::PatchStatus { change: change @ (Change::Merge(_) | Change::Strategic(_)), .. } => {
            (wire::uid_in(change).is_some(), false)
        }
        Write::ApplyStatus { document, .. } => (has(document, "uid"), false),
        Write::Apply { document, .. } => (has(document, "uid") || has(document, "resourceVersion"), true),
        _ => (false, false),
    };
    needs_guard.then_some(Guard { on_every_kind })
}

/// Returns the metadata of a write that has a [`Guard`].
fn metadata_of(write: &mut Write) -> Option<&mut serde_json::Map<String, Value>> {
    match write {
        Write::PatchStatus { change: Change::Merge(patch) | Change::Strategic(patch), .. }
        | Write::ApplyStatus { document: patch, .. }
        | Write::Apply { document: patch, .. } => Some(metadata(patch)),
        _ => None,
    }
}

impl WriteAttempt<'_> {
    async fn send(&self, call: &Call) -> std::result::Result<ServerResponse, RequestError> {
        self.cluster.requests.send(call.clone().until(self.until)).await
    }

    /// Sends a write that is one request.
    async fn plain(&self, write: &Write, known: Option<Arc<Resource>>) -> Result<UpstreamResponse> {
        let wire = self.form.wire(write, self.subject)?;
        let mut sent = self.send(&wire.call).await;
        for _ in 1..TRIES_MAX {
            // The server gives up after some races with other writes, also where nothing has to hold.
            let is_race = |failure: &RequestError| failure.status().is_some_and(|status| status.is_conflict(false));
            if wire.is_conditional || !sent.as_ref().is_err_and(is_race) {
                break;
            }
            sent = self.send(&wire.call).await;
        }
        let unsupported = sent.as_ref().is_err_and(|failure| failure.status().is_some_and(|status| status.code == 415));
        match (sent, write) {
            (Ok(answer), _) => self.written(answer, known.as_deref(), matches!(write, Write::Create { .. })),
            // Only kinds that are built into the server have strategic merge patches.
            (Err(_), Write::Patch { change: change @ Change::Strategic(_), precondition, .. }) if unsupported => {
                self.cluster.compute_from_now_on(&self.subject.kind);
                self.compute(change, precondition, known, false).await
            }
            (Err(_), Write::PatchStatus { change: change @ Change::Strategic(_), .. }) if unsupported => {
                self.cluster.compute_from_now_on(&self.subject.kind);
                self.compute(change, &Precondition::default(), known, true).await
            }
            (Err(failure), write) => Err(self.refused(write.verb(), &wire, failure).await),
        }
    }

    /// Sends a write with the revision of a state for which its preconditions hold.
    async fn guarded(&self, write: &Write, guard: Guard, mut known: Option<Arc<Resource>>) -> Result<UpstreamResponse> {
        for attempt in 1.. {
            let mut conditional = write.clone();
            let metadata = metadata_of(&mut conditional).expect("the write has a precondition in its metadata");
            let uid = wire::text_of(metadata, "uid");
            let is_same = |current: &Resource| uid.as_deref().is_none_or(|uid| uid == current.uid());
            let current = match known.take().filter(|known| is_same(known)) {
                Some(known) => known,
                None => match read::get(self.cluster, &self.key).await {
                    Err(Error::NotFound { .. }) if guard.on_every_kind => {
                        return Err(Error::Conflict { key: self.key.clone(), current: None });
                    }
                    current => current?,
                },
            };
            if !is_same(&current) {
                return Err(Error::Conflict { key: self.key.clone(), current: Some(current.revision()) });
            }
            let is_conditional = wire::text_of(metadata, "resourceVersion").is_some();
            if !is_conditional {
                metadata.insert("resourceVersion".to_owned(), json!(current.revision().to_string()));
            }
            let wire = self.form.wire(&conditional, self.subject)?;
            let failure = match self.send(&wire.call).await {
                Ok(answer) => return self.written(answer, Some(&current), false),
                Err(failure) => failure,
            };
            let is_race = failure.status().is_some_and(|status| status.code == 409 && status.is_conflict(false));
            if !is_race || is_conditional || attempt == TRIES_MAX {
                return Err(self.refused(write.verb(), &wire, failure).await);
            }
        }
        unreachable!("the last attempt returns")
    }

    /// Replaces a resource. The server needs the revision that is replaced: without one in the request it is the
    /// known one, and the newest if that is not the newest any more.
    async fn update(
        &self,
        document: &Value,
        precondition: &Precondition,
        mut known: Option<Arc<Resource>>,
    ) -> Result<UpstreamResponse> {
        let asked = document.pointer("/metadata/resourceVersion").and_then(Value::as_str);
        let is_conditional = precondition.revision.is_some() || asked.is_some_and(|asked| !asked.is_empty());
        let needs_known = !(is_conditional && self.served.status);
        // The status that the resource keeps has to be that of the revision which is replaced.
        let replaced = precondition.revision.or_else(|| asked?.parse().ok());
        known =
            known.filter(|known| self.served.status || replaced.is_none_or(|replaced| replaced == known.revision()));
        for attempt in 1.. {
            if needs_known && known.is_none() {
                known = Some(read::get(self.cluster, &self.key).await?);
            }
            let uid = precondition.uid.as_deref().or_else(|| document.pointer("/metadata/uid").and_then(Value::as_str));
            if let (Some(uid), Some(newest)) = (uid, known.as_ref().filter(|_| attempt > 1))
                && uid != newest.uid()
            {
                return Err(Error::Conflict { key: self.key.clone(), current: Some(newest.revision()) });
            }
            let revision = known.as_ref().filter(|_| !is_conditional).map(|known| known.revision());
            let status = known.as_ref().filter(|_| !self.served.status).map(|known| known.status());
            let wire = self.form.update(document, precondition, self.subject, revision, status)?;
            let failure = match self.send(&wire.call).await {
                Ok(answer) => return self.written(answer, known.as_deref(), false),
                Err(failure) => failure,
            };
            let is_race =
                !is_conditional && failure.status().is_some_and(|status| status.is_conflict(wire.uid.is_some()));
            if !is_race || attempt == TRIES_MAX {
                return Err(self.refused("update", &wire, failure).await);
            }
            known = None;
        }
        unreachable!("the last attempt returns")
    }

    /// Applies a patch here, and replaces the resource by the result.
    async fn compute(
        &self,
        change: &Change,
        precondition: &Precondition,
        mut known: Option<Arc<Resource>>,
        of_status: bool,
    ) -> Result<UpstreamResponse> {
        for attempt in 1.. {
            let cached = known.take();
            let is_cached = cached.is_some();
            let current = match cached {
                Some(known) => known,
                None => read::get(self.cluster, &self.key).await?,
            };
            let wire = match self.computed(change, precondition, &current, of_status) {
                // The cached state may be old.
                Err(_) if is_cached => continue,
                wire => wire?,
            };
            let failure = match self.send(&wire.call).await {
                Ok(answer) => return self.written(answer, Some(&current), false),
                Err(failure) => failure,
            };
            let is_race = failure.status().is_some_and(|status| status.is_conflict(false));
            if !is_race || attempt == TRIES_MAX {
                return Err(self.refused("patch", &wire, failure).await);
            }
        }
        unreachable!("the last attempt returns")
    }

    fn computed(
        &self,
        change: &Change,
        Precondition { uid, revision }: &Precondition,
        current: &Resource,
        of_status: bool,
    ) -> Result<Wire> {
        let mut changed = change.apply(current.document())?;
        let text = |field: &str| {
            changed.pointer(&format!("/metadata/{field}")).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        // The uid and the revision that the change itself sets are preconditions, too.
        let is_same = uid.as_deref().unwrap_or(current.uid()) == current.uid()
            && revision.unwrap_or(current.revision()) == current.revision()
            && text("uid") == current.uid()
            && text("resourceVersion") == current.revision().to_string();
        if !is_same {
            return Err(Error::Conflict { key: self.key.clone(), current: Some(current.revision()) });
        }
        if of_status {
            let status = changed.get("status").cloned().unwrap_or(Value::Null);
            let mut replaced = without(current.document(), "status");
            if !status.is_null() {
                replaced["status"] = status;
            }
            return self.form.replace_status(&replaced, self.subject);
        }
        metadata(&mut changed).insert("resourceVersion".to_owned(), json!(current.revision().to_string()));
        self.form.update(&changed, &Precondition::default(), self.subject, None, Some(current.status()))
    }

    /// Deletes a resource. The answer often lacks the last state, so that it has to be known before.
    async fn delete(&self, write: &Write, known: Option<Arc<Resource>>) -> Result<UpstreamResponse> {
        let known = match known {
            Some(known) => known,
            None => read::get(self.cluster, &self.key).await?,
        };
        let wire = self.form.wire(write, self.subject)?;
        let answer = match self.send(&wire.call).await {
            Ok(answer) => answer,
            Err(failure) => return Err(self.refused("delete", &wire, failure).await),
        };
        if let Some(uid) = deleted_uid(&answer) {
            let last = if uid.is_empty() || uid == known.uid() { known } else { self.bare(&uid)? };
            return Ok(gone(last));
        }
        let text = read::text(&answer.body, &self.subject.kind)?;
        let version = self.served.version(&self.subject.kind.version);
        let resource = document::resource(text, &self.served.kind, version)?;
        if !resource.is_deleting() || is_gone(&resource) {
            return Ok(gone(resource));
        }
        Ok(self.changed(resource, Some(&known), Vec::new()))
    }

    /// Returns a resource of which nothing but its name and uid is known.
    fn bare(&self, uid: &str) -> Result<Arc<Resource>> {
        let Subject { kind, namespace, name } = self.subject;
        let mut document =
            json!({"apiVersion": kind.api_version(), "kind": kind.name, "metadata": {"name": name, "uid": uid}});
        if !namespace.is_empty() {
            document["metadata"]["namespace"] = json!(namespace);
        }
        Ok(Arc::new(Resource::from_document(document)?))
    }

    fn written(&self, response: ServerResponse, known: Option<&Resource>, is_create: bool) -> Result<UpstreamResponse> {
        let unknown_fields = match self.form.field_validation {
            FieldValidation::Warn => unknown_fields(&response),
            FieldValidation::Ignore | FieldValidation::Strict => Vec::new(),
        };
        let text = read::text(&response.body, &self.subject.kind)?;
        let version = self.served.version(&self.subject.kind.version);
        let resource = document::resource(text, &self.served.kind, version)?;
        if is_create || response.code == StatusCode::CREATED {
            let at = Some(resource.revision());
            let change = Some(EventType::Added);
            let response = WriteResponse { resource, change, previous: None, unknown_fields };
            return Ok(UpstreamResponse { response, at });
        }
        // The write that removes the last finalizer deletes the resource.
        if is_gone(&resource) {
            let UpstreamResponse { response, at } = gone(resource);
            return Ok(UpstreamResponse { response: WriteResponse { unknown_fields, ..response }, at });
        }
        Ok(self.changed(resource, known, unknown_fields))
    }

    fn changed(
        &self,
        resource: Arc<Resource>,
        known: Option<&Resource>,
        unknown_fields: Vec<String>,
    ) -> UpstreamResponse {
        let is_unchanged = known.is_some_and(|known| {
            known.uid() == resource.uid()
                && if self.form.dry_run {
                    known.text() == resource.text()
                } else {
                    known.revision() == resource.revision()
                }
        });
        let change = (!is_unchanged).then_some(EventType::Modified);
        let at = Some(resource.revision());
        UpstreamResponse { response: WriteResponse { resource, change, previous: None, unknown_fields }, at }
    }

    /// Returns the revision that the resource has now, if it can be read.
    async fn current(&self) -> Option<Revision> {
        read::get(self.cluster, &self.key).await.ok().map(|current| current.revision())
    }

    /// Returns the error of a write. A conflict gets the revision that the resource has now, by one more read.
    async fn refused(&self, verb: &str, wire: &Wire, failure: RequestError) -> Error {
        let is_conflict = failure.status().is_some_and(|status| status.is_conflict(wire.uid.is_some()));
        let code = failure.status().map_or(0, |status| status.code);
        let error = self.cluster.failed(verb, &self.key, failure);
        let exists = matches!(error, Error::AlreadyExists { .. });
        if !is_conflict && !exists || self.key.name().is_empty() {
            return error;
        }
        let current = read::get(self.cluster, &self.key).await.ok();
        let revision = current.as_ref().map(|current| current.revision());
        // The server says of a patch that does not fit, and of its test of the uid, the same.
        let has_uid = || current.as_ref().is_some_and(|current| Some(current.uid()) == wire.uid.as_deref());
        match error {
            Error::AlreadyExists { key, .. } => {
                Error::AlreadyExists { key, current: revision.unwrap_or(Revision::ZERO) }
            }
            other if code == 422 && has_uid() => other,
            _ => Error::Conflict { key: self.key.clone(), current: revision },
        }
    }
}

/// Returns the uid in the answer to a deletion that has no resource; it may be empty.
fn deleted_uid(response: &ServerResponse) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct Body {
        kind: String,
        #[serde(default, rename = "apiVersion")]
        api_version: String,
        #[serde(default)]
        details: Option<errors::Details>,
    }
    let body: Body = serde_json::from_slice(&response.body).ok()?;
    let is_status = body.kind == "Status" && body.api_version == "v1";
    is_status.then(|| body.details.unwrap_or_default().uid)
}

/// Returns whether the server has deleted a resource that it answered with: nothing keeps it any more. A namespace has
/// finalizers in its spec, too.
fn is_gone(resource: &Resource) -> bool {
    let kind = resource.key().kind();
    let is_held = || {
        let finalizers = resource.document().pointer("/spec/finalizers").and_then(Value::as_array);
        kind.group.is_empty() && kind.name == "Namespace" && finalizers.is_some_and(|finalizers| !finalizers.is_empty())
    };
    let grace = || resource.document().pointer("/metadata/deletionGracePeriodSeconds").and_then(Value::as_u64);
    resource.is_deleting() && resource.finalizers().next().is_none() && grace().unwrap_or(0) == 0 && !is_held()
}

fn gone(resource: Arc<Resource>) -> UpstreamResponse {
    let change = Some(EventType::Deleted);
    let response = WriteResponse { resource, change, previous: None, unknown_fields: Vec::new() };
    UpstreamResponse { response, at: None }
}

/// Returns the fields that the server dropped, from its warnings, as `299 - "unknown field \"spec.color\""`.
fn unknown_fields(response: &ServerResponse) -> Vec<String> {
    let warnings = response.headers.get_all(WARNING).iter().filter_map(|value| value.to_str().ok());
    let texts = warnings.filter_map(|text| serde_json::from_str::<String>(text.split_once(" - ")?.1).ok());
    texts.flat_map(|text| errors::unknown_fields(&text)).take(homeostat_store::schema::VIOLATIONS_MAX).collect()
}

#[cfg(test)]
mod tests;
