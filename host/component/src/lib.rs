//! Runs guests: compiles components, runs each call in a fresh sandbox, and turns every request of a guest
//! into data.
//!
//! This is the only crate that names wasmtime. The path of one call:
//!
//! ```text
//! Engine::load ─▶ Component ─▶ reconcile(key) ─▶ fresh instance ─▶ import ─▶ Effect ─▶ Effects::perform ─▶ Answer ─▶ guest
//!                                                                      (Granted ▶ … ▶ World)
//! ```
//!
//! * [`Engine`] compiles and checks components; a [`Component`] is a loaded one. The crate `runtime` decides
//!   which component a controller runs.
//! * An [`Effect`] is a request of a guest, an [`Answer`] the reply. [`Effects`] is the only way out of a
//!   sandbox: recording, replay, simulation and fault injection wrap this trait, and need nothing else from
//!   this crate.
//! * [`layers`] are implementations of [`Effects`]: [`layers::World`] does the work, [`layers::Granted`]
//!   checks grants.
//! * [`Limits`] bound one call, [`Grants`] list the capabilities of a controller. They are independent of
//!   each other.
//!
//! Deliberately absent: queues, retries, feeders, controllers, manifests, and every decision that follows a
//! call.

mod bindings;
mod cache;
mod call;
mod call_context;
mod catalog;
mod code;
mod compiler;
mod component;
mod contract;
mod effect;
mod engine;
mod epoch_clock;
mod error;
#[cfg(test)]
mod fixture;
mod grants;
mod imports;
mod instances;
mod interface_name;
pub mod layers;
mod limits;
mod link;
mod load;
mod load_error;
mod millis;
mod missing;
mod optimiser;
mod options;
mod outcome;
mod output;
mod result_serde;
mod spec;
mod tier;
mod tiered_code;
mod warm_instances;

pub use catalog::{Amount, FixedBound, fixed as fixed_bounds};
pub use compiler::{CompilationCounts, CompileTask, Compiler, CompilerExit};
pub use component::{Component, ComponentInfo, Exports};
pub use effect::{
    Answer, Blob, Call, Effect, EffectClass, Effects, EntryPoint, Exchange, HttpError, HttpRequest, HttpResponse,
    Level, PageData, QueuePriority, ResourceData, Severity, StoreError, WasiResource, WriteData,
};
pub use engine::Engine;
pub use error::Error;
pub use grants::{
    AccessRequest, AddressRange, CREATED_CONTROLLERS_MAX, Capability, ComponentPattern, ControllerGrant, Disclosure,
    Grants, HeaderSource, HttpGrant, HttpNeed, LearnedGrants, NEEDS_BYTES_MAX, Needs, NeedsSnapshot, ResourceGrant,
    ResourceNeed, Verb, is_secret_name, matches_glob,
};
pub use homeostat_digest::Digest;
pub use instances::CallSession;
pub use limits::{LimitName, Limits};
pub use load::AssignedKinds;
pub use load_error::{LoadError, Reason};
pub use options::{COMPILE_MEMORY_BYTES_BOUNDS, COMPILE_TIME_BOUNDS, EngineOptions, INSTANCES_BOUNDS};
pub use outcome::{CallReport, Cost, EffectCounts, Fault, Outcome, Retry};
pub use spec::{BackoffSpec, Changes, ControllerSpec, DuringDelay, KindDeclaration, Mapping, Role, Watch};
pub use tier::{Tier, TierPolicy};
pub use warm_instances::WarmInstances;
