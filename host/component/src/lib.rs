//! Runs guests: compiles components, gives each call a fresh sandbox, and turns everything a guest asks for into data.
//!
//! This is the only room that names wasmtime. The way of one call:
//!
//! ```text
//! Engine::load ─▶ Component ─▶ reconcile(key) ─▶ fresh instance ─▶ import ─▶ Effect ─▶ Effects::perform ─▶ Answer ─▶ guest
//!                                                                      (Granted ▶ … ▶ World)
//! ```
//!
//! * [`Engine`] compiles and checks components; [`Component`] is one of them. Which one runs is the business of the room `runtime`.
//! * [`Effect`] and [`Answer`] are every word that goes in or out of a sandbox. [`Effects`] is the one way out: whoever
//!   records, replays, simulates or injects faults wraps it, and needs nothing else from this room.
//! * [`layers`] are implementations of [`Effects`]: [`layers::World`] does the work, [`layers::Granted`] checks grants.
//! * [`Limits`] bound one call, [`Grants`] say what a controller may do. Neither knows of the other.
//!
//! Deliberately absent: queues, retries, feeders, controllers, manifests, and every decision about what happens after a call.

mod bindings;
mod cache;
mod call;
mod caller;
mod catalog;
mod code;
mod compiler;
mod component;
mod contract;
mod effect;
mod engine;
mod error;
#[cfg(test)]
mod fixture;
mod grants;
mod imports;
mod instances;
pub mod layers;
mod limits;
mod link;
mod load;
mod loaded;
mod machine;
mod meter;
mod millis;
mod missing;
mod names;
mod options;
mod outcome;
mod output;
mod port;
mod refused;
mod reply;
mod spec;
mod state;
mod ticker;

pub use caller::Caller;
pub use catalog::{Amount, FixedBound, fixed as fixed_bounds};
pub use compiler::{Compiled, Compiler, Ended, Task};
pub use component::Component;
pub use effect::{
    Absent, Answer, Blob, Call, Effect, EffectClass, Effects, Entry, Exchange, HttpError, HttpRequest, HttpResponse,
    Level, PageData, ResourceData, Severity, StoreError, Written,
};
pub use engine::Engine;
pub use error::Error;
pub use grants::{
    AddressRange, Capability, Grants, HeaderSource, HttpGrant, HttpNeed, Learned, Needs, Request, ResourceGrant,
    ResourceNeed, Reveals, Seen, Verb, is_secret_name,
};
pub use homeostat_digest::Digest;
pub use limits::{LimitName, Limits};
pub use loaded::{Exports, Facts};
pub use options::{COMPILE_MEMORY_BYTES_BOUNDS, COMPILE_TIME_BOUNDS, EngineOptions, INSTANCES_BOUNDS};
pub use outcome::{Cost, EffectCounts, Fault, Outcome, Report, Retry};
pub use refused::{Reason, Refused};
pub use spec::{BackoffSpec, Changes, ControllerSpec, DuringDelay, KindDeclaration, Mapping, Role, Watch};
