//! The traits that a controller implements, and how the generated exports reach them.

use serde_json::Value;

use crate::bindings::imports::homeostat::reconciler::types as wit;
use crate::bindings::{lifecycle, mapper, poller, reconciler};
use crate::{Error, Failure, Key, Kind, Outcome, Resource, Spec};

/// The one thing that every controller does.
pub trait Reconciler {
    /// Says what this controller is: the kind it manages, and what else it wants to hear of.
    ///
    /// Called once, when the component is loaded, in a sandbox where every call to the host is refused: it cannot read the
    /// configuration or the clock, and answers the same each time.
    fn describe() -> Spec;

    /// Brings the world one step closer to what the resource `key` asks for.
    ///
    /// The resource may be gone. Read the crate's documentation for what to rely on.
    ///
    /// # Errors
    ///
    /// A [`Failure`] is tried again as it says, and grows the key's count of failures in a row. A panic is a failure with backoff.
    fn reconcile(key: Key) -> Result<Outcome, Failure>;
}

/// Optional: says which keys a change matters to, for watches with [`Mapping::guest`](crate::Mapping::guest).
pub trait Mapper {
    /// Returns the keys that `changed` matters to. At most 10 000; keys of another kind than the managed one are dropped.
    ///
    /// `watch` is the watch's name. Called once for each change: with the new document, or with the last one of a resource that is
    /// gone. The host also looks at the keys that were returned for the version before, so that what was left behind is noticed.
    ///
    /// # Errors
    ///
    /// A failure is tried again with backoff, and holds no other change back.
    fn map(watch: &str, changed: ChangedResource) -> Result<Vec<Key>, Failure>;
}

/// Optional: finds the keys itself, for things that no store watches.
pub trait Poller {
    /// Returns the keys to look at now. At most 100 000.
    ///
    /// Called when the controller starts, and then at the rate of [`Spec::poll_every`].
    ///
    /// # Errors
    ///
    /// A failure is logged, and the rate is kept.
    fn poll() -> Result<Vec<Key>, Failure>;
}

/// Optional: something to do before the first reconcile, and after the last.
pub trait Lifecycle {
    /// Runs before the first reconcile of this component.
    ///
    /// # Errors
    ///
    /// A failure is tried again with backoff; nothing is reconciled before this has succeeded.
    fn start() -> Result<(), Failure>;

    /// Runs after the last reconcile, when the controller is removed or the host stops. Not after a crash.
    fn stop() {}
}

/// A resource that changed, as a [`Mapper`] gets it.
#[derive(Debug, Clone)]
pub struct ChangedResource {
    key: Key,
    json: String,
}

impl ChangedResource {
    /// The key of the changed resource.
    #[must_use]
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// The document as a typed resource.
    ///
    /// # Errors
    ///
    /// [`Error::Malformed`] when it does not fit the type.
    pub fn resource<K: Kind>(&self) -> Result<Resource<K>, Error> {
        Resource::from_json(&self.key, &self.json)
    }

    /// The document as it is.
    ///
    /// # Errors
    ///
    /// [`Error::Malformed`] when it is no JSON.
    pub fn document(&self) -> Result<Value, Error> {
        serde_json::from_str(&self.json).map_err(|error| Error::malformed(&self.key, &error))
    }
}

impl<T: Reconciler> reconciler::exports::homeostat::reconciler::reconciler::Guest for T {
    fn describe() -> reconciler::exports::homeostat::reconciler::reconciler::ControllerSpec {
        T::describe().into_wit()
    }

    fn reconcile(key: wit::Key) -> Result<wit::Outcome, wit::Failure> {
        match T::reconcile(key) {
            Ok(outcome) => Ok(outcome.into_wit()),
            Err(failure) => Err(failure.into_wit()),
        }
    }
}

impl<T: Mapper> mapper::exports::homeostat::reconciler::mapper::Guest for T {
    fn map(watch: String, changed: wit::Resource) -> Result<Vec<wit::Key>, wit::Failure> {
        let wit::Resource { key, json, .. } = changed;
        T::map(&watch, ChangedResource { key, json }).map_err(Failure::into_wit)
    }
}

impl<T: Poller> poller::exports::homeostat::reconciler::poller::Guest for T {
    fn poll() -> Result<Vec<wit::Key>, wit::Failure> {
        T::poll().map_err(Failure::into_wit)
    }
}

impl<T: Lifecycle> lifecycle::exports::homeostat::reconciler::lifecycle::Guest for T {
    fn start() -> Result<(), wit::Failure> {
        T::start().map_err(Failure::into_wit)
    }

    fn stop() {
        T::stop();
    }
}
