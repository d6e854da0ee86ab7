//! Costs of a controller's reconciles: sums, the last minute, and the most expensive keys; and the observers
//! that hear of each finished reconcile. Pure except for its locks.

use std::sync::Arc;
use std::time::Duration;

use homeostat_component::{Cost, EffectClass, Fault, Outcome};
use homeostat_store::Key;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use crate::ShardedSum;
use crate::settle::Label;
use crate::sharded_sum::SHARDS;

mod minute;
pub(crate) mod top_keys;

use minute::Minute;
use top_keys::{MergedTopKeys, TopKeys};

/// Maximum bytes of the costs of one controller: its most expensive keys, with the longest names, by thread.
pub(crate) const BYTES_MAX: u64 = SHARDS as u64 * top_keys::KEYS_MAX as u64 * top_keys::KEY_BYTES;

/// The costs of one controller. Takes a few hundred bytes, and for each thread that reconciles up to 64 keys
/// with their sums: 20 KiB with keys of ordinary length, [`BYTES_MAX`] at most.
#[derive(Debug, Default)]
pub(crate) struct Costs(ShardedSum<Inner>);

#[derive(Debug, Default)]
struct Inner {
    spent: Usage,
    minute: Minute,
    dearest: TopKeys,
}

/// Resources that some reconciles used together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    /// Number of reconciles.
    pub runs: u64,
    /// Number of failed reconciles.
    pub failures: u64,
    /// Processor time: the time for which they held a thread.
    #[serde(rename = "cpuUs", serialize_with = "micros")]
    pub cpu: Duration,
    /// The largest processor time of a single reconcile.
    #[serde(rename = "cpuUsMax", serialize_with = "micros")]
    pub cpu_max: Duration,
    /// The largest linear memory of a single reconcile.
    pub memory_bytes_max: u64,
    /// Pages of 64 KiB by which the guests grew their memories.
    pub pages_grown: u64,
    /// Effects by class.
    pub effects: EffectSums,
    /// Bytes that left the sandboxes in effects.
    pub bytes_out: u64,
    /// Bytes that entered the sandboxes in answers.
    pub bytes_in: u64,
}

/// Counts of effects by class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EffectSums([u64; EffectClass::ALL.len()]);

/// One key with the resources that its reconciles used.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct KeyUsage {
    /// The key.
    pub key: Key,
    /// Usage since the key entered the table of the most expensive keys.
    pub spent: Usage,
    /// Whether the key may have used more before it entered the table.
    pub at_least: bool,
}

/// Usage of about the last minute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RecentUsage {
    /// Length of the window: 55 s to a minute, or the age of the controller if that is less.
    pub seconds: f64,
    /// Finished reconciles.
    pub runs: u64,
    /// Failed reconciles.
    pub failures: u64,
    /// Processor time: the time for which they held a thread.
    #[serde(rename = "cpuUs", serialize_with = "micros")]
    pub cpu: Duration,
}

/// The costs of one controller, as plain data.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ControllerCosts {
    /// Its name.
    pub controller: String,
    /// Since it was added.
    pub spent: Usage,
    /// In about the last minute.
    pub lately: RecentUsage,
    /// The most expensive keys since the controller was added, at most 64, unordered. Contains every key with
    /// more than a 64th of the total cost. Empty if keys were not requested.
    pub keys: Vec<KeyUsage>,
}

impl Costs {
    /// Records one reconcile that ended `elapsed` after the controller's start.
    pub(crate) fn note(&self, key: &Key, cost: &Cost, failed: bool, elapsed: Duration) {
        let Inner { spent, minute, dearest } = &mut *self.0.local();
        spent.add(cost, failed);
        minute.note(elapsed, cost.cpu, failed);
        dearest.note(key, cost, failed);
    }

    /// Returns the sums alone.
    pub(crate) fn spent(&self) -> Usage {
        let mut spent = Usage::default();
        self.0.shards().for_each(|part| spent.merge(&part.spent));
        spent
    }

    /// Returns all costs, `elapsed` after the controller's start.
    pub(crate) fn account(&self, controller: &str, elapsed: Duration, with_keys: bool) -> ControllerCosts {
        let (mut spent, mut minute, mut together) = (Usage::default(), Minute::default(), MergedTopKeys::default());
        for part in self.0.shards() {
            spent.merge(&part.spent);
            minute.merge(&part.minute);
            if with_keys {
                together.take(&part.dearest);
            }
        }
        ControllerCosts {
            controller: controller.to_owned(),
            spent,
            lately: minute.lately(elapsed),
            keys: together.keys(),
        }
    }
}

impl Usage {
    fn add(&mut self, cost: &Cost, failed: bool) {
        let Cost { cpu, wall: _, memory_bytes_max, pages_grown, effects, bytes_out, bytes_in } = cost;
        self.runs += 1;
        self.failures += u64::from(failed);
        self.cpu = self.cpu.saturating_add(*cpu);
        self.cpu_max = self.cpu_max.max(*cpu);
        self.memory_bytes_max = self.memory_bytes_max.max(*memory_bytes_max);
        self.pages_grown = self.pages_grown.saturating_add(*pages_grown);
        for (sum, class) in self.effects.0.iter_mut().zip(EffectClass::ALL) {
            *sum += u64::from(effects.of(class));
        }
        self.bytes_out = self.bytes_out.saturating_add(*bytes_out);
        self.bytes_in = self.bytes_in.saturating_add(*bytes_in);
    }

    /// Adds the usage of others.
    fn merge(&mut self, other: &Self) {
        let Self { runs, failures, cpu, cpu_max, memory_bytes_max, pages_grown, effects, bytes_out, bytes_in } = other;
        self.runs += runs;
        self.failures += failures;
        self.cpu = self.cpu.saturating_add(*cpu);
        self.cpu_max = self.cpu_max.max(*cpu_max);
        self.memory_bytes_max = self.memory_bytes_max.max(*memory_bytes_max);
        self.pages_grown = self.pages_grown.saturating_add(*pages_grown);
        self.effects.0.iter_mut().zip(effects.0).for_each(|(sum, more)| *sum += more);
        self.bytes_out = self.bytes_out.saturating_add(*bytes_out);
        self.bytes_in = self.bytes_in.saturating_add(*bytes_in);
    }
}

impl EffectSums {
    /// Returns the count of one class.
    pub fn of(self, class: EffectClass) -> u64 {
        self.0[class as usize]
    }
}

impl Serialize for EffectSums {
    /// Serialises a map by class name, without classes that were not used.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for class in EffectClass::ALL.into_iter().filter(|class| self.of(*class) > 0) {
            map.serialize_entry(class.as_str(), &self.of(class))?;
        }
        map.end()
    }
}

fn micros<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX))
}

/// Called for every controller that starts: the seam for metrics, traces and measurements.
pub trait Observer: Send + Sync + 'static {
    /// Returns the recorder of this controller's reconciles. It is dropped when the last of them has ended.
    ///
    /// A name can be reused after its controller was removed; reconciles of the earlier controller still go
    /// to its own recorder. The host's list of controllers is locked during the call: an implementation must
    /// neither block nor call the host.
    fn controller(&self, name: &Arc<str>) -> Arc<dyn Recorder>;
}

/// Called for every finished reconcile of one controller, on the worker that ran it. Must not block.
pub trait Recorder: Send + Sync + 'static {
    /// Records one reconcile.
    fn record(&self, reconciled: &ReconcileRecord<'_>);
}

/// One finished reconcile.
#[derive(Clone, Copy, Debug)]
pub struct ReconcileRecord<'a> {
    /// The key.
    pub key: &'a Key,
    /// Time from the key's due time to the claim.
    pub queued_for: Duration,
    /// Time from the claim to the end, without waiting for the first lists. [`Cost::wall`] is the time of the
    /// guest call alone.
    pub worked_for: Duration,
    /// The result of the guest.
    pub result: &'a Result<Outcome, Fault>,
    /// The result as one word.
    pub label: Label,
    /// The resources that it used.
    pub cost: Cost,
}

/// An observer that does nothing.
pub(crate) struct NoopObserver;

impl Observer for NoopObserver {
    fn controller(&self, _: &Arc<str>) -> Arc<dyn Recorder> {
        Arc::new(Self)
    }
}

impl Recorder for NoopObserver {
    fn record(&self, _: &ReconcileRecord<'_>) {}
}

#[cfg(test)]
mod tests;
