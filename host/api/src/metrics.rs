//! What a host counts and measures, for Prometheus: `GET /metrics`.
//!
//! What exists and what it means is one table, [`families`]. Names, labels and buckets of `workqueue_*` and `controller_runtime_*` are
//! those that dashboards for Kubernetes' controllers know; what is ours begins with `homeostat_`. No key is ever a label.
//!
//! Whatever the host knows anyhow is asked at the scrape, so the ups and downs of a gauge cannot meet on different labels. What is
//! left, how long things take and what they come to, is tallied as it happens: one short lock for each reconcile.
//!
//! Every series of a controller is there at 0 from the controller's start, and gone with its removal. A controller that takes a name
//! which was used before starts at 0 again; Prometheus takes that for a restart, as it should.
//!
//! Absent on purpose: a registry (the table is one), and metrics of guests' own.

mod accept;
mod families;
mod histogram;
mod refusals;
mod resident;
mod tally;
mod text;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use homeostat_component::CompilationCounts;
use homeostat_runtime::events::EventFilter;
use homeostat_runtime::{ControllerMeasures, Host, HostCapacity, Measures, Observer, Recorder};
use jiff::Timestamp;
use parking_lot::Mutex;

pub(crate) use accept::ExpositionFormat;
use families::FAMILIES;
use refusals::Refusals;
pub(crate) use refusals::{FileKind, LimitKind};
use tally::{ReconcileRecorder, ReconcileStats};
use text::TextEncoder;

/// The metrics of one host. Clones are the same.
///
/// As the [`Observer`] of the host it tallies what reconciles take and come to; without that, the metrics of these are missing.
#[derive(Clone, Default)]
pub struct Metrics(Arc<Inner>);

#[derive(Default)]
struct Inner {
    /// By controller. A name that is used again is the new one's.
    talliers: Mutex<BTreeMap<Arc<str>, Weak<ReconcileRecorder>>>,
    /// Events up to here were seen at a scrape.
    events: AtomicU64,
    refusals: Refusals,
    /// Until when the certificate that is shown is good.
    certificate_until: Mutex<Option<Timestamp>>,
}

/// Everything that one answer is made of.
struct Scrape {
    controllers: Vec<ControllerSample>,
    instances_running: usize,
    instances_free: usize,
    room: HostCapacity,
    compiled: CompilationCounts,
    events: u64,
    refusals: Refusals,
    certificate_until: Option<Timestamp>,
    revision: u64,
    resident_bytes: Option<u64>,
}

/// One controller at a scrape.
struct ControllerSample {
    measures: ControllerMeasures,
    /// `None` when somebody else observes the host.
    tally: Option<ReconcileStats>,
}

impl Observer for Metrics {
    fn controller(&self, name: &Arc<str>) -> Arc<dyn Recorder> {
        let tallier = Arc::<ReconcileRecorder>::default();
        let mut talliers = self.0.talliers.lock();
        // Whoever was removed has left its name behind.
        talliers.retain(|_, known| known.strong_count() > 0);
        talliers.insert(name.clone(), Arc::downgrade(&tallier));
        tallier
    }
}

impl Metrics {
    /// Notes that a request was refused because there was no room for it.
    pub(crate) fn refused(&self, for_want_of: LimitKind) {
        self.0.refusals.room(for_want_of).fetch_add(1, Ordering::Relaxed);
    }

    /// Notes that a file has changed and could not be used.
    pub(crate) fn unusable(&self, file: FileKind) {
        self.0.refusals.file(file).fetch_add(1, Ordering::Relaxed);
    }

    /// Notes until when the certificate is good that is shown from now on; `None` where it does not say, or none is shown.
    pub(crate) fn certificate_until(&self, until: Option<Timestamp>) {
        *self.0.certificate_until.lock() = until;
    }

    #[cfg(test)]
    pub(crate) fn unusable_count(&self, file: FileKind) -> u64 {
        self.0.refusals.file(file).load(Ordering::Relaxed)
    }

    /// Returns all metrics of `host` as they are now.
    pub(crate) fn render(&self, host: &Host, form: ExpositionFormat) -> String {
        let scrape = self.scrape(host);
        let mut text = TextEncoder::new(form);
        for family in &FAMILIES {
            text.start_family(family);
            (family.samples)(&scrape, &mut text);
        }
        text.finish()
    }

    fn scrape(&self, host: &Host) -> Scrape {
        let Measures { controllers, instances_running, instances_free, room, compiled } = host.measure();
        let talliers = self.0.talliers.lock();
        let tally = |name: &str| talliers.get(name).and_then(Weak::upgrade).map(|tallier| tallier.tally());
        let one = |measures: ControllerMeasures| ControllerSample { tally: tally(&measures.status.name), measures };
        let controllers = controllers.into_iter().map(one).collect();
        drop(talliers);
        Scrape {
            controllers,
            instances_running,
            room,
            instances_free,
            compiled,
            events: self.events(host),
            refusals: self.0.refusals.clone(),
            certificate_until: *self.0.certificate_until.lock(),
            revision: host.store().revision().0,
            resident_bytes: resident::bytes(),
        }
    }

    /// Returns how many events there were: the newest one has that number.
    fn events(&self, host: &Host) -> u64 {
        let after = self.0.events.load(Ordering::Relaxed);
        let new = host.events().list(&EventFilter { after, ..EventFilter::default() });
        let latest = new.last().map_or(after, |event| event.sequence);
        self.0.events.fetch_max(latest, Ordering::Relaxed).max(latest)
    }
}

#[cfg(test)]
mod tests;
