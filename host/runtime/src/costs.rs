//! What the reconciles of a controller cost: sums, the last minute, and the dearest keys. Pure but for its locks.

use std::time::Duration;

use homeostat_component::{Cost, EffectClass};
use homeostat_store::Key;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use crate::ShardedSum;
use crate::controller::Controller;

pub(crate) mod dearest;
mod minute;

use dearest::{MergedTopKeys, TopKeys};
use minute::Minute;

/// The account of one controller. Holds a few hundred bytes, and up to 64 keys with their sums once it has reconciled: 20 KiB at most,
/// with keys of ordinary length, for each thread that did.
#[derive(Debug, Default)]
pub(crate) struct Costs(ShardedSum<Inner>);

#[derive(Debug, Default)]
struct Inner {
    spent: Usage,
    minute: Minute,
    dearest: TopKeys,
}

/// What some reconciles used together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    /// How many they were.
    pub runs: u64,
    /// How many of them failed.
    pub failures: u64,
    /// Time for which they held a thread.
    #[serde(rename = "cpuUs", serialize_with = "micros")]
    pub cpu: Duration,
    /// The most that one of them did.
    #[serde(rename = "cpuUsMax", serialize_with = "micros")]
    pub cpu_max: Duration,
    /// The most linear memory that one of them had.
    pub memory_bytes_max: u64,
    /// Effects by class.
    pub effects: EffectSums,
    /// Bytes that effects carried out of the sandboxes.
    pub bytes_out: u64,
    /// Bytes that answers carried into them.
    pub bytes_in: u64,
}

/// Numbers of effects by class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EffectSums([u64; EffectClass::ALL.len()]);

/// One key, and what its reconciles used.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct KeyUsage {
    /// Which.
    pub key: Key,
    /// What it used for as long as it has been among the dearest.
    pub spent: Usage,
    /// It may have used more before, when it was not among the dearest.
    pub at_least: bool,
}

/// What was used lately.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RecentUsage {
    /// Over how long: 55 s to a minute, or as long as the controller has been there.
    pub seconds: f64,
    /// Reconciles that ended.
    pub runs: u64,
    /// How many of them failed.
    pub failures: u64,
    /// Time for which they held a thread.
    #[serde(rename = "cpuUs", serialize_with = "micros")]
    pub cpu: Duration,
}

/// The account of one controller, as plain data.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ControllerCosts {
    /// Its name.
    pub controller: String,
    /// Since it was added.
    pub spent: Usage,
    /// In the last minute.
    pub lately: RecentUsage,
    /// The keys that were dearest since it was added, 64 at most, in no order. Every key that cost more than a 64th of the whole is among
    /// them. Empty where nobody asked for keys.
    pub keys: Vec<KeyUsage>,
}

impl Costs {
    /// Takes note of one reconcile that ended `elapsed` after the controller's start.
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

    /// Returns everything, `elapsed` after the controller's start.
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

impl Controller {
    /// Returns its account as it is now.
    pub(crate) fn account(&self, with_keys: bool) -> ControllerCosts {
        self.costs.account(&self.name, self.began.elapsed(), with_keys)
    }
}

impl Usage {
    fn add(&mut self, cost: &Cost, failed: bool) {
        let Cost { cpu, wall: _, memory_bytes_max, effects, bytes_out, bytes_in } = cost;
        self.runs += 1;
        self.failures += u64::from(failed);
        self.cpu = self.cpu.saturating_add(*cpu);
        self.cpu_max = self.cpu_max.max(*cpu);
        self.memory_bytes_max = self.memory_bytes_max.max(*memory_bytes_max);
        for (sum, class) in self.effects.0.iter_mut().zip(EffectClass::ALL) {
            *sum += u64::from(effects.of(class));
        }
        self.bytes_out = self.bytes_out.saturating_add(*bytes_out);
        self.bytes_in = self.bytes_in.saturating_add(*bytes_in);
    }

    /// Adds what others used.
    fn merge(&mut self, other: &Self) {
        let Self { runs, failures, cpu, cpu_max, memory_bytes_max, effects, bytes_out, bytes_in } = other;
        self.runs += runs;
        self.failures += failures;
        self.cpu = self.cpu.saturating_add(*cpu);
        self.cpu_max = self.cpu_max.max(*cpu_max);
        self.memory_bytes_max = self.memory_bytes_max.max(*memory_bytes_max);
        self.effects.0.iter_mut().zip(effects.0).for_each(|(sum, more)| *sum += more);
        self.bytes_out = self.bytes_out.saturating_add(*bytes_out);
        self.bytes_in = self.bytes_in.saturating_add(*bytes_in);
    }
}

impl EffectSums {
    /// Returns how many there were of one class.
    pub fn of(self, class: EffectClass) -> u64 {
        self.0[class as usize]
    }
}

impl Serialize for EffectSums {
    /// Writes a map by the names of the classes, without those that were not used.
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
