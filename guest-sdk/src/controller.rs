//! The traits that a controller implements, and the generated exports that call them.

use serde_json::Value;

use crate::bindings::imports::homeostat::reconciler::types as wit;
use crate::bindings::{converter, lifecycle, mapper, poller, reconciler};
#[cfg(all(target_family = "wasm", target_os = "unknown"))]
use crate::freestanding::report_panics;
use crate::{Error, Failure, Key, Kind, Outcome, Resource, Spec};

/// The trait that every controller implements.
pub trait Reconciler {
    /// Returns the description of this controller: the kind it manages, and the other kinds it watches.
    ///
    /// The host calls it once, when it loads the component, in a sandbox that refuses calls to the host. The
    /// configuration and the real clock are out of reach, and the answer must be the same each time.
    fn describe() -> Spec;

    /// Brings the world one step closer to the desired state of the resource `key`.
    ///
    /// The resource may be gone. The crate's documentation lists the guarantees.
    ///
    /// # Errors
    ///
    /// The host retries a [`Failure`] as it asks, and counts it in the key's failures in a row. A panic is a
    /// failure with backoff.
    fn reconcile(key: Key) -> Result<Outcome, Failure>;
}

/// Optional: maps a change to the keys it affects, for watches with
/// [`Mapping::guest`](crate::Mapping::guest).
pub trait Mapper {
    /// Returns the keys that the change of `changed` affects. At most 10 000; the host drops keys of kinds
    /// other than the managed one.
    ///
    /// `watch` is the watch's name. The host calls it once for each change, with the new document, or with
    /// the last document of a deleted resource. The host also queues the keys returned for the previous
    /// version, so that former targets are reconciled too.
    ///
    /// # Errors
    ///
    /// The host retries a failure with backoff. It delays no other change.
    fn map(watch: &str, changed: ChangedResource) -> Result<Vec<Key>, Failure>;
}

/// Optional: finds keys by itself, for external things that no store watches.
pub trait Poller {
    /// Returns the keys to reconcile now. At most 100 000.
    ///
    /// The host calls it when the controller starts, and then with the period of [`Spec::poll_every`].
    ///
    /// # Errors
    ///
    /// The host logs a failure and keeps the period.
    fn poll() -> Result<Vec<Key>, Failure>;
}

/// Optional: hooks before the first reconcile and after the last one.
pub trait Lifecycle {
    /// Runs before the first reconcile of this component.
    ///
    /// # Errors
    ///
    /// The host retries a failure with backoff. No key is reconciled before this call succeeds.
    fn start() -> Result<(), Failure>;

    /// Runs after the last reconcile, when the controller is removed or the host shuts down. It does not run
    /// after a crash.
    fn stop() {}
}

/// Optional: converts resources between the versions of a kind, in place of a conversion webhook.
///
/// A `CustomResourceDefinition` names the controller in its annotation `homeostat.dev/converter`.
pub trait Converter {
    /// Returns a document in the `apiVersion` `desired`. Its own `apiVersion` is another one of the same kind.
    ///
    /// The SDK sets the `apiVersion` of the result. Kind, name, namespace and uid must stay. The host takes labels and
    /// annotations from the rest of the metadata, and keeps the answer: it must depend on the arguments alone. Calls to
    /// the host fail here as in [`Reconciler::describe`], and there is no configuration.
    ///
    /// # Errors
    ///
    /// The request that needs the document fails with the message.
    fn convert(document: Value, desired: &str) -> Result<Value, Failure>;
}

/// A changed resource, as passed to a [`Mapper`].
#[derive(Debug, Clone)]
pub struct ChangedResource {
    key: Key,
    json: String,
}

impl ChangedResource {
    /// Returns the key of the changed resource.
    #[must_use]
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// Parses the document into a typed resource.
    ///
    /// # Errors
    ///
    /// [`Error::Malformed`] when it does not fit the type.
    pub fn resource<K: Kind>(&self) -> Result<Resource<K>, Error> {
        Resource::from_json(&self.key, &self.json)
    }

    /// Parses the document as JSON.
    ///
    /// # Errors
    ///
    /// [`Error::Malformed`] when it is not JSON.
    pub fn document(&self) -> Result<Value, Error> {
        serde_json::from_str(&self.json).map_err(|error| Error::malformed(&self.key, &error))
    }
}

impl<T: Reconciler> reconciler::exports::homeostat::reconciler::reconciler::Guest for T {
    fn describe() -> reconciler::exports::homeostat::reconciler::reconciler::ControllerSpec {
        report_panics();
        T::describe().into_wit()
    }

    fn reconcile(key: wit::Key) -> Result<wit::Outcome, wit::Failure> {
        report_panics();
        match T::reconcile(key) {
            Ok(outcome) => Ok(outcome.into_wit()),
            Err(failure) => Err(failure.into_wit()),
        }
    }
}

impl<T: Mapper> mapper::exports::homeostat::reconciler::mapper::Guest for T {
    fn map(watch: String, changed: wit::Resource) -> Result<Vec<wit::Key>, wit::Failure> {
        report_panics();
        let wit::Resource { key, json, .. } = changed;
        T::map(&watch, ChangedResource { key, json }).map_err(Failure::into_wit)
    }
}

impl<T: Poller> poller::exports::homeostat::reconciler::poller::Guest for T {
    fn poll() -> Result<Vec<wit::Key>, wit::Failure> {
        report_panics();
        T::poll().map_err(Failure::into_wit)
    }
}

impl<T: Lifecycle> lifecycle::exports::homeostat::reconciler::lifecycle::Guest for T {
    fn start() -> Result<(), wit::Failure> {
        report_panics();
        T::start().map_err(Failure::into_wit)
    }

    fn stop() {
        report_panics();
        T::stop();
    }
}

impl<T: Converter> converter::exports::homeostat::reconciler::converter::Guest for T {
    fn convert(desired: String, documents: Vec<String>) -> Result<Vec<String>, String> {
        report_panics();
        let convert = |text: String| {
            let document = serde_json::from_str(&text).map_err(|error| format!("a document is not JSON: {error}"))?;
            let mut converted = T::convert(document, &desired).map_err(|failure| failure.into_wit().message)?;
            if let Some(fields) = converted.as_object_mut() {
                fields.insert("apiVersion".to_owned(), desired.as_str().into());
            }
            Ok(converted.to_string())
        };
        documents.into_iter().map(convert).collect()
    }
}

/// The standard library writes the message of a panic to standard error.
#[cfg(not(all(target_family = "wasm", target_os = "unknown")))]
fn report_panics() {}
