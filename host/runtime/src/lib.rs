//! Controllers, each with its own queue, workers and feeders, put together in a [`Host`].
//!
//! The journey of a key: a [feeder](feeders) adds it to the controller's queue. A worker claims it and calls
//! the guest in a fresh sandbox. [`settle`](settle::settle) turns the report into the queue's next step, and
//! the worker finishes the claim with it.
//!
//! The deciding parts are pure and take time and randomness as arguments: [`settle`], [`mapping`],
//! the rules of [`rollout`], the fair queue of the scheduler, and the comparison and replay state of a
//! [`shadow`]. The rest connects them to queues, tasks and the store.
//!
//! Deliberately absent: wasm (see the crate `component`), durability (see the crate `store`; after a restart
//! queues are filled again from the store), and reading files or the environment (the binary does both). An
//! embedder adds its own event sources by implementing [`Feeder`].

mod admission;
mod admission_chain;
mod amounts;
mod bands;
pub mod bounds;
mod built_in_groups;
mod certificate_subjects;
mod clock;
mod code;
mod conditions;
mod context;
mod controller;
pub mod controller_reconciler;
mod conversion;
mod costs;
mod created_controllers;
pub mod cron;
mod declarations;
mod default_classes;
mod definition;
mod definition_rules;
mod definitions;
mod dynamic_admission;
mod effect_stack;
mod error;
mod event_resources;
pub mod events;
mod failures;
mod far_garbage;
pub mod feeder_definition;
mod feeder_set;
pub mod feeder_sources;
mod feeder_tally;
pub mod feeders;
pub mod fields;
mod fleet;
mod follows;
mod garbage;
mod guest_queue;
mod host;
mod host_kinds;
mod initial_resources;
mod kind_graph;
pub mod kinds;
mod known_kinds;
mod limit_ranges;
mod line_budget;
mod listing;
pub mod logs;
pub mod manifest;
pub mod mapping;
pub mod message_keys;
mod namespace_content;
mod namespaces;
mod native_controller;
mod new_resource;
mod observations;
mod options;
mod planning;
mod pod_security;
mod priorities;
mod quantity;
mod quotas;
pub mod reasons;
mod remembered;
mod requester;
pub mod rollout;
mod runtime_classes;
mod scheduler;
mod secrets;
mod service_accounts;
mod service_addresses;
mod service_range;
mod settings;
pub mod settle;
mod settle_waiters;
mod sharded_sum;
mod shared_watches;
mod slot;
mod stats;
mod status;
mod store_monitor;
mod stores;
mod suspend;
mod topology;
mod webhook_connection;

pub use built_in_groups::BuiltInGroups;
pub use code::CodeSource;
pub use controller::{RemovalReport, RemovedCounts, STOP_HOOK_MAX, SwapReport};
pub use costs::{ControllerCosts, EffectSums, KeyUsage, Observer, RecentUsage, ReconcileRecord, Recorder, Usage};
pub use definition::{Definition, Overrides};
pub use error::Error;
pub use events::{EVENT_TTL, EventLog};
pub use feeder_tally::FeederStatus;
pub use feeders::{Feeder, FeederError, Intake, IntakeError};
pub use fleet::{
    FleetOptions, HostDescription, HostStatus, LEASE_LENGTH_MAX, LeaseClock, LeaseStatus, LoadMeasure, OtherHost,
    PlacementSpec, TimeOfDay, is_host_name,
};
pub use homeostat_workqueue::{Ages, Counters, Delay, KeyCounts, Priority};
pub use host::{Host, KeyVerb, Put, ShutdownReport};
pub use kind_graph::{ControllerKinds, KindGraph};
pub use kinds::{KindInfo, Kinds, ScalePaths, ScaleSource};
pub use logs::LogBook;
pub use namespaces::NamespacePolicy;
pub use options::{CONTROLLERS_MAX, Options, QUEUE_ERROR_BYTES_MAX, QUEUE_KEYS_MAX};
pub use requester::Requester;
pub use rollout::shadow;
pub use settings::Settings;
pub use sharded_sum::ShardedSum;
pub use stats::{ControllerMeasures, HostCapacity, Measures, RolloutResult, ShadowOutcome};
pub use status::{CodeStatus, ControllerState, ControllerStatus, QueueCounts, QueueEntry, SwapRecord, VersionInfo};
pub use stores::Stores;
pub use suspend::Suspend;
pub use topology::topology_labels;
