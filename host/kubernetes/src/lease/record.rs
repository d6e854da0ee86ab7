//! The record of a lease as a `Lease` of `coordination.k8s.io/v1`. Pure.
//!
//! The fields are those that client-go reads and writes. A record of Homeostat has these annotations besides:
//!
//! | annotation | meaning |
//! |---|---|
//! | `homeostat.dev/renew-time` | the `renewTime` of the write that set the annotations |
//! | `homeostat.dev/format` | the format of the annotations, `1` |
//! | `homeostat.dev/epoch` | the epoch of the term; absent in the write that began it |
//! | `homeostat.dev/preferred-holder` | the host that a releasing holder wants to be next |
//! | `homeostat.dev/holder-description` | what the holder tells about itself |
//!
//! The epoch of a term is the version of the write that began it, which nobody knows before. So a record without
//! the epoch has its own version as the epoch, and each later write of the term has the epoch in the annotation.
//!
//! Another program keeps annotations that it does not know when it takes the lease over, and writes another
//! `renewTime`. So the annotations count only where both times are the same.
//!
//! The field `preferredHolder` is not written: the server refuses or drops it unless a `strategy` is set, which
//! leaves the choice of the holder to the server.

use std::sync::Arc;
use std::time::Duration;

use homeostat_fleet::{DESCRIPTION_BYTES_MAX, Epoch, Identity, Record, Version};
use homeostat_store::Kind;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// The label of the records of Homeostat. Its value is the name of the controller or host.
pub(super) const LABEL: &str = "homeostat.dev/controller";
const RENEW_TIME: &str = "homeostat.dev/renew-time";
const FORMAT: &str = "homeostat.dev/format";
const EPOCH: &str = "homeostat.dev/epoch";
const PREFERRED_HOLDER: &str = "homeostat.dev/preferred-holder";
const DESCRIPTION: &str = "homeostat.dev/holder-description";
/// The format of the annotations that this host knows.
const FORMAT_KNOWN: &str = "1";
/// The longest identity of a holder, in bytes.
const IDENTITY_BYTES_MAX: usize = 512;

/// A `Lease` as the server has it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct LeaseDocument {
    version: Version,
    /// Without the managed fields, which the server keeps when a write has none.
    document: Value,
}

/// A state to write.
#[derive(Debug, Clone, Copy)]
pub(super) struct NewState<'a> {
    /// The holder; `None` for a release.
    pub(super) holder: Option<&'a Identity>,
    /// The length of the lease in seconds.
    pub(super) length_s: u64,
    /// Whether the write begins a term, and the changes of the holder then. Another write keeps both.
    pub(super) begins_term: Option<u32>,
    /// The epoch of the term; `None` in the write that begins it.
    pub(super) epoch: Option<Epoch>,
    /// The host that shall be next.
    pub(super) preferred_holder: Option<&'a Identity>,
    /// What the holder tells about itself.
    pub(super) description: Option<&'a str>,
}

/// The part of the spec that decides something.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct LeaseSpec {
    holder_identity: Option<String>,
    lease_duration_seconds: Option<u64>,
    renew_time: Option<String>,
    lease_transitions: Option<u32>,
    preferred_holder: Option<String>,
    strategy: Option<String>,
}

impl LeaseDocument {
    /// Takes a document of the server.
    ///
    /// # Errors
    /// The reason, for a person: the document cannot be replaced by its version.
    pub(super) fn new(mut document: Value) -> Result<Self, String> {
        let text = |field: &str| document.pointer(&format!("/metadata/{field}")).and_then(Value::as_str);
        let version = text("resourceVersion").unwrap_or_default();
        let version = version.parse().map_err(|_| format!("its resourceVersion is no number, but {version:?}"))?;
        // Without a uid, the server takes a replacement of a deleted Lease for the creation of one.
        if text("uid").unwrap_or_default().is_empty() {
            return Err("it has no uid".to_owned());
        }
        if let Some(metadata) = document.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("managedFields");
        }
        Ok(Self { version: Version(version), document })
    }

    /// Returns the version of the document.
    pub(super) fn version(&self) -> Version {
        self.version
    }

    /// Returns the record.
    ///
    /// # Errors
    /// The reason, for a person: this host does not know who holds the lease, or for how long.
    pub(super) fn record(&self) -> Result<Record, String> {
        let spec = self.document.get("spec").filter(|spec| !spec.is_null());
        let spec: LeaseSpec =
            spec.map(LeaseSpec::deserialize).transpose().map_err(|error| error.to_string())?.unwrap_or_default();
        if spec.strategy.is_some_and(|strategy| !strategy.is_empty()) {
            return Err("it has a `strategy`: the server chooses its holder".to_owned());
        }
        let holder = identity(spec.holder_identity)?;
        let length = match (&holder, spec.lease_duration_seconds) {
            (Some(_), None) => return Err("it has a holder, and no leaseDurationSeconds".to_owned()),
            (_, length) => Duration::from_secs(length.unwrap_or_default()),
        };
        let is_of_homeostat =
            time(spec.renew_time.as_deref()).is_some_and(|at| time(self.annotation(RENEW_TIME)) == Some(at));
        let own = |name: &str| self.annotation(name).filter(|_| is_of_homeostat);
        if let Some(format) = own(FORMAT).filter(|format| *format != FORMAT_KNOWN) {
            return Err(format!("it has the format {format:?} of another version of Homeostat"));
        }
        let epoch = match own(EPOCH) {
            Some(epoch) => epoch.parse().map_err(|_| format!("its epoch is no number, but {epoch:?}"))?,
            None => self.version.0,
        };
        Ok(Record {
            version: self.version,
            holder,
            epoch: Epoch(epoch),
            length,
            preferred_holder: identity(own(PREFERRED_HOLDER).map(str::to_owned).or(spec.preferred_holder))?,
            transitions: spec.lease_transitions.unwrap_or_default(),
            description: own(DESCRIPTION).filter(|text| text.len() <= DESCRIPTION_BYTES_MAX).map(Arc::from),
        })
    }

    /// Returns the document with a new state. The rest stays, as labels of others.
    pub(super) fn replaced(&self, controller: &str, state: NewState<'_>, now: Timestamp) -> Value {
        let mut document = self.document.clone();
        write(&mut document, controller, state, now);
        document
    }

    fn annotation(&self, name: &str) -> Option<&str> {
        self.document.get("metadata")?.get("annotations")?.get(name)?.as_str()
    }
}

/// Returns the document of a record that does not exist yet.
pub(super) fn created(kind: &Kind, name: &str, controller: &str, state: NewState<'_>, now: Timestamp) -> Value {
    let mut document = json!({"apiVersion": kind.api_version(), "kind": kind.name, "metadata": {"name": name}});
    write(&mut document, controller, state, now);
    document
}

fn write(document: &mut Value, controller: &str, state: NewState<'_>, now: Timestamp) {
    let NewState { holder, length_s, begins_term, epoch, preferred_holder, description } = state;
    let spec = object(document, "spec");
    let renew_time = format!("{:.6}", later(time(spec.get("renewTime").and_then(Value::as_str)), now));
    // client-go writes an empty text at a release, too.
    spec.insert("holderIdentity".to_owned(), json!(holder.map(Identity::as_str).unwrap_or_default()));
    spec.insert("leaseDurationSeconds".to_owned(), json!(length_s));
    spec.insert("renewTime".to_owned(), json!(renew_time));
    if let Some(transitions) = begins_term {
        spec.insert("acquireTime".to_owned(), json!(renew_time));
        spec.insert("leaseTransitions".to_owned(), json!(transitions));
    }
    let metadata = object(document, "metadata");
    let labels = member(metadata, "labels");
    labels.insert(LABEL.to_owned(), json!(controller));
    let annotations = member(metadata, "annotations");
    annotations.insert(RENEW_TIME.to_owned(), json!(renew_time));
    annotations.insert(FORMAT.to_owned(), json!(FORMAT_KNOWN));
    for (name, value) in [
        (EPOCH, epoch.map(|epoch| epoch.to_string())),
        (PREFERRED_HOLDER, preferred_holder.map(Identity::to_string)),
        (DESCRIPTION, description.map(str::to_owned)),
    ] {
        match value {
            Some(value) => annotations.insert(name.to_owned(), json!(value)),
            None => annotations.remove(name),
        };
    }
}

/// Returns the time of a write after another one: the present, in a later second than before.
///
/// The server stores nothing for a document that it has already, and client-go compares times by whole seconds.
/// So a renewal with the time of the one before would be none to other hosts.
fn later(before: Option<Timestamp>, now: Timestamp) -> Timestamp {
    let next = before.and_then(|before| Timestamp::from_second(before.as_second() + 1).ok());
    next.map_or(now, |next| next.max(now))
}

fn time(text: Option<&str>) -> Option<Timestamp> {
    text?.parse().ok()
}

fn identity(text: Option<String>) -> Result<Option<Identity>, String> {
    match text {
        Some(text) if text.len() > IDENTITY_BYTES_MAX => Err("the name of a holder is too long".to_owned()),
        text => Ok(text.filter(|text| !text.is_empty()).map(|text| Identity::new(&text))),
    }
}

/// Returns a member of a document that is an object; makes one where there is none.
fn object<'a>(document: &'a mut Value, name: &str) -> &'a mut Map<String, Value> {
    member(document.as_object_mut().expect("the document of a resource is an object"), name)
}

fn member<'a>(parent: &'a mut Map<String, Value>, name: &str) -> &'a mut Map<String, Value> {
    let value = parent.entry(name).or_insert(Value::Null);
    if !value.is_object() {
        *value = json!({});
    }
    value.as_object_mut().expect("it was made an object above")
}
