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
mod code;
mod compiler;
mod component;
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
mod load;
mod meter;
mod millis;
mod outcome;
mod output;
mod port;
mod reply;
mod spec;
mod state;
mod ticker;

pub use caller::Caller;
pub use compiler::{Compiled, Compiler, Ended, Task};
pub use component::{Component, Exports, Facts};
pub use effect::{
    Absent, Answer, Blob, Call, Effect, EffectClass, Effects, Entry, Exchange, HttpError, HttpRequest, HttpResponse,
    Level, PageData, ResourceData, Severity, StoreError, Written,
};
pub use engine::{COMPILE_MEMORY_BYTES_BOUNDS, COMPILE_TIME_BOUNDS, Engine, EngineOptions, INSTANCES_BOUNDS};
pub use error::Error;
pub use grants::{
    AddressRange, Capability, Grants, HeaderSource, HttpGrant, HttpNeed, Learned, Needs, Request, ResourceGrant,
    ResourceNeed, Reveals, Seen, Verb, is_secret_name,
};
pub use homeostat_digest::Digest;
pub use limits::{Amount, FixedBound, Limits, fixed as fixed_bounds};
pub use load::{Reason, Refused};
pub use outcome::{Cost, EffectCounts, Fault, LimitName, Outcome, Report, Retry};
pub use spec::{BackoffSpec, Changes, ControllerSpec, DuringDelay, KindDeclaration, Mapping, Role, Watch};
