//! The controllers whose component is compiling, and since when: compiling may take minutes, and people
//! should see it.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::pin::pin;
use std::time::Duration;

use homeostat_component::Severity;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::Host;

/// Shorter compilations are not reported; most components compile fast or were compiled before.
const TELL_AFTER: Duration = Duration::from_secs(1);
/// The interval of log lines during a compilation.
const GOES_ON_EVERY: Duration = Duration::from_secs(10);

/// The controllers whose component is compiling, by name. Bounded by the number of concurrent reconciles.
#[derive(Default)]
pub(crate) struct CompilationTracker(Mutex<BTreeMap<String, Instant>>);

/// Keeps a name in the list while it exists.
struct CompilationGuard<'c> {
    compiling: &'c CompilationTracker,
    name: &'c str,
}

impl Drop for CompilationGuard<'_> {
    fn drop(&mut self) {
        self.compiling.0.lock().remove(self.name);
    }
}

impl CompilationTracker {
    /// Returns how long the component of a controller has been compiling, `None` if it is not.
    pub(crate) fn since(&self, name: &str) -> Option<Duration> {
        self.0.lock().get(name).map(Instant::elapsed)
    }

    /// Returns all of them by name.
    pub(crate) fn all(&self) -> Vec<(String, Duration)> {
        self.0.lock().iter().map(|(name, since)| (name.clone(), since.elapsed())).collect()
    }

    /// Awaits `loading`, and lists the controller as compiling meanwhile. A long compilation is reported by
    /// an event when it is noticed, one at its end, and repeated log lines.
    ///
    /// *Cancel safety*: as that of `loading`.
    pub(super) async fn watched<R>(&self, host: &Host, name: &str, loading: impl Future<Output = R>) -> R {
        let _entered = self.enter(name);
        let mut loading = pin!(loading);
        let began = Instant::now();
        if let Ok(loaded) = tokio::time::timeout(TELL_AFTER, &mut loading).await {
            return loaded;
        }
        let goes_on = if host.controller(name).is_ok() { "the current version keeps running" } else { "nothing runs" };
        host.emit_event(name, Severity::Normal, "Compiling", &format!("its component is being compiled; {goes_on}"));
        let loaded = loop {
            tracing::info!(controller = name, elapsed = ?whole_seconds(began), "its component is being compiled");
            if let Ok(loaded) = tokio::time::timeout(GOES_ON_EVERY, &mut loading).await {
                break loaded;
            }
        };
        let took = whole_seconds(began);
        host.emit_event(name, Severity::Normal, "CompileEnded", &format!("compiling its component took {took:?}"));
        loaded
    }

    /// Adds a name to the list. A name is reconciled by one worker at a time, so a second guard of the same
    /// name does not matter.
    fn enter<'c>(&'c self, name: &'c str) -> CompilationGuard<'c> {
        if let Entry::Vacant(vacant) = self.0.lock().entry(name.to_owned()) {
            vacant.insert(Instant::now());
        }
        CompilationGuard { compiling: self, name }
    }
}

fn whole_seconds(began: Instant) -> Duration {
    Duration::from_secs(began.elapsed().as_secs())
}
