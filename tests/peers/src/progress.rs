//! Which resources have a status that is up to date, and how long it took.

use std::sync::Arc;
use std::time::{Duration, Instant};

use homeostat_store::Resource;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::keys;

/// The state of all resources, as a watch shows it.
pub(crate) struct Progress {
    state: Mutex<State>,
    reached: Notify,
}

struct State {
    /// When the status of each resource went out of date; `None` while it is up to date.
    outdated: Vec<Option<Instant>>,
    /// The number of resources whose status is out of date.
    count: usize,
    /// The number to wait for.
    target: usize,
    /// From each change until its status, in the order of the statuses.
    waits: Vec<Duration>,
}

impl Progress {
    /// Starts with `count` resources whose statuses are up to date.
    pub(crate) fn new(count: usize) -> Arc<Progress> {
        let state = State { outdated: vec![None; count], count: 0, target: usize::MAX, waits: Vec::new() };
        Arc::new(Progress { state: Mutex::new(state), reached: Notify::new() })
    }

    /// Records a resource as the watch delivers it. Others than the measured ones are ignored.
    pub(crate) fn note(&self, resource: &Resource) {
        let Some(number) = keys::number(resource.key().name()) else { return };
        let characters = resource.document()["spec"]["text"].as_str().map_or(0, |text| text.chars().count());
        let is_current = resource.status()["characters"] == characters;
        self.note_state(number, is_current);
    }

    fn note_state(&self, number: usize, is_current: bool) {
        let mut state = self.state.lock();
        let State { outdated, count, target, waits } = &mut *state;
        let Some(since) = outdated.get_mut(number) else { return };
        match (is_current, *since) {
            (true, Some(start)) => {
                waits.push(start.elapsed());
                *since = None;
                *count -= 1;
            }
            (false, None) => {
                *since = Some(Instant::now());
                *count += 1;
            }
            // A second change before the status, or a second status.
            _ => {}
        }
        if count == target {
            self.reached.notify_one();
        }
    }

    /// Waits until so many resources have a status that is out of date.
    pub(crate) async fn until(&self, outdated: usize) {
        loop {
            {
                let mut state = self.state.lock();
                if state.count == outdated {
                    return;
                }
                state.target = outdated;
            }
            self.reached.notified().await;
        }
    }

    /// Returns how long the statuses took since the last call.
    pub(crate) fn take_waits(&self) -> Vec<Duration> {
        std::mem::take(&mut self.state.lock().waits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_wait_lasts_from_the_change_to_the_status() {
        let progress = Progress::new(2);
        progress.until(0).await;
        for number in [0, 1, 1, 7] {
            progress.note_state(number, false);
        }
        progress.until(2).await;
        assert!(progress.take_waits().is_empty());
        let waiting = tokio::spawn({
            let progress = Arc::clone(&progress);
            async move { progress.until(0).await }
        });
        for number in [0, 1, 1] {
            progress.note_state(number, true);
        }
        waiting.await.unwrap();
        assert_eq!(progress.take_waits().len(), 2);
    }
}
