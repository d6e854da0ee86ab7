//! What arrives at the store of the fleet: terms and writes, in order, and the promises that they break.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use homeostat_fleet::{Epoch, Identity, LeaseName};
use homeostat_store::{Error, Key, Request, Resource, Result, Target};
use parking_lot::Mutex;
use tokio::time::Instant;

/// The term of a lease under which a host wrote.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) struct Term {
    pub(super) host: Identity,
    pub(super) lease: LeaseName,
    pub(super) epoch: u64,
}

/// The order of all terms and writes.
pub(super) struct Journal {
    origin: Instant,
    /// Whether the store refuses a write of an old term.
    is_fenced: bool,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    trace: Vec<String>,
    wrong: Vec<String>,
    counts: Counts,
    /// By lease, the latest acquisition.
    terms: BTreeMap<LeaseName, (Identity, u64)>,
    /// By lease, when it was released.
    released: BTreeMap<LeaseName, Instant>,
    /// By key, the term of its last write, and those before.
    writers: BTreeMap<Key, (Term, BTreeSet<Term>)>,
    /// By key, the version that wrote its status last.
    versions: BTreeMap<Key, u64>,
    /// Whether no fault is on, so that a released lease is taken at once.
    is_calm: bool,
    last_move: Duration,
}

/// The counts of a run.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) terms: u64,
    pub(super) writes: u64,
    /// Writes of an old term that the store refused.
    pub(super) refused: u64,
    /// Hand-overs without a fault.
    pub(super) planned: u64,
    /// The longest of them.
    pub(super) planned_max: Duration,
    /// Keys that got a new version.
    pub(super) versions: u64,
}

impl Counts {
    pub(super) fn add(&mut self, other: &Self) {
        let Self { terms, writes, refused, planned, planned_max, versions } = other;
        self.terms += terms;
        self.writes += writes;
        self.refused += refused;
        self.planned += planned;
        self.planned_max = self.planned_max.max(*planned_max);
        self.versions += versions;
    }
}

impl Journal {
    pub(super) fn new(is_fenced: bool) -> Self {
        Self { origin: Instant::now(), is_fenced, inner: Mutex::default() }
    }

    pub(super) fn now(&self) -> Duration {
        self.origin.elapsed()
    }

    pub(super) fn note(&self, text: &str) {
        let line = format!("{:>9} {text}", self.now().as_millis());
        self.inner.lock().trace.push(line);
    }

    pub(super) fn report(&self, text: &str) {
        self.note(&format!("WRONG {text}"));
        self.inner.lock().wrong.push(text.to_owned());
    }

    /// Says whether no fault is on.
    pub(super) fn set_calm(&self, is_calm: bool) {
        let mut inner = self.inner.lock();
        inner.is_calm = is_calm;
        inner.released.clear();
    }

    /// Returns when a lease changed its holder last.
    pub(super) fn last_move(&self) -> Duration {
        self.inner.lock().last_move
    }

    /// Returns the counts, the trace and the broken promises.
    pub(super) fn take(&self) -> (Counts, Vec<String>, Vec<String>) {
        let mut inner = self.inner.lock();
        (inner.counts, std::mem::take(&mut inner.trace), std::mem::take(&mut inner.wrong))
    }

    /// A host has acquired a lease.
    pub(super) fn acquired(&self, lease: &LeaseName, host: &Identity, epoch: Epoch) {
        self.note(&format!("{host} acquires {lease}"));
        let (now, mut inner) = (self.now(), self.inner.lock());
        let inner = &mut *inner;
        let former = inner.terms.insert(lease.clone(), (host.clone(), epoch.0));
        if !lease.is_of_controller() {
            return;
        }
        inner.counts.terms += 1;
        inner.last_move = now;
        if let Some(released) = inner.released.remove(lease).filter(|_| inner.is_calm) {
            inner.counts.planned += 1;
            inner.counts.planned_max = inner.counts.planned_max.max(released.elapsed());
        }
        if let Some((_, former)) = former.filter(|(_, former)| *former >= epoch.0) {
            inner.wrong.push(format!("epoch {epoch} of {lease} is not above {former}"));
        }
    }

    /// A host has released a lease.
    pub(super) fn released(&self, lease: &LeaseName, host: &Identity) {
        self.note(&format!("{host} releases {lease}"));
        self.inner.lock().released.insert(lease.clone(), Instant::now());
    }

    /// Takes a write that has arrived, before it is decided.
    ///
    /// # Errors
    /// `Fenced` for a write of an old term, where the store has fences.
    pub(super) fn arrive(&self, request: &Request, term: Term) -> Result<()> {
        let latest = self.inner.lock().terms.get(&term.lease).cloned();
        let is_latest = latest.as_ref() == Some(&(term.host.clone(), term.epoch));
        if !is_latest && self.is_fenced {
            self.note(&format!("refused: a write of {} under {}", term.host, term.lease));
            self.inner.lock().counts.refused += 1;
            return Err(Error::Fenced { lease: term.lease.to_string(), epoch: term.epoch });
        }
        if !is_latest {
            self.report(&format!("a write of {term:?} is accepted after {latest:?} has begun"));
        }
        self.inner.lock().counts.writes += 1;
        let Target { kind, namespace, name } = request.write.target()?;
        self.check_alone(Key::new(kind, &namespace, &name.unwrap_or_default()), term);
        Ok(())
    }

    /// No key goes back to an earlier version.
    pub(super) fn check_version(&self, resource: &Resource) {
        let Some(version) = resource.status()["version"].as_u64() else { return };
        let mut inner = self.inner.lock();
        let former = inner.versions.insert(resource.key().clone(), version).unwrap_or_default();
        inner.counts.versions += u64::from(version > former);
        let term = inner.writers.get(resource.key()).map(|(term, _)| format!("{} under {}", term.host, term.lease));
        drop(inner);
        if version < former {
            let term = term.unwrap_or_default();
            self.report(&format!("{} goes back from version {former} to {version}: a write of {term}", resource.key()));
        }
    }

    /// Terms of one key follow each other: none writes again after another one has written.
    fn check_alone(&self, key: Key, term: Term) {
        let mut inner = self.inner.lock();
        let (last, former) = inner.writers.entry(key.clone()).or_insert_with(|| (term.clone(), BTreeSet::new()));
        if *last == term {
            return;
        }
        let is_overlap = former.contains(&term);
        let other = std::mem::replace(last, term.clone());
        former.insert(other.clone());
        drop(inner);
        if is_overlap {
            self.report(&format!("two terms write {key} in turn: {other:?} and {term:?}"));
        }
    }
}
