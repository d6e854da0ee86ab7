//! The metrics of a host, for Prometheus: `GET /metrics`.
//!
//! All metrics and their meanings are in one table, [`families`]. Names, labels and buckets of `workqueue_*`
//! and `controller_runtime_*` are those of controller-runtime, which existing dashboards use. The host's own
//! metrics start with `homeostat_`. A key is never a label.
//!
//! Values that the host keeps anyway are read at the scrape, so a gauge is never incremented under one label
//! and decremented under another. Counters and histograms of reconciles are recorded as each reconcile ends,
//! under one short lock.
//!
//! Every series of a controller starts at 0 when the controller starts, and disappears when it is removed. A
//! controller that reuses a name starts at 0 again, which Prometheus rightly treats as a restart.
//!
//! Deliberately absent: a metrics registry (the table is one), and metrics defined by guests.

mod accept;
mod families;
mod histogram;
mod reconcile_stats;
mod refusals;
mod resident;
mod text;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use homeostat_component::CompilationCounts;
use homeostat_runtime::events::EventFilter;
use homeostat_runtime::{ControllerMeasures, Host, HostCapacity, Measures, Observer, Recorder};
use homeostat_store::StoreStatus;
use jiff::Timestamp;
use parking_lot::Mutex;

pub(crate) use accept::ExpositionFormat;
use families::FAMILIES;
use reconcile_stats::{ReconcileRecorder, ReconcileStats};
use refusals::Refusals;
pub(crate) use refusals::{FileKind, LimitKind};
use text::TextEncoder;

/// The metrics of one host. Clones share one set.
///
/// As the [`Observer`] of the host it records each reconcile. Otherwise the metrics of reconciles are
/// missing.
#[derive(Clone, Default)]
pub struct Metrics(Arc<Inner>);

#[derive(Default)]
struct Inner {
    /// By controller. If a name is reused, the entry belongs to the new controller.
    recorders: Mutex<BTreeMap<Arc<str>, Weak<ReconcileRecorder>>>,
    /// The newest event sequence at the last scrape.
    events: AtomicU64,
    refusals: Refusals,
    /// When the served certificate expires.
    certificate_until: Mutex<Option<Timestamp>>,
}

/// All values of one scrape.
struct Scrape {
    controllers: Vec<ControllerSample>,
    instances_running: usize,
    instances_free: usize,
    room: HostCapacity,
    compiled: CompilationCounts,
    baseline: usize,
    events: u64,
    refusals: Refusals,
    certificate_until: Option<Timestamp>,
    stores: Vec<StoreStatus>,
    resident_bytes: Option<u64>,
}

/// One controller at a scrape.
struct ControllerSample {
    measures: ControllerMeasures,
    /// `None` if the host has another observer.
    tally: Option<ReconcileStats>,
}

impl Observer for Metrics {
    fn controller(&self, name: &Arc<str>) -> Arc<dyn Recorder> {
        let recorder = Arc::<ReconcileRecorder>::default();
        let mut recorders = self.0.recorders.lock();
        // Removed controllers leave their names behind.
        recorders.retain(|_, known| known.strong_count() > 0);
        recorders.insert(name.clone(), Arc::downgrade(&recorder));
        recorder
    }
}

impl Metrics {
    /// Counts a request that was refused because a limit was reached.
    pub(crate) fn refused(&self, limit: LimitKind) {
        self.0.refusals.limit(limit).fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a changed file that could not be used.
    pub(crate) fn unusable(&self, file: FileKind) {
        self.0.refusals.file(file).fetch_add(1, Ordering::Relaxed);
    }

    /// Sets when the certificate that is served from now on expires; `None` if it has no end, or if none is
    /// served.
    pub(crate) fn certificate_until(&self, until: Option<Timestamp>) {
        *self.0.certificate_until.lock() = until;
    }

    #[cfg(test)]
    pub(crate) fn unusable_count(&self, file: FileKind) -> u64 {
        self.0.refusals.file(file).load(Ordering::Relaxed)
    }

    /// Returns the current metrics of `host`.
    pub(crate) fn render(&self, host: &Host, format: ExpositionFormat) -> String {
        let scrape = self.scrape(host);
        let mut text = TextEncoder::new(format);
        for family in &FAMILIES {
            text.start_family(family);
            (family.samples)(&scrape, &mut text);
        }
        text.finish()
    }

    fn scrape(&self, host: &Host) -> Scrape {
        let Measures { controllers, instances_running, instances_free, room, compiled, baseline } = host.measure();
        let recorders = self.0.recorders.lock();
        let tally = |name: &str| recorders.get(name).and_then(Weak::upgrade).map(|recorder| recorder.tally());
        let one = |measures: ControllerMeasures| ControllerSample { tally: tally(&measures.status.name), measures };
        let controllers = controllers.into_iter().map(one).collect();
        drop(recorders);
        Scrape {
            controllers,
            instances_running,
            room,
            instances_free,
            compiled,
            baseline,
            events: self.events(host),
            refusals: self.0.refusals.clone(),
            certificate_until: *self.0.certificate_until.lock(),
            stores: host.store().status(),
            resident_bytes: resident::bytes(),
        }
    }

    /// Returns how many events there were, which is the sequence of the newest one.
    fn events(&self, host: &Host) -> u64 {
        let after = self.0.events.load(Ordering::Relaxed);
        let new = host.events().list(&EventFilter { after, ..EventFilter::default() });
        let latest = new.last().map_or(after, |event| event.sequence);
        self.0.events.fetch_max(latest, Ordering::Relaxed).max(latest)
    }
}

#[cfg(test)]
mod tests;
