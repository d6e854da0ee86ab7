//! Controllers that run: each with its own queue, workers and feeders, put together in a [`Host`].
//!
//! The journey of a key, top to bottom: a [feeder](feeders) adds it to the controller's queue, a worker claims it and
//! calls the guest in a fresh sandbox, [`settle`](settle::settle) turns the report into what the queue does next, and the claim
//! is finished with that.
//!
//! Two things are pure and take all they need as arguments: [`settle`] and [`mapping`]. Everything else is a thin shell.
//!
//! Absent on purpose: wasm (the room `component` has it), durability (the room `store` has it; a queue is filled again from the
//! store after a restart), and any reading of files or of the environment (the binary does it). Whoever embeds the runtime
//! writes a [`Feeder`] in Rust.

pub mod bounds;
mod canary;
mod change;
mod code;
mod context;
mod controller;
mod costs;
mod declarations;
mod declared;
mod definition;
mod definitions;
mod error;
pub mod events;
mod failures;
pub mod feeders;
mod feeding;
pub mod fields;
mod follows;
mod host;
pub mod keeper;
pub mod kinds;
pub mod logs;
pub mod manifest;
pub mod mapping;
mod observations;
mod observer;
pub mod reasons;
pub mod rollout;
mod settings;
pub mod settle;
pub mod shadow;
mod sink;
mod slot;
mod spread;
mod stats;
mod status;
mod suspend;
mod trial;
mod turns;
mod worker;

pub use change::SwapReport;
pub use code::CodeSource;
pub use controller::STOP_HOOK_MAX;
pub use costs::{ControllerCosts, EffectSums, KeyUsage, RecentUsage, Usage};
pub use definition::{Definition, Overrides};
pub use error::Error;
pub use events::EventLog;
pub use feeders::{Feeder, FeederError, Intake, IntakeError};
pub use homeostat_workqueue::{Ages, Counters, KeyCounts, Priority};
pub use host::{
    CONTROLLERS_MAX, Host, KeyVerb, Options, Put, QUEUE_ERROR_BYTES_MAX, QUEUE_KEYS_MAX, RemovalReport, ShutdownReport,
};
pub use kinds::{KindInfo, Kinds, ScalePaths};
pub use logs::LogBook;
pub use observer::{Observer, ReconcileRecord, Recorder};
pub use settings::Settings;
pub use spread::ShardedSum;
pub use stats::{ControllerMeasures, HostCapacity, Measures, RolloutResult, ShadowOutcome};
pub use status::{ControllerState, ControllerStatus, QueueCounts, QueueEntry, SwapRecord, VersionInfo};
pub use suspend::Suspend;
