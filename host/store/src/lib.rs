//! The resource store: holds resources of Kubernetes shape, and lets callers read, write and watch them.
//!
//! All stores behave alike because one pure module, [`semantics`], decides the effect of a write; stores
//! differ only in where they keep the result. [`memory::MemoryStore`] keeps it in memory,
//! [`embedded::EmbeddedStore`] in one file on disk.
//!
//! Read in this order: [`Resource`], [`Store`], [`Write`], [`semantics`], then one store.
//!
//! Deliberately absent: this room knows nothing of guests, grants, queues and HTTP, reads no environment
//! variable, and has no cache in front of a store.

mod clock;
pub mod definition;
pub mod embedded;
mod error;
mod fields;
#[cfg(test)]
mod fixture;
pub mod garbage;
mod history;
pub mod jsonpath;
mod listing;
pub mod memory;
mod model;
mod numbers;
mod ownership;
mod patch;
mod path;
pub mod schema;
mod selector;
pub mod semantics;
mod store;
mod validate;
mod violation;
mod watch;
mod write;

pub use clock::{ClockAndIds, SystemClockAndIds};
pub use error::{Error, FieldConflict, Result};
pub use listing::continue_after;
pub use model::{Key, Kind, OwnerReference, Resource, Revision, Target, View};
pub use patch::Change;
pub use selector::{LabelRequirement, Selector};
pub use store::{Options, Page, Query, Store};
pub use watch::{Changes, Event, EventType, Scope, Watch};
pub use write::{FieldValidation, Precondition, Propagation, Request, Write, WriteResponse};

/// Largest document that a store accepts, in bytes of its JSON text: 1 MiB.
pub const DOCUMENT_BYTES_MAX: u64 = 1 << 20;

/// Largest `metadata.managedFields`, in bytes of its JSON text: 256 KiB. A write that would exceed it is
/// refused.
pub const MANAGED_FIELDS_BYTES_MAX: u64 = 256 << 10;

/// Total size of the documents in one page of a list, in bytes of their JSON text: 4 MiB. Applies to queries
/// with a limit; one item always fits.
pub const PAGE_BYTES_MAX: u64 = 4 << 20;

/// Deepest nesting of objects and arrays that a store accepts. It is below the recursion limit of the JSON
/// parser, so that a stored document can be parsed again inside an envelope.
pub const DOCUMENT_DEPTH_MAX: usize = 100;

/// The finalizer that keeps a resource until its dependents are deleted ([`Propagation::Foreground`]).
pub const FINALIZER_FOREGROUND: &str = "foregroundDeletion";

/// The finalizer that keeps a resource until its dependents no longer reference it ([`Propagation::Orphan`]).
pub const FINALIZER_ORPHAN: &str = "orphan";
