//! The world of a test.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::FutureExt;
use homeostat_component::{Fault as HostFault, Grants, Outcome as HostOutcome, Retry, StoreError};
use homeostat_sdk::{Failure, Key, Kind, Mapper, Outcome, Reconciler, Resource, testing};
use homeostat_simulator::{Error, InjectedFault, Operation, RecordedEvent, RecordedLine, Run, Simulator};
use homeostat_store::{Query, ResourcePages};

use crate::convert;
use crate::native_reconciler::NativeReconciler;

/// The reason of the faults of a test.
const ON_PURPOSE: &str = "a fault of the test";

/// A store in memory, a queue, a clock, and the controller `T`.
///
/// Methods panic where the test itself is wrong, as for a resource that the store refuses.
pub struct World<T: Reconciler> {
    simulator: Simulator<NativeReconciler<T>>,
}

impl<T: Reconciler> World<T> {
    /// Creates an empty world for the controller `T`, without settings.
    ///
    /// # Panics
    ///
    /// When the schema of a kind is not structural.
    #[must_use]
    pub fn of() -> Self {
        Self::with_config(&[])
    }

    /// Creates an empty world with these settings, as `spec.config` of the manifest. The controller describes itself
    /// with them.
    ///
    /// # Panics
    ///
    /// As [`World::of`].
    #[must_use]
    pub fn with_config(settings: &[(&str, &str)]) -> Self {
        let settings = settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let settings: BTreeMap<String, String> = settings.collect();
        Self::new(NativeReconciler::new(&settings), settings)
    }

    fn new(reconciler: NativeReconciler<T>, settings: BTreeMap<String, String>) -> Self {
        Self { simulator: done(Simulator::new(reconciler, Grants::everything(), settings)) }
    }

    /// Declares a kind that the controller uses and does not describe, as a definition does.
    ///
    /// # Panics
    ///
    /// When the schema of the kind is not structural.
    pub fn declare<K: Kind>(&mut self) {
        done(async { self.simulator.declare(&convert::declaration(testing::declaration::<K>())) });
    }

    /// Creates or replaces a resource, as another client.
    ///
    /// # Panics
    ///
    /// When the store refuses it.
    pub fn put<K: Kind>(&mut self, resource: &Resource<K>) {
        let document = testing::document(resource).unwrap_or_else(|error| panic!("{error}"));
        done(self.simulator.put(document));
    }

    /// Deletes a resource, as another client.
    ///
    /// # Panics
    ///
    /// When the resource does not exist.
    pub fn delete(&mut self, key: &Key) {
        done(self.simulator.delete(&convert::key(key)));
    }

    /// Returns a resource as it is now; `None` if it does not exist.
    ///
    /// # Panics
    ///
    /// When the document does not fit the type.
    pub fn get<K: Kind>(&self, key: &Key) -> Option<Resource<K>> {
        let found = self.simulator.get(&convert::key(key)).now_or_never().expect("a store in memory never waits");
        match found {
            Ok(found) => Some(typed(&found)),
            Err(Error::Store(homeostat_store::Error::NotFound { .. })) => None,
            Err(error) => panic!("{error}"),
        }
    }

    /// Returns all resources of a kind as they are now, ordered by namespace and name.
    ///
    /// # Panics
    ///
    /// When a document does not fit the type.
    pub fn list<K: Kind>(&self) -> Vec<Resource<K>> {
        let Key { kind, .. } = K::key("", "");
        let mut pages = ResourcePages::new(self.simulator.store(), Query::all(convert::kind(&kind)));
        let mut found = Vec::new();
        while let Some(page) = done(async { Ok(pages.next_page().await?) }) {
            found.extend(page.iter().map(|resource| typed(resource)));
        }
        found
    }

    /// Reconciles one key once, whether it is queued or not.
    ///
    /// # Errors
    ///
    /// The failure of the reconciler.
    ///
    /// # Panics
    ///
    /// When the mapper fails.
    pub fn reconcile(&mut self, key: &Key) -> Result<Outcome, Failure> {
        result(done(self.simulator.reconcile(&convert::key(key))))
    }

    /// Reconciles keys until none is ready, and returns the number of reconciles. Keys that wait for a delay keep
    /// waiting.
    ///
    /// # Panics
    ///
    /// When the controller does not come to rest after 1,000 reconciles. The message names the key.
    pub fn settle(&mut self) -> usize {
        done(self.simulator.settle()).len()
    }

    /// Moves the clock, and reconciles each key at the moment at which it is due. Returns the number of reconciles.
    ///
    /// # Panics
    ///
    /// As [`World::settle`].
    pub fn advance(&mut self, by: Duration) -> usize {
        done(self.simulator.advance(by)).len()
    }

    /// Returns the time until the next waiting key is due; `None` if no key waits.
    pub fn next_due(&mut self) -> Option<Duration> {
        self.simulator.next_due()
    }

    /// Makes the next operation of this sort fail: the store is unavailable.
    pub fn fail_once(&mut self, operation: Operation) {
        self.fail(operation, StoreError::Unavailable(ON_PURPOSE.to_owned()), false);
    }

    /// Makes the next operation of this sort fail because another client was faster: creating answers
    /// [`homeostat_sdk::Error::AlreadyExists`], every other operation [`homeostat_sdk::Error::Conflict`].
    pub fn conflict_once(&mut self, operation: Operation) {
        let error = match operation {
            Operation::Create => StoreError::AlreadyExists(String::new()),
            _ => StoreError::Conflict(String::new()),
        };
        self.fail(operation, error, false);
    }

    /// Loses the answer of the next write of this sort: it happens, and the controller is told that the store is
    /// unavailable.
    pub fn lose_answer_once(&mut self, operation: Operation) {
        self.fail(operation, StoreError::Unavailable(ON_PURPOSE.to_owned()), true);
    }

    fn fail(&mut self, operation: Operation, error: StoreError, after_write: bool) {
        self.simulator.inject(InjectedFault { operation, kind: None, error, times: Some(1), after_write });
    }

    /// Returns the events since the last call.
    pub fn take_events(&mut self) -> Vec<RecordedEvent> {
        self.simulator.take_events()
    }

    /// Returns the log lines since the last call.
    pub fn take_lines(&mut self) -> Vec<RecordedLine> {
        self.simulator.take_lines()
    }
}

impl<T: Reconciler + Mapper> World<T> {
    /// Creates an empty world for a controller that also has a mapper.
    ///
    /// # Panics
    ///
    /// As [`World::of`].
    #[must_use]
    pub fn with_mapper() -> Self {
        Self::new(NativeReconciler::with_mapper(&BTreeMap::new()), BTreeMap::new())
    }
}

/// Returns a stored resource with its Rust types.
fn typed<K: Kind>(stored: &homeostat_store::Resource) -> Resource<K> {
    let key = K::key(stored.key().namespace(), stored.key().name());
    let resource = testing::resource::<K>(&key, stored.document().clone());
    let resource = resource.unwrap_or_else(|error| panic!("{error}"));
    let status = stored.document().get("status").filter(|status| !status.is_null());
    assert_eq!(resource.status.is_some(), status.is_some(), "the status does not fit its type: {status:?}");
    resource
}

/// Waits for a step of the simulator, which never waits.
fn done<R>(step: impl Future<Output = Result<R, Error>>) -> R {
    let ended = step.now_or_never().expect("a world in memory never waits");
    ended.unwrap_or_else(|error| panic!("{error}"))
}

fn result(run: Run) -> Result<Outcome, Failure> {
    match run.result {
        Ok(HostOutcome::Settled) => Ok(Outcome::settled()),
        Ok(HostOutcome::AgainAfter(delay)) => Ok(Outcome::again_after(delay)),
        Err(HostFault::Failure { message, retry }) => Err(match retry {
            Retry::Backoff => Failure::new(message),
            Retry::After(delay) => Failure::new(message).after(delay),
            Retry::Never => Failure::never(message),
        }),
        Err(other) => Err(Failure::new(other)),
    }
}
