//! The table of all metrics.

use std::sync::atomic::Ordering;

use homeostat_component::{Capability, CompilationCounts, EffectClass, LimitName};
use homeostat_runtime::settle::Label;
use homeostat_runtime::{
    ControllerState, Counters, FeederStatus, HostCapacity, Priority, RolloutResult, ShadowOutcome,
};
use homeostat_store::StoreStatus;

use super::reconcile_stats::{RESULTS, ReconcileStats};
use super::refusals::{FileKind, LimitKind};
use super::text::{TextEncoder, seconds};
use super::{ControllerSample, Scrape};

/// One metric, and the function that writes its samples.
pub(super) struct Family {
    /// Without the `_total` suffix of counters.
    pub(super) name: &'static str,
    pub(super) r#type: Type,
    /// One line, without backslashes and quotes.
    pub(super) help: &'static str,
    /// Writes every sample.
    pub(super) samples: fn(&Scrape, &mut TextEncoder),
}

/// The Prometheus type of a metric.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Type {
    /// Only increases.
    Counter,
    /// Increases and decreases.
    Gauge,
    /// Counts durations by upper bound.
    Histogram,
}

impl Type {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

const fn counter(name: &'static str, help: &'static str, samples: fn(&Scrape, &mut TextEncoder)) -> Family {
    Family { name, r#type: Type::Counter, help, samples }
}

const fn gauge(name: &'static str, help: &'static str, samples: fn(&Scrape, &mut TextEncoder)) -> Family {
    Family { name, r#type: Type::Gauge, help, samples }
}

const fn histogram(name: &'static str, help: &'static str, samples: fn(&Scrape, &mut TextEncoder)) -> Family {
    Family { name, r#type: Type::Histogram, help, samples }
}

/// All metrics, in the order in which they are written.
pub(super) const FAMILIES: [Family; 60] = [
    gauge("workqueue_depth", "Keys that are ready and wait for a worker, by priority band.", |scrape, text| {
        for one in &scrape.controllers {
            for band in Priority::ALL {
                let depth = one.measures.keys.ready_by_band[band.index()];
                text.sample(&[one.name("name"), one.name("controller"), ("priority", band.as_str())], depth);
            }
        }
    }),
    counter(
        "workqueue_adds",
        "Runs that were queued, by feeders or by results that request a requeue.",
        |scrape, text| queues(scrape, text, |one| one.adds()),
    ),
    histogram(
        "workqueue_queue_duration_seconds",
        "Time from when a key is due to its claim by a worker.",
        |scrape, text| each_tally(scrape, |one, tally| text.histogram(&one.queue(), &tally.queued)),
    ),
    histogram("workqueue_work_duration_seconds", "Time from the claim of a key to its end.", |scrape, text| {
        each_tally(scrape, |one, tally| text.histogram(&one.queue(), &tally.worked));
    }),
    gauge(
        "workqueue_unfinished_work_seconds",
        "Total running time of the keys that are running now.",
        |scrape, text| queues(scrape, text, |one| seconds(one.measures.ages.unfinished_work)),
    ),
    gauge("workqueue_longest_running_processor_seconds", "Running time of the longest-running key.", |scrape, text| {
        queues(scrape, text, |one| seconds(one.measures.ages.longest_running.unwrap_or_default()))
    }),
    counter("workqueue_retries", "Failed runs that are retried.", |scrape, text| {
        queues(scrape, text, |one| one.measures.counters.retries);
    }),
    counter("controller_runtime_reconcile", "Reconciles that ended, by result.", |scrape, text| {
        each_tally(scrape, |one, tally| {
            for label in RESULTS {
                let count = tally.results(|result| result == label);
                text.sample(&[one.name("controller"), ("result", label.as_str())], count);
            }
        });
    }),
    counter(
        "controller_runtime_reconcile_errors",
        "Reconciles that failed: with the results error, terminal_error and dropped.",
        |scrape, text| tallies(scrape, text, |tally| tally.results(Label::is_failure)),
    ),
    counter(
        "controller_runtime_terminal_reconcile_errors",
        "Reconciles that ended with a terminal error.",
        |scrape, text| {
            tallies(scrape, text, |tally| tally.results(|result| result == Label::TerminalError));
        },
    ),
    counter(
        "controller_runtime_reconcile_panics",
        "Reconciles in which the guest trapped, for example by a panic.",
        |scrape, text| tallies(scrape, text, |tally| tally.traps),
    ),
    counter("controller_runtime_reconcile_timeouts", "Reconciles that hit their deadline.", |scrape, text| {
        tallies(scrape, text, |tally| tally.hits(LimitName::Deadline));
    }),
    histogram(
        "controller_runtime_reconcile_time_seconds",
        "Duration of the guest's call, without the wait for a free instance.",
        |scrape, text| each_tally(scrape, |one, tally| text.histogram(&[one.name("controller")], &tally.reconciled)),
    ),
    gauge("controller_runtime_max_concurrent_reconciles", "Reconciles that may run at once.", |scrape, text| {
        controllers(scrape, text, |one| one.measures.status.concurrency);
    }),
    gauge("controller_runtime_active_workers", "Workers that hold a key.", |scrape, text| {
        controllers(scrape, text, |one| one.measures.keys.running);
    }),
    gauge("homeostat_waiting_keys", "Keys that are due later.", |scrape, text| {
        controllers(scrape, text, |one| one.measures.keys.waiting);
    }),
    gauge("homeostat_parked_keys", "Keys that are parked until something changes.", |scrape, text| {
        controllers(scrape, text, |one| one.measures.keys.parked);
    }),
    gauge(
        "homeostat_oldest_ready_seconds",
        "How long the oldest ready key has waited, over all bands.",
        |scrape, text| controllers(scrape, text, |one| seconds(one.measures.ages.oldest_ready.unwrap_or_default())),
    ),
    counter("homeostat_merged_adds", "Adds that merged into a queued run of the same key.", |scrape, text| {
        controllers(scrape, text, |one| one.measures.counters.merges);
    }),
    counter("homeostat_refused_keys", "Adds of keys that were refused at the limit keys.", |scrape, text| {
        controllers(scrape, text, |one| one.measures.counters.refused)
    }),
    counter("homeostat_feeder_keys", "Keys that a feeder of a manifest added.", |scrape, text| {
        feeders(scrape, text, |feeder| feeder.keys);
    }),
    counter(
        "homeostat_feeder_refusals",
        "Refusals of a feeder of a manifest: keys at a full queue, rejected keys and messages, denied requests.",
        |scrape, text| {
            each_feeder(scrape, |labels, feeder| {
                for (reason, count) in [("full", feeder.full), ("rejected", feeder.rejected), ("denied", feeder.denied)]
                {
                    text.sample(&[&labels[..], &[("reason", reason)]].concat(), count);
                }
            });
        },
    ),
    counter("homeostat_feeder_failures", "Failures of a feeder of a manifest.", |scrape, text| {
        feeders(scrape, text, |feeder| feeder.failures);
    }),
    counter(
        "homeostat_feeder_lost_messages",
        "Messages of a plain subject that a feeder of a manifest dropped, as too many others waited.",
        |scrape, text| feeders(scrape, text, |feeder| feeder.lost),
    ),
    gauge("homeostat_feeder_inbox_keys", "Keys that the inbox of a webhook has stored.", |scrape, text| {
        feeders(scrape, text, |feeder| feeder.inbox);
    }),
    counter("homeostat_feeder_missed_runs", "Runs of a schedule that its feeder missed.", |scrape, text| {
        feeders(scrape, text, |feeder| feeder.missed);
    }),
    gauge(
        "homeostat_feeder_last_run_timestamp_seconds",
        "When a feeder of a manifest last began to add keys, as Unix time; 0 before its first run.",
        |scrape, text| {
            let unix = |time: &String| time.parse::<jiff::Timestamp>().map_or(0, jiff::Timestamp::as_second);
            feeders(scrape, text, |feeder| feeder.last_run.as_ref().map_or(0, unix));
        },
    ),
    gauge("homeostat_error_bytes", "Bytes of the errors that are kept for keys.", |scrape, text| {
        controllers(scrape, text, |one| one.measures.keys.error_bytes);
    }),
    counter(
        "homeostat_errors_left_out",
        "Errors of keys whose text was dropped at the limit error-bytes.",
        |scrape, text| controllers(scrape, text, |one| one.measures.counters.errors_left_out),
    ),
    gauge(
        "homeostat_room_used",
        "Use of the limits that all controllers share: keys, error-bytes and controllers.",
        |scrape, text| {
            let HostCapacity { keys, error_bytes, controllers, .. } = scrape.room;
            ROOMS
                .into_iter()
                .zip([keys, error_bytes, controllers])
                .for_each(|(room, used)| text.sample(&[("room", room)], used));
        },
    ),
    gauge(
        "homeostat_room",
        "The limits that all controllers share: keys, error-bytes and controllers.",
        |scrape, text| {
            let HostCapacity { keys_max, error_bytes_max, controllers_max, .. } = scrape.room;
            ROOMS
                .into_iter()
                .zip([keys_max, error_bytes_max, controllers_max])
                .for_each(|(room, most)| text.sample(&[("room", room)], most));
        },
    ),
    counter("homeostat_limit_hits", "Reconciles that were stopped at a limit, by limit.", |scrape, text| {
        each_tally(scrape, |one, tally| {
            for limit in LimitName::ALL.into_iter().filter(|limit| limit.stops_calls()) {
                text.sample(&[one.name("controller"), ("limit", limit.as_str())], tally.hits(limit));
            }
        });
    }),
    counter("homeostat_guest_cpu_seconds", "Time in which reconciles occupied a thread.", |scrape, text| {
        controllers(scrape, text, |one| seconds(one.measures.spent.cpu));
    }),
    counter("homeostat_guest_effects", "Effects of reconciles by class, log lines included.", |scrape, text| {
        for one in &scrape.controllers {
            for class in EffectClass::ALL {
                let count = one.measures.spent.effects.of(class);
                text.sample(&[one.name("controller"), ("effect", class.as_str())], count);
            }
        }
    }),
    counter(
        "homeostat_guest_effect_bytes",
        "Bytes that effects carried out of sandboxes, and answers into them.",
        |scrape, text| {
            for one in &scrape.controllers {
                for (direction, bytes) in [("out", one.measures.spent.bytes_out), ("in", one.measures.spent.bytes_in)] {
                    text.sample(&[one.name("controller"), ("direction", direction)], bytes);
                }
            }
        },
    ),
    counter(
        "homeostat_denials",
        "Effects that were denied because no grant allows them, by verb; http for requests.",
        |scrape, text| {
            for one in &scrape.controllers {
                for (capability, count) in Capability::ALL.iter().zip(one.measures.denials) {
                    text.sample(&[one.name("controller"), ("capability", capability.as_str())], count);
                }
            }
        },
    ),
    gauge(
        "homeostat_guest_memory_max_bytes",
        "Peak linear memory of one reconcile since the controller was added.",
        |scrape, text| controllers(scrape, text, |one| one.measures.spent.memory_bytes_max),
    ),
    counter(
        "homeostat_guest_memory_grown_pages",
        "Pages of 64 KiB by which guests grew their memories. Each growth costs calls of the system.",
        |scrape, text| controllers(scrape, text, |one| one.measures.spent.pages_grown),
    ),
    counter("homeostat_swaps", "Component swaps by result.", |scrape, text| {
        for one in &scrape.controllers {
            for (result, count) in [("swapped", one.measures.swaps), ("refused", one.measures.refusals)] {
                text.sample(&[one.name("controller"), ("result", result)], count);
            }
        }
    }),
    counter("homeostat_rollouts", "Rollouts that ended, by result.", |scrape, text| {
        for one in &scrape.controllers {
            for (end, count) in RolloutResult::ALL.into_iter().zip(one.measures.rollouts) {
                text.sample(&[one.name("controller"), ("result", end.as_str())], count);
            }
        }
    }),
    counter(
        "homeostat_shadow_reconciles",
        "Reconciles with a shadow version, by the result of the comparison.",
        |scrape, text| {
            for one in &scrape.controllers {
                for (what, count) in ShadowOutcome::ALL.into_iter().zip(one.measures.shadowed) {
                    text.sample(&[one.name("controller"), ("result", what.as_str())], count);
                }
            }
        },
    ),
    gauge("homeostat_rollout_share", "Share of the keys that the canary has, from 0 to 1.", |scrape, text| {
        controllers(scrape, text, |one| one.measures.candidate_share)
    }),
    gauge("homeostat_controller_generation", "Number of components that the controller has had.", |scrape, text| {
        controllers(scrape, text, |one| one.measures.status.generation);
    }),
    gauge(
        "homeostat_controller_info",
        "Always 1; the labels name the current component and the managed kind.",
        |scrape, text| {
            for one in &scrape.controllers {
                let status = &one.measures.status;
                let (digest, group, kind) = (&status.digest, &status.manages.group, &status.manages.name);
                text.sample(&[one.name("controller"), ("digest", digest), ("group", group), ("kind", kind)], 1);
            }
        },
    ),
    gauge("homeostat_controllers", "Controllers by state.", |scrape, text| {
        for (state, word) in STATES {
            let there = scrape.controllers.iter().filter(|one| one.measures.status.state == state).count();
            text.sample(&[("state", word)], there);
        }
    }),
    gauge("homeostat_instances_running", "Guest instances that are running, of all controllers.", |scrape, text| {
        text.sample(&[], scrape.instances_running);
    }),
    gauge("homeostat_instances_free", "Guest instances that could start without waiting.", |scrape, text| {
        text.sample(&[], scrape.instances_free);
    }),
    counter(
        "homeostat_compilations",
        "Compilations of components by result; a limit that was hit is a result with its name.",
        |scrape, text| {
            let CompilationCounts { good, malformed, time, memory, failed } = scrape.compiled;
            let limits = [(LimitName::CompileTime.as_str(), time), (LimitName::CompileMemory.as_str(), memory)];
            for (result, count) in
                [("good", good), ("malformed", malformed), ("failed", failed)].into_iter().chain(limits)
            {
                text.sample(&[("result", result)], count);
            }
        },
    ),
    gauge(
        "homeostat_components_baseline",
        "Components that run baseline code, which is slower, until their optimised code is compiled.",
        |scrape, text| text.sample(&[], scrape.baseline),
    ),
    counter("homeostat_events", "Recorded events, repeated ones included.", |scrape, text| {
        text.sample(&[], scrape.events);
    }),
    counter(
        "homeostat_api_refusals",
        "Requests and connections that the API refused, by the limit that was reached.",
        |scrape, text| {
            for limit in LimitKind::ALL {
                let count = scrape.refusals.limit(limit).load(Ordering::Relaxed);
                text.sample(&[("room", limit.as_str())], count);
            }
        },
    ),
    counter(
        "homeostat_api_unusable_files",
        "Changed files that could not be used, so that the last good version stays in use.",
        |scrape, text| {
            for file in FileKind::ALL {
                let count = scrape.refusals.file(file).load(Ordering::Relaxed);
                text.sample(&[("file", file.as_str())], count);
            }
        },
    ),
    gauge(
        "homeostat_tls_certificate_expiry_timestamp_seconds",
        "When the served certificate expires, as Unix time.",
        |scrape, text| {
            if let Some(until) = scrape.certificate_until {
                text.sample(&[], until.as_second());
            }
        },
    ),
    gauge(
        "leader_election_master_status",
        "Whether this host holds the lease: 1 or 0. The name is that of the controller, or of its shard.",
        |scrape, text| {
            for one in &scrape.controllers {
                let (name, leases) = (&one.measures.status.name, &one.measures.status.leases);
                for lease in leases {
                    // As the name of a lease is shown elsewhere.
                    let of_shard = format!("{name}/{}-of-{}", lease.shard, leases.len());
                    let shown = if leases.len() == 1 { name } else { &*of_shard };
                    text.sample(&[("name", shown)], u64::from(lease.is_held));
                }
            }
        },
    ),
    gauge("homeostat_store_revision", "The current revision of the store.", |scrape, text| {
        stores(scrape, text, |store| store.revision.map(|revision| revision.0));
    }),
    gauge("homeostat_store_up", "Whether the store can be used: 1 or 0.", |scrape, text| {
        stores(scrape, text, |store| Some(u64::from(store.health().is_ok())));
    }),
    gauge("homeostat_store_cache_bytes", "Memory of the caches of a store that is far away.", |scrape, text| {
        stores(scrape, text, |store| store.cache_bytes_max.map(|_| store.caches.iter().map(|cache| cache.bytes).sum()));
    }),
    gauge("homeostat_store_cache_max_bytes", "Most memory that these caches may use together.", |scrape, text| {
        stores(scrape, text, |store| store.cache_bytes_max);
    }),
    gauge("homeostat_build_info", "Always 1; the label is the release.", |_, text| {
        text.sample(&[("version", env!("CARGO_PKG_VERSION"))], 1);
    }),
    gauge(
        "process_resident_memory_bytes",
        "Resident memory of the process, if the system reports it.",
        |scrape, text| {
            if let Some(bytes) = scrape.resident_bytes {
                text.sample(&[], bytes);
            }
        },
    ),
];

/// The limits that all controllers share.
const ROOMS: [&str; 3] = [LimitName::Keys.as_str(), LimitName::ErrorBytes.as_str(), "controllers"];

const STATES: [(ControllerState, &str); 6] = [
    (ControllerState::Starting, "starting"),
    (ControllerState::Syncing, "syncing"),
    (ControllerState::Ready, "ready"),
    (ControllerState::Suspended, "suspended"),
    (ControllerState::Standby, "standby"),
    (ControllerState::Stopping, "stopping"),
];

/// Writes a number of every store that has it. A host with one store has no label.
fn stores(scrape: &Scrape, text: &mut TextEncoder, number: fn(&StoreStatus) -> Option<u64>) {
    for store in &scrape.stores {
        let name = (!store.name.is_empty()).then_some(("store", &*store.name));
        if let Some(number) = number(store) {
            text.sample(name.as_slice(), number);
        }
    }
}

/// Writes one sample for each feeder that a manifest declares.
fn feeders<N: std::fmt::Display>(scrape: &Scrape, text: &mut TextEncoder, value: impl Fn(&FeederStatus) -> N) {
    each_feeder(scrape, |labels, feeder| text.sample(&labels, value(feeder)));
}

fn each_feeder(scrape: &Scrape, mut each: impl FnMut([(&str, &str); 3], &FeederStatus)) {
    for one in &scrape.controllers {
        for feeder in &one.measures.status.feeders {
            each([one.name("controller"), ("feeder", &feeder.name), ("source", feeder.source)], feeder);
        }
    }
}

/// Writes one sample for each controller, with the labels of its queue.
fn queues<N: std::fmt::Display>(scrape: &Scrape, text: &mut TextEncoder, value: impl Fn(&ControllerSample) -> N) {
    scrape.controllers.iter().for_each(|one| text.sample(&one.queue(), value(one)));
}

/// Writes one sample for each controller.
fn controllers<N: std::fmt::Display>(scrape: &Scrape, text: &mut TextEncoder, value: impl Fn(&ControllerSample) -> N) {
    scrape.controllers.iter().for_each(|one| text.sample(&[one.name("controller")], value(one)));
}

/// Writes one sample for each controller, from its reconcile statistics.
fn tallies<N: std::fmt::Display>(scrape: &Scrape, text: &mut TextEncoder, value: impl Fn(&ReconcileStats) -> N) {
    each_tally(scrape, |one, tally| text.sample(&[one.name("controller")], value(tally)));
}

fn each_tally(scrape: &Scrape, mut each: impl FnMut(&ControllerSample, &ReconcileStats)) {
    for one in &scrape.controllers {
        if let Some(tally) = &one.tally {
            each(one, tally);
        }
    }
}

impl ControllerSample {
    /// Returns the controller's name as the label `label`.
    fn name(&self, label: &'static str) -> (&'static str, &str) {
        (label, &self.measures.status.name)
    }

    /// Returns the labels of every metric about its queue.
    fn queue(&self) -> [(&'static str, &str); 2] {
        [self.name("name"), self.name("controller")]
    }

    /// Returns how many runs were queued. As in Kubernetes, a result that requests a requeue counts, and an
    /// add that merges into a queued run does not.
    fn adds(&self) -> u64 {
        let Counters { adds, requeues, .. } = self.measures.counters;
        adds + requeues
    }
}
