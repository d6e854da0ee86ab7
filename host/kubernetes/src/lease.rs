//! The leases of controllers in a cluster: carries out the requests of the machine of a lease.
//!
//! The record of a lease is a `Lease` of `coordination.k8s.io/v1`, in one namespace for all leases of a store. Its name
//! is `homeostat-CONTROLLER`, or `homeostat-CONTROLLER.SHARD-of-COUNT`: the dot cannot be part of the name of a
//! controller. client-go's leader election works with the same records.
//!
//! A write replaces the whole document, on the condition of its version and of its uid. The requests wait for no
//! others of this host: a renewal that comes late ends a term.
//!
//! Deliberately absent: times and decisions, which are those of `homeostat_fleet::Lease`. A request that fails is
//! not written again here. There is no fence: the server has no condition on a second resource.

mod record;
mod stream;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use homeostat_fleet::{
    AcquireCondition, Answer, DESCRIPTION_BYTES_MAX, Epoch, Identity, LeaseName, Observation, Request, Version,
};
use homeostat_store::{Error, Fence, Kind, LeaseRequests, LeaseStore, LeaseWatch, OtherTerm, Result};
use http::Method;
use jiff::Timestamp;
use serde_json::Value;
use tokio::sync::OnceCell;

use self::record::{LeaseDocument, NewState};
use self::stream::LeaseStream;
use crate::catalog::{ServedKind, Verbs};
use crate::errors::RequestError;
use crate::path::{self, Parameters};
use crate::requests::{Call, Requests, ServerResponse};
use crate::settings::{ClusterSettings, is_label};

/// The version of the kind.
const VERSION: &str = "v1";
/// The beginning of the name of each record.
const PREFIX: &str = "homeostat-";
/// The endings of names of records that are of no shard.
const SUFFIXES: [&str; 4] =
    [LeaseName::HOST_SUFFIX, LeaseName::SHARDS_SUFFIX, LeaseName::ROLLOUT_SUFFIX, LeaseName::OWN_SUFFIX];

/// The leases of a cluster.
pub(crate) struct ClusterLeases(pub(crate) Arc<LeaseNamespace>);

#[async_trait]
impl LeaseStore for ClusterLeases {
    fn lease(&self, name: &LeaseName, identity: &Identity, length: Duration) -> Result<Arc<dyn LeaseRequests>> {
        Ok(Arc::new(ClusterLease {
            leases: Arc::clone(&self.0),
            lease: name.clone(),
            name: record_name(name)?,
            identity: identity.clone(),
            length_s: length.as_secs() + u64::from(length.subsec_nanos() > 0),
            last: Mutex::default(),
            description: Mutex::default(),
        }))
    }

    /// An API server checks no fences.
    async fn raise_fence(&self, _: &OtherTerm) -> Result<Option<Fence>> {
        Ok(None)
    }

    async fn watch_leases(&self) -> Result<Box<dyn LeaseWatch>> {
        Ok(Box::new(LeaseStream::open(&self.0).await?))
    }
}

/// The namespace with the records of all leases, and the way to it.
pub(crate) struct LeaseNamespace {
    requests: Arc<Requests>,
    /// Never changes once it is known: a host that looked into another namespace would find its leases free.
    name: OnceCell<String>,
    manager: String,
}

impl LeaseNamespace {
    pub(crate) fn new(settings: &ClusterSettings, requests: Arc<Requests>) -> Self {
        let name = settings.lease_namespace.clone().or_else(|| settings.namespace.clone());
        Self { requests, name: OnceCell::new_with(name), manager: format!("{}leases", settings.manager_prefix) }
    }

    /// Returns the path of all records.
    async fn collection(&self, what: &str) -> Result<String> {
        let name = self.name.get_or_try_init(|| self.requests.namespace()).await;
        let name = name.map_err(|failure| failure.about(what))?;
        path::collection(&kind(), VERSION, Some(name))
    }

    /// Reads a document from the store of the server; `None` if there is none.
    async fn read(&self, lease: &LeaseName, name: &str) -> Result<Option<LeaseDocument>> {
        let what = format!("read of the lease {lease}");
        let path = format!("{}/{name}", self.collection(&what).await?);
        match self.requests.send(Call::get("lease", path).urgent()).await {
            Ok(answer) => document(lease, &answer).map(Some),
            Err(failure) if is_absent(&failure, name) => Ok(None),
            Err(failure) => Err(error(failure, &what)),
        }
    }

    /// Reads the state of a lease.
    async fn observe(&self, lease: &LeaseName, name: &str) -> Result<(Option<LeaseDocument>, Observation)> {
        match self.read(lease, name).await? {
            Some(document) => {
                let record = document.record().map_err(|reason| unreadable(lease, &reason))?;
                Ok((Some(document), Observation::Present(record)))
            }
            None => Ok((None, Observation::Absent { fence: None })),
        }
    }
}

/// The requests of one lease, for one host.
struct ClusterLease {
    leases: Arc<LeaseNamespace>,
    lease: LeaseName,
    /// The name of its record.
    name: String,
    identity: Identity,
    length_s: u64,
    /// The last document that this host has read or written. A write replaces the document of a version as a whole.
    last: Mutex<Option<LeaseDocument>>,
    description: Mutex<Option<Arc<str>>>,
}

impl ClusterLease {
    /// Creates the record.
    async fn create(&self, state: NewState<'_>) -> Result<Answer> {
        let what = self.write();
        let path = self.parameters().after(&self.leases.collection(&what).await?);
        let document = record::created(&kind().kind, &self.name, self.lease.owner(), state, Timestamp::now());
        self.send(Method::POST, path, &document, None, state.epoch).await
    }

    /// Writes the record of a term over a version of it.
    async fn replace(&self, expected: Version, state: NewState<'_>) -> Result<Answer> {
        let what = self.write();
        let known = self.last().clone().filter(|known| known.version() == expected);
        let current = match known {
            Some(known) => Some(known),
            None => self.leases.read(&self.lease, &self.name).await?.filter(|read| read.version() == expected),
        };
        let Some(current) = current else { return Ok(Answer::Conflict) };
        // A state that this host does not understand is never written over.
        current.record().map_err(|reason| unreadable(&self.lease, &reason))?;
        let path = self.parameters().after(&format!("{}/{}", self.leases.collection(&what).await?, self.name));
        let document = current.replaced(self.lease.owner(), state, Timestamp::now());
        self.send(Method::PUT, path, &document, Some(expected), state.epoch).await
    }

    /// Sends a write, and remembers the document that the server made of it.
    async fn send(
        &self,
        method: Method,
        path: String,
        document: &Value,
        expected: Option<Version>,
        epoch: Option<Epoch>,
    ) -> Result<Answer> {
        let body = Some(("application/json", Bytes::from(document.to_string())));
        let answer = match self.leases.requests.send(Call::with_body("lease", method, path, body).urgent()).await {
            Ok(answer) => answer,
            Err(failure) if is_conflict(&failure) || is_absent(&failure, &self.name) => return Ok(Answer::Conflict),
            Err(failure) => return Err(error(failure, &self.write())),
        };
        let stored = self::document(&self.lease, &answer)?;
        let version = stored.version();
        if expected.is_some_and(|expected| version <= expected) {
            let reason = "the server answered with a version that is not later";
            return Err(Error::unavailable(format!("{}: {reason}", self.write())));
        }
        *self.last() = Some(stored);
        // The write that begins a term gives it its epoch.
        Ok(Answer::Stored { version, epoch: epoch.unwrap_or(Epoch(version.0)) })
    }

    fn parameters(&self) -> Parameters {
        Parameters::default().with("fieldManager", &self.leases.manager)
    }

    fn write(&self) -> String {
        format!("write of the lease {}", self.lease)
    }

    fn last(&self) -> std::sync::MutexGuard<'_, Option<LeaseDocument>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl LeaseRequests for ClusterLease {
    fn fence(&self, _epoch: Epoch) -> Option<Fence> {
        None
    }

    fn describe(&self, description: &str) {
        let description = (description.len() <= DESCRIPTION_BYTES_MAX).then(|| description.into());
        *self.description.lock().unwrap_or_else(PoisonError::into_inner) = description;
    }

    async fn carry_out(&self, request: &Request) -> Result<Answer> {
        let description = self.description.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let state = NewState {
            holder: Some(&self.identity),
            length_s: self.length_s,
            begins_term: None,
            epoch: None,
            preferred_holder: None,
            description: description.as_deref(),
        };
        match request {
            Request::Read => {
                let (document, observation) = self.leases.observe(&self.lease, &self.name).await?;
                *self.last() = document;
                Ok(Answer::Found(observation))
            }
            Request::Acquire { expected, transitions } => {
                let state = NewState { begins_term: Some(*transitions), ..state };
                match expected {
                    AcquireCondition::Version(version) => self.replace(*version, state).await,
                    AcquireCondition::Absent { fence: None } => self.create(state).await,
                    // The server has no fences, so no other one saw this one either.
                    AcquireCondition::Absent { fence: Some(_) } => Ok(Answer::Conflict),
                }
            }
            Request::Renew { expected, epoch } => {
                self.replace(*expected, NewState { epoch: Some(*epoch), ..state }).await
            }
            Request::Release { expected, epoch, preferred_holder } => {
                let preferred_holder = preferred_holder.as_ref();
                let state =
                    NewState { holder: None, epoch: Some(*epoch), preferred_holder, description: None, ..state };
                self.replace(*expected, state).await
            }
        }
    }
}

/// The kind of the records, which every server serves.
fn kind() -> ServedKind {
    ServedKind {
        kind: Kind::new("coordination.k8s.io", VERSION, "Lease"),
        versions: vec![VERSION.to_owned()],
        plural: "leases".to_owned(),
        singular: "lease".to_owned(),
        short_names: Vec::new(),
        categories: Vec::new(),
        namespaced: true,
        verbs: Verbs { get: true, list: true, watch: true, create: true, update: true, ..Verbs::default() },
        status: false,
        scale_versions: Vec::new(),
    }
}

/// Returns the name of the record of a lease.
///
/// # Errors
/// `Invalid` for the name of a controller that is no DNS label, and of a host that is none with dots.
fn record_name(lease: &LeaseName) -> Result<String> {
    let name = lease.owner();
    // Nothing but a host has a dot in its name.
    let is_host = || lease.is_of_host() && name.len() <= 63 && name.split('.').all(is_label);
    if !is_label(name) && !is_host() {
        let reason = format!("must be a DNS label of at most 63 bytes, but is {name:?}");
        return Err(Error::invalid("controller", reason));
    }
    Ok(match lease.count() {
        1 => format!("{PREFIX}{}", lease.controller()),
        count => format!("{PREFIX}{}.{}-of-{count}", lease.controller(), lease.shard()),
    })
}

/// Returns the lease whose record has this name; `None` for another name.
fn lease_of(name: &str) -> Option<LeaseName> {
    let rest = name.strip_prefix(PREFIX)?;
    let (controller, shard, count) = match rest.rsplit_once('.') {
        Some((controller, shard)) if !SUFFIXES.iter().any(|suffix| rest.ends_with(suffix)) => {
            let (shard, count) = shard.split_once("-of-")?;
            (controller, shard.parse().ok()?, count.parse().ok()?)
        }
        _ => (rest, 0, 1),
    };
    let lease = LeaseName::new(controller, shard, count)?;
    // Only one text names a lease: no number begins with a zero.
    (record_name(&lease).ok()? == name).then_some(lease)
}

fn document(lease: &LeaseName, answer: &ServerResponse) -> Result<LeaseDocument> {
    let document = serde_json::from_slice(&answer.body).map_err(|error| error.to_string());
    document.and_then(LeaseDocument::new).map_err(|reason| unreadable(lease, &reason))
}

fn unreadable(lease: &LeaseName, reason: &str) -> Error {
    Error::unavailable(format!("the record of the lease {lease} cannot be read: {reason}"))
}

/// Returns whether the server has no record of this name, rather than no such namespace or kind.
fn is_absent(failure: &RequestError, name: &str) -> bool {
    failure.status().is_some_and(|status| status.code == 404 && !status.is_about_kind() && !status.is_about_other(name))
}

/// Returns whether the server stored nothing because the record has another version, is gone, or exists.
fn is_conflict(failure: &RequestError) -> bool {
    failure.status().is_some_and(|status| status.code == 409)
}

fn error(failure: RequestError, what: &str) -> Error {
    match failure.status() {
        // The namespace, or the kind.
        Some(status) if status.code == 404 => Error::unavailable(format!("{what}: {}", status.text())),
        _ => failure.about(what),
    }
}
