//! The functions of the contract in a native test, beside the generated types: each calls the host of the test.
#![allow(missing_docs, clippy::missing_errors_doc, reason = "the documentation is that of wit/")]

pub mod store {
    pub use crate::bindings::imports::homeostat::reconciler::store::*;
    use crate::host::native::host;

    pub fn get(key: &Key, view: View) -> Result<Resource, StoreError> {
        host().get(key, view, false)
    }

    pub fn get_live(key: &Key, view: View) -> Result<Resource, StoreError> {
        host().get(key, view, true)
    }

    pub fn list(
        kind: &Kind,
        selector: &Selector,
        view: View,
        limit: Option<u32>,
        from: Option<&str>,
    ) -> Result<Page, StoreError> {
        host().list(kind, selector, view, limit, from, false)
    }

    pub fn list_live(
        kind: &Kind,
        selector: &Selector,
        view: View,
        limit: Option<u32>,
        from: Option<&str>,
    ) -> Result<Page, StoreError> {
        host().list(kind, selector, view, limit, from, true)
    }

    pub fn create(json: &str) -> Result<Resource, StoreError> {
        host().create(json)
    }

    pub fn update(json: &str, precondition: &Precondition) -> Result<Resource, StoreError> {
        host().update(json, precondition)
    }

    pub fn update_status(key: &Key, status: &str, precondition: &Precondition) -> Result<Resource, StoreError> {
        host().update_status(key, status, precondition)
    }

    pub fn patch(key: &Key, change: &Change, precondition: &Precondition) -> Result<Resource, StoreError> {
        host().patch(key, change, precondition)
    }

    pub fn apply(json: &str, force: bool) -> Result<Resource, StoreError> {
        host().apply(json, force)
    }

    pub fn delete(key: &Key, precondition: &Precondition, propagation: Propagation) -> Result<(), StoreError> {
        host().delete(key, precondition, propagation)
    }

    pub fn delete_after(
        key: &Key,
        precondition: &Precondition,
        propagation: Propagation,
        grace_seconds: u32,
    ) -> Result<(), StoreError> {
        host().delete_after(key, precondition, propagation, grace_seconds)
    }
}

pub mod watches {
    pub use crate::bindings::imports::homeostat::reconciler::watches::*;
    use crate::host::native::host;

    pub fn follow(target: &Key) -> Result<(), StoreError> {
        host().follow(target)
    }

    pub fn follow_all(kind: &Kind, selector: &Selector) -> Result<(), StoreError> {
        host().follow_all(kind, selector)
    }
}

pub mod queue {
    pub use crate::bindings::imports::homeostat::reconciler::queue::*;
    use crate::host::native::host;

    pub fn enqueue(key: &Key, options: EnqueueOptions) -> Result<(), StoreError> {
        host().enqueue(key, options)
    }
}

pub mod events {
    pub use crate::bindings::imports::homeostat::reconciler::events::*;
    use crate::host::native::host;

    pub fn emit(severity: Severity, reason: &str, message: &str, regarding: Option<&Key>) {
        host().emit(severity, reason, message, regarding);
    }
}

pub mod log {
    pub use crate::bindings::imports::homeostat::reconciler::log::*;
    use crate::host::native::host;

    pub fn write(level: Level, message: &str, fields: &[(String, String)]) {
        host().write(level, message, fields);
    }
}

pub mod config {
    pub use crate::bindings::imports::wasi::config::store::*;
    use crate::host::native::host;

    #[allow(clippy::unnecessary_wraps, reason = "the signature of the import")]
    pub fn get(key: &str) -> Result<Option<String>, Error> {
        Ok(host().config(key))
    }
}
