//! Write a reconciler in Rust, compile it to a WebAssembly component, and let Homeostat run it.
//!
//! A *reconciler* makes one decision: given the name of one resource, it looks at the world and brings it one
//! step closer to the resource's spec. The host does the rest: it watches, queues, retries with backoff, and
//! enforces limits and grants. This is a whole controller:
//!
//! ```
//! use homeostat_sdk::prelude::*;
//!
//! /// Asks for a greeting.
//! #[derive(Resource, Serialize, Deserialize, JsonSchema)]
//! #[resource(group = "demo.homeostat.dev", version = "v1", status = GreetingStatus)]
//! #[resource(printcolumn(name = "Message", json_path = ".status.message"))]
//! struct Greeting {
//!     name: String,
//! }
//!
//! #[derive(Serialize, Deserialize, JsonSchema)]
//! struct GreetingStatus {
//!     message: String,
//! }
//!
//! struct Greeter;
//!
//! impl Reconciler for Greeter {
//!     fn describe() -> Spec {
//!         Spec::manages::<Greeting>()
//!     }
//!
//!     fn reconcile(key: Key) -> Result<Outcome, Failure> {
//!         let Some(mut greeting) = Greeting::get_opt(&key)? else {
//!             return Ok(Outcome::settled());
//!         };
//!         let message = format!("Hello, {}!", greeting.spec.name);
//!         greeting.set_status(GreetingStatus { message })?;
//!         Ok(Outcome::settled())
//!     }
//! }
//!
//! homeostat_sdk::export!(Greeter);
//! # fn main() {}
//! ```
//!
//! The crate is a `cdylib`, which `homeostat build` and `homeostat dev` compile to a component. Beside this crate it
//! depends on `serde` (with its feature `derive`) and `schemars` 1, whose macros the derives call.
//! `homeostat crd FILE.wasm` prints the `CustomResourceDefinition` of its kind.
//!
//! # The target
//!
//! Guests are compiled for `wasm32-unknown-unknown`, which has no system. An instance of such a guest costs about two
//! thirds of one for `wasm32-wasip2`, whose standard library imports WASI. The differences:
//!
//! * A panic writes its message and its place to the log at level `warn`, and ends the reconcile as a failure with backoff.
//! * Memory comes from an arena of 512 KiB that each instance has from its start. A reconcile that needs more grows its
//!   memory, which takes some microseconds each time. The host counts the pages.
//! * Time and random numbers come from [`Time::now`] and [`random`]. `std::time::SystemTime::now` and `Instant::now`
//!   panic.
//! * `println!` and `eprintln!` write nothing: use [`info!`] and its siblings.
//! * Crates that need a system do not build, as those that draw random numbers with `getrandom`.
//!
//! A guest that needs the whole standard library says so in its `Cargo.toml`:
//!
//! ```toml
//! [package.metadata.homeostat]
//! target = "wasm32-wasip2"
//! ```
//!
//! Cargo alone compiles such a guest to a component: `cargo build --release --target wasm32-wasip2`. For
//! `wasm32-unknown-unknown` cargo writes a core module, from which `wasm-tools component new` makes the component.
//!
//! # What to rely on
//!
//! * The only input is the key. Read the resources that matter; the store returns their *current* state, not
//!   the state at the time of the event.
//! * Each reconcile runs in a fresh sandbox: a `static` is empty again the next time. Lasting state belongs
//!   in a resource.
//! * A key never runs twice at once. The host may stop a reconcile after any effect and run it again, so
//!   every step must be idempotent: [`Resource::apply`] children under names derived from the parent, and use
//!   [`Resource::set_status`], which writes only changes.
//! * `?` turns any error into a [`Failure`] with backoff. For an error that only a person can fix, return
//!   [`Failure::never`].
//!
//! # When the answer of a write is lost
//!
//! A store can be far away. Then a write may end with [`Error::Unavailable`], and nobody knows its outcome: the
//! change may be there, may never be, and may still come.
//!
//! * Return the error. `?` retries the key with backoff. A second write in the same reconcile would only guess.
//! * [`Resource::apply`] children under names derived from the parent. Then the outcome does not matter: the
//!   next reconcile applies the same again.
//! * Do not decide by absence alone. A cache may not have a resource yet that exists. Where another one would
//!   do harm, read with [`Kind::get_live_opt`] or [`List::live`] first: before a [`Resource::create`] whose
//!   name the store chooses, before a creation outside of the store, before a cleanup of what seems to have no
//!   parent.
//!
//! # Where things are
//!
//! | for | see |
//! |---|---|
//! | saying what the controller is | [`Spec`], [`Reconciler`], and the optional [`Mapper`], [`Poller`], [`Lifecycle`] and [`Converter`] |
//! | naming a type of resource | [`#[derive(Resource)]`](derive@Resource), or the trait [`Kind`] by hand; [`schema`]; [`DynamicKind`] for one that is known at run time only |
//! | reading and writing | the methods of [`Kind`] and [`Resource`](struct@Resource); [`Selector`] |
//! | telling people | [`Conditions`], [`events`], [`info!`] and its siblings |
//! | parts of a parent, by a selector | [`adopt()`] |
//! | cleaning up outside of the store | [`finalizer()`] |
//! | keys that the guest enqueues itself | [`queue`] |
//! | settings, time, random numbers, the network | [`config`], [`Time`], [`random`], [`http`] |
//! | all that has no typed form here | [`raw`], the contract itself |
//!
//! Deliberately absent: threads, async, caches and informers. The host has all of them, so guests need none.
//!
//! # Tests
//!
//! All code compiles natively. In a native test, a `World` of the crate `homeostat-sdk-testing` is the host: it has the
//! store, the queue and the mappings of Homeostat in memory, with time and faults that the test sets. Without one, a
//! call to the host panics. HTTP requests are the exception: they panic in any native test.

// The derive macro names this crate as its users do, and this crate's tests use it too.
extern crate self as homeostat_sdk;

mod adopt;
#[doc(hidden)]
pub mod bindings;
pub mod condition;
pub mod config;
mod controller;
mod describe;
pub mod events;
pub mod finalizer;
#[cfg(all(target_family = "wasm", target_os = "unknown"))]
mod freestanding;
mod host;
pub mod http;
mod kind;
pub mod log;
mod merge;
mod metadata;
mod outcome;
pub mod queue;
pub mod random;
mod resource;
pub mod schema;
mod selector;
mod store_error;
mod time;
pub mod watches;

pub use adopt::adopt;
pub use condition::{Condition, Conditions};
pub use controller::{ChangedResource, Converter, Lifecycle, Mapper, Poller, Reconciler};
pub use describe::{DynamicKind, Mapping, Spec, Watch};
pub use finalizer::finalizer;
/// Implements [`Kind`] for the type of a `spec`, with the schema of its documents.
///
/// ```
/// use homeostat_sdk::prelude::*;
///
/// /// A website to watch.
/// #[derive(Resource, Serialize, Deserialize, JsonSchema)]
/// #[resource(group = "demo.homeostat.dev", version = "v1", shortname = "mon", status = MonitorStatus)]
/// #[resource(printcolumn(name = "State", type = "string", json_path = ".status.state"))]
/// struct Monitor {
///     url: String,
///     #[serde(default = "thirty_seconds")]
///     every: Span,
/// }
///
/// #[derive(Serialize, Deserialize, JsonSchema)]
/// struct MonitorStatus {
///     state: String,
/// }
///
/// fn thirty_seconds() -> Span {
///     Span(Duration::from_secs(30))
/// }
/// # assert_eq!((Monitor::NAME, Monitor::PLURAL), ("Monitor", "monitors"));
/// # assert!(Monitor::schema().is_some_and(|schema| schema.contains(r#""default":"30s""#)));
/// ```
///
/// The host enforces the schema on each write of any client: [`schema`] has the rules.
pub use homeostat_sdk_derive::Resource;
pub use kind::{Key, Kind};
pub use metadata::{Metadata, OwnerReference};
pub use outcome::{Failure, Outcome, Result};
pub use resource::{List, Patch, Propagation, Resource};
pub use selector::{LabelSelector, Selector};
pub use store_error::Error;
pub use time::{Span, Time};

/// The way to run a controller natively. Tests use the crate `homeostat-sdk-testing`, which has a host.
#[cfg(not(target_family = "wasm"))]
pub mod testing {
    pub use crate::host::{Host, with_host};

    use crate::{Error, Key, Kind, Resource};

    /// Returns the document that a write of the resource sends, with its status.
    ///
    /// # Errors
    ///
    /// [`Error::Malformed`] when a part has no form in JSON.
    pub fn document<K: Kind>(resource: &Resource<K>) -> Result<serde_json::Value, Error> {
        resource.whole_document()
    }

    /// Returns the declaration of a kind, as a description has it.
    pub fn declaration<K: Kind>() -> crate::raw::describe::KindDeclaration {
        crate::describe::declaration::<K>()
    }

    /// Reads a document as a read of the controller does. A status that does not fit its type is left out.
    ///
    /// # Errors
    ///
    /// [`Error::Malformed`] when the metadata or the spec does not fit its type.
    pub fn resource<K: Kind>(key: &Key, document: serde_json::Value) -> Result<Resource<K>, Error> {
        Resource::from_value(key, document)
    }
}

/// The contract as generated from `wit/`, for everything that has no typed form in this crate. In a native test, its
/// functions call the host of the test.
pub mod raw {
    pub use crate::bindings::imports::homeostat::reconciler::types;
    pub use crate::bindings::reconciler::exports::homeostat::reconciler::reconciler as describe;
    pub use crate::host::{config, events, log, queue, store, watches};
}

/// The items that most controllers need: `use homeostat_sdk::prelude::*`.
///
/// It includes `serde`'s two derives and that of `schemars`; a crate that uses them must also depend on `serde` and
/// `schemars`.
pub mod prelude {
    pub use crate::{
        Condition, Conditions, Converter, DynamicKind, Error, Failure, Key, Kind, Lifecycle, Mapper, Mapping, Metadata,
        Outcome, Patch, Poller, Reconciler, Resource, Result, Selector, Span, Spec, Time, Watch, config, events, queue,
        watches,
    };
    pub use crate::{debug, error, finalizer, info, trace, warn};
    pub use schemars::JsonSchema;
    pub use serde::{Deserialize, Serialize};
    pub use std::time::Duration;
}

/// Exports a type as a controller: `export!(MyController)`.
///
/// The macro exports [`Reconciler`]. Optional exports follow a colon, in any combination and order:
/// `export!(MyController: mapper, poller, lifecycle, converter)` also exports [`Mapper`], [`Poller`], [`Lifecycle`] and
/// [`Converter`].
/// The component has only the exports that are named here.
#[macro_export]
macro_rules! export {
    ($controller:ident $(: $($part:ident),+ $(,)?)?) => {
        $crate::__export_part!(reconciler $controller);
        $($($crate::__export_part!($part $controller);)+)?
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __export_part {
    (reconciler $controller:ident) => {
        $crate::bindings::reconciler::__export_reconciler!($controller with_types_in $crate::bindings::reconciler);
    };
    (mapper $controller:ident) => {
        $crate::bindings::mapper::__export_mapper!($controller with_types_in $crate::bindings::mapper);
    };
    (poller $controller:ident) => {
        $crate::bindings::poller::__export_poller!($controller with_types_in $crate::bindings::poller);
    };
    (lifecycle $controller:ident) => {
        $crate::bindings::lifecycle::__export_lifecycle!($controller with_types_in $crate::bindings::lifecycle);
    };
    (converter $controller:ident) => {
        $crate::bindings::converter::__export_converter!($controller with_types_in $crate::bindings::converter);
    };
    ($other:ident $controller:ident) => {
        compile_error!(concat!(
            "`",
            stringify!($other),
            "` is no part of a controller: use `mapper`, `poller`, `lifecycle` or `converter`"
        ));
    };
}
