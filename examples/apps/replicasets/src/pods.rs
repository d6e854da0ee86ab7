//! The pods of a ReplicaSet: counting, choosing pods to delete, and naming.

use std::collections::BTreeSet;

use homeostat_sdk::prelude::*;

use crate::api::{Pod, ReplicaSet, ReplicaSetStatus};

/// Letters and digits that cannot form words.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
/// The maximum length of names, so that they are also valid label values.
const NAME_BYTES_MAX: usize = 63;

/// The pods of one ReplicaSet.
#[derive(Debug)]
pub(crate) struct Pods {
    /// The pods that count as replicas.
    pub(crate) active: Vec<Resource<Pod>>,
    /// The number of pods being deleted.
    pub(crate) terminating: u32,
    /// All existing names.
    names: BTreeSet<String>,
}

impl Pods {
    /// Sorts `all`, the pods owned by the ReplicaSet.
    pub(crate) fn new(all: Vec<Resource<Pod>>) -> Self {
        let names = all.iter().map(|pod| pod.metadata.name.clone()).collect();
        let (going, staying): (Vec<_>, Vec<_>) = all.into_iter().partition(Resource::is_deleting);
        let active = staying.into_iter().filter(|pod| !is_finished(pod)).collect();
        Self { active, terminating: u32::try_from(going.len()).unwrap_or(u32::MAX), names }
    }

    /// Returns unused names for new pods. The same pods and the same ReplicaSet give the same names.
    pub(crate) fn free_names(&self, of: &Metadata) -> impl Iterator<Item = String> {
        (0_u64..).map(|number| pod_name(of, number)).filter(|name| !self.names.contains(name))
    }

    /// Removes the `count` least valuable pods from the active ones.
    pub(crate) fn take_least(&mut self, count: usize) -> Vec<Resource<Pod>> {
        // Unready pods first, then younger ones before older ones.
        self.active.sort_by_cached_key(|pod| {
            let ready_since = ready_since(pod);
            let age = (pod.metadata.creation_timestamp, pod.metadata.name.clone());
            (ready_since.is_some(), std::cmp::Reverse((ready_since, age)))
        });
        let rest = self.active.split_off(count.min(self.active.len()));
        self.terminating += u32::try_from(count).unwrap_or(u32::MAX);
        std::mem::replace(&mut self.active, rest)
    }

    /// Returns the counts, and the time until the next pod becomes available.
    pub(crate) fn status(&self, set: &Resource<ReplicaSet>, now: Time) -> (ReplicaSetStatus, Option<Duration>) {
        let mut status = ReplicaSetStatus {
            observed_generation: set.metadata.generation,
            terminating_replicas: self.terminating,
            ..ReplicaSetStatus::default()
        };
        let min_ready = Duration::from_secs(set.spec.min_ready_seconds.into());
        let mut again = None;
        for pod in &self.active {
            status.replicas += 1;
            let wanted = &set.spec.template.metadata.labels;
            let labelled = wanted.iter().all(|(name, value)| pod.metadata.labels.get(name) == Some(value));
            status.fully_labeled_replicas += u32::from(labelled);
            let Some(since) = ready_since(pod) else { continue };
            status.ready_replicas += 1;
            let missing = min_ready.saturating_sub(now.since(since));
            if missing.is_zero() {
                status.available_replicas += 1;
            } else {
                again = Some(again.map_or(missing, |soonest: Duration| soonest.min(missing)));
            }
        }
        (status, again)
    }
}

/// Returns the time since when the pod is ready; `None` if it is not.
fn ready_since(pod: &Resource<Pod>) -> Option<Time> {
    let conditions = &pod.status.as_ref()?.conditions;
    let ready = conditions.get("Ready").filter(|_| conditions.is_true("Ready"))?;
    ready.last_transition_time.or(pod.metadata.creation_timestamp)
}

fn is_finished(pod: &Resource<Pod>) -> bool {
    pod.status.as_ref().is_some_and(|status| matches!(status.phase.as_str(), "Failed" | "Succeeded"))
}

/// Returns the name of the pod with this number: the ReplicaSet's name and five letters derived from its uid
/// and the number.
fn pod_name(of: &Metadata, number: u64) -> String {
    // FNV-1a, then a multiplication that spreads its low bits (Fibonacci hashing).
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in of.uid.bytes().chain(number.to_le_bytes()) {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    let mut rest = hash.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    let mut name = of.name.clone();
    name.truncate(NAME_BYTES_MAX - 6);
    name.push('-');
    for _ in 0..5 {
        name.push(char::from(ALPHABET[(rest % 27) as usize]));
        rest /= 27;
    }
    name
}

#[cfg(test)]
mod tests;
