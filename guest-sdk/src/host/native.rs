//! The host of a native test.

mod imports;

use std::cell::RefCell;
use std::rc::Rc;

pub use imports::{config, events, log, queue, store, watches};

use crate::bindings::imports::homeostat::reconciler::events::Severity;
use crate::bindings::imports::homeostat::reconciler::log::Level;
use crate::bindings::imports::homeostat::reconciler::queue::EnqueueOptions;
use crate::bindings::imports::homeostat::reconciler::store::{Change, Propagation};
use crate::bindings::imports::homeostat::reconciler::types::{
    Key, Kind, Page, Precondition, Resource, Selector, StoreError, View,
};

/// The host that a native test calls instead of the imports. Its methods are the functions of the contract.
pub trait Host {
    /// Reads one resource; `live` past every cache.
    ///
    /// # Errors
    ///
    /// As `store.get` of the contract.
    fn get(&self, key: &Key, view: View, live: bool) -> Result<Resource, StoreError>;

    /// Reads one page of resources; `live` past every cache.
    ///
    /// # Errors
    ///
    /// As `store.list` of the contract.
    fn list(
        &self,
        kind: &Kind,
        selector: &Selector,
        view: View,
        limit: Option<u32>,
        from: Option<&str>,
        live: bool,
    ) -> Result<Page, StoreError>;

    /// Creates a resource.
    ///
    /// # Errors
    ///
    /// As `store.create` of the contract.
    fn create(&self, json: &str) -> Result<Resource, StoreError>;

    /// Replaces a resource.
    ///
    /// # Errors
    ///
    /// As `store.update` of the contract.
    fn update(&self, json: &str, precondition: &Precondition) -> Result<Resource, StoreError>;

    /// Replaces the status of a resource.
    ///
    /// # Errors
    ///
    /// As `store.update-status` of the contract.
    fn update_status(&self, key: &Key, status: &str, precondition: &Precondition) -> Result<Resource, StoreError>;

    /// Changes a resource in place.
    ///
    /// # Errors
    ///
    /// As `store.patch` of the contract.
    fn patch(&self, key: &Key, change: &Change, precondition: &Precondition) -> Result<Resource, StoreError>;

    /// Applies a resource.
    ///
    /// # Errors
    ///
    /// As `store.apply` of the contract.
    fn apply(&self, json: &str, force: bool) -> Result<Resource, StoreError>;

    /// Deletes a resource.
    ///
    /// # Errors
    ///
    /// As `store.delete` of the contract.
    fn delete(&self, key: &Key, precondition: &Precondition, propagation: Propagation) -> Result<(), StoreError>;

    /// Deletes a resource with a grace period in seconds.
    ///
    /// # Errors
    ///
    /// As `store.delete-after` of the contract.
    fn delete_after(
        &self,
        key: &Key,
        precondition: &Precondition,
        propagation: Propagation,
        grace_seconds: u32,
    ) -> Result<(), StoreError>;

    /// Follows one resource.
    ///
    /// # Errors
    ///
    /// As `watches.follow` of the contract.
    fn follow(&self, target: &Key) -> Result<(), StoreError>;

    /// Follows the resources of a kind.
    ///
    /// # Errors
    ///
    /// As `watches.follow-all` of the contract.
    fn follow_all(&self, kind: &Kind, selector: &Selector) -> Result<(), StoreError>;

    /// Puts a key on the controller's own queue.
    ///
    /// # Errors
    ///
    /// As `queue.enqueue` of the contract.
    fn enqueue(&self, key: &Key, options: EnqueueOptions) -> Result<(), StoreError>;

    /// Emits an event.
    fn emit(&self, severity: Severity, reason: &str, message: &str, regarding: Option<&Key>);

    /// Writes a log line.
    fn write(&self, level: Level, message: &str, fields: &[(String, String)]);

    /// Returns a setting.
    fn config(&self, key: &str) -> Option<String>;

    /// Returns the time in milliseconds since 1970.
    fn now(&self) -> i64;
}

thread_local! {
    static HOST: RefCell<Option<Rc<dyn Host>>> = const { RefCell::new(None) };
}

/// Restores the previous host, also after a panic.
struct HostGuard(Option<Rc<dyn Host>>);

impl Drop for HostGuard {
    fn drop(&mut self) {
        HOST.set(self.0.take());
    }
}

/// Calls `run` while the calls of this thread to the host go to `host`.
pub fn with_host<R>(host: Rc<dyn Host>, run: impl FnOnce() -> R) -> R {
    let _guard = HostGuard(HOST.replace(Some(host)));
    run()
}

fn host() -> Rc<dyn Host> {
    let host = HOST.with_borrow(Clone::clone);
    host.expect("a call to the host needs a host: run the reconciler in a `World` of the crate homeostat-sdk-testing")
}

/// Returns the time of the test, in milliseconds since 1970; `None` outside of a test with a host.
pub(crate) fn now() -> Option<i64> {
    HOST.with_borrow(|host| host.as_ref().map(|host| host.now()))
}
