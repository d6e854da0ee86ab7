//! Events: in the log of the host, and at the servers of the resources that they are about.

use std::sync::Arc;

use futures_util::FutureExt;
use homeostat_component::Severity;
use homeostat_store::{EventRecord, Key};

use super::Context;
use crate::clock::now;
use crate::events::{EventSource, NewEvent};

impl Context {
    /// Records an event of the host, dated now.
    pub(crate) fn event(
        &self,
        controller: &Arc<str>,
        key: Option<Key>,
        severity: Severity,
        reason: &str,
        message: &str,
    ) {
        self.record(NewEvent { controller, source: EventSource::Host, key, severity, reason, message });
    }

    /// Records an event, dated now. One about a resource is also written to the server of its store, if that takes
    /// events.
    pub(crate) fn record(&self, event: NewEvent<'_>) {
        let count = self.events.record(now(), event.clone());
        let NewEvent { controller, source: _, key, severity, reason, message } = event;
        let Some(regarding) = key else { return };
        let Some(sink) = self.stores.event_sink(regarding.kind()) else { return };
        // The uid is known if the kind is in a cache; an event waits for no server.
        let known = self.store.get(&regarding).now_or_never();
        let uid = known.and_then(Result::ok).map(|resource| resource.uid().to_owned()).unwrap_or_default();
        let (controller, reason, note) = (controller.to_string(), reason.to_owned(), message.to_owned());
        let is_warning = severity == Severity::Warning;
        sink.record(EventRecord { controller, regarding, uid, reason, note, is_warning, count });
    }
}
