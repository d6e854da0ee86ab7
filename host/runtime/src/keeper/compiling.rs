//! Which controllers wait for a component to be compiled, and since when: compiling may take minutes, and people are to see it.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::pin::pin;
use std::time::Duration;

use homeostat_component::Severity;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::Host;

/// What takes no longer is not told: most components are compiled at once, or were compiled before.
const TELL_AFTER: Duration = Duration::from_secs(1);
/// How often the log says that it goes on.
const GOES_ON_EVERY: Duration = Duration::from_secs(10);

/// The controllers whose component is being compiled, by name. As many at most as the keeper works on at once.
#[derive(Default)]
pub(crate) struct CompilationTracker(Mutex<BTreeMap<String, Instant>>);

/// A name stands among those for as long as this exists.
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
    /// Returns for how long the component of a controller has been compiled; `None`: it is not.
    pub(crate) fn since(&self, name: &str) -> Option<Duration> {
        self.0.lock().get(name).map(Instant::elapsed)
    }

    /// Returns all of them, by name.
    pub(crate) fn all(&self) -> Vec<(String, Duration)> {
        self.0.lock().iter().map(|(name, since)| (name.clone(), since.elapsed())).collect()
    }

    /// Waits for what loads the component of a controller, which stands among those that compile meanwhile. What takes long is told: by an
    /// event when that is seen and one at its end, and in the log again and again.
    ///
    /// *Cancel safety*: as that of `loading`.
    pub(super) async fn watched<R>(&self, host: &Host, name: &str, loading: impl Future<Output = R>) -> R {
        let _entered = self.enter(name);
        let mut loading = pin!(loading);
        let began = Instant::now();
        if let Ok(loaded) = tokio::time::timeout(TELL_AFTER, &mut loading).await {
            return loaded;
        }
        let goes_on = if host.controller(name).is_ok() { "what runs goes on" } else { "nothing runs" };
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

    /// Notes a name. Of one that is noted already, nothing changes when the second one leaves later: the keeper works on a name once.
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
