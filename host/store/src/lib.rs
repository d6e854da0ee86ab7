//! The resource store: holds resources of Kubernetes shape, and lets callers read, write and watch them.
//!
//! Stores in this process behave alike because one pure module, [`semantics`], decides the effect of a write;
//! they differ only in where they keep the result. [`memory::MemoryStore`] keeps it in memory,
//! [`embedded::EmbeddedStore`] in one file on disk. A store that is far away is a [`cached::CachedStore`] in
//! front of a server. A [`RoutedStore`] is composed of several stores, and its [`routes`] say which kind lives
//! in which of them.
//!
//! Read in this order: [`Resource`], [`Store`], [`Write`], [`semantics`], then one store.
//!
//! Deliberately absent: this room knows nothing of guests, grants, queues, HTTP and the protocols of servers,
//! and reads no environment variable.

pub mod cached;
pub mod catalog;
mod clock;
mod contents;
pub mod copy_mark;
pub mod definition;
pub mod embedded;
mod error;
mod event_sink;
pub mod far_owner;
mod fence;
mod fields;
#[cfg(test)]
mod fixture;
pub mod garbage;
mod history;
mod index;
pub mod json_pointer;
pub mod jsonpath;
mod leases;
mod listing;
pub mod memory;
mod model;
mod moved_kinds;
pub mod moves;
mod numbers;
mod ownership;
mod patch;
mod path;
mod routed;
pub mod routes;
mod rule_check;
mod scale;
pub mod schema;
mod selector;
pub mod semantics;
mod status;
mod store;
mod subresource;
mod validate;
mod violation;
mod watch;
mod write;

pub use clock::{ClockAndIds, SystemClockAndIds};
pub use error::{Error, FieldConflict, Result};
pub use event_sink::{EventRecord, EventSink};
pub use fence::Fence;
/// Parses a length of time as Go writes it.
pub use homeostat_cel::duration;
pub use homeostat_cel::names::{LABEL_VALUE, is_path_character, qualified_faults};
pub use index::{IndexTerm, TERMS_MAX as INDEX_TERMS_MAX, UNDECLARED_TERMS_MAX as UNDECLARED_INDEX_TERMS_MAX};
pub use leases::{LeaseRequests, LeaseStore, LeaseWatch, OtherTerm};
pub use listing::{ResourcePages, continue_after, continue_in_present};
pub use model::{FarOwner, Key, Kind, OwnerReference, Resource, Revision, Target, VersionRank, View};
pub use patch::{Change, OPERATIONS_MAX};
pub use routed::{OwnerKinds, RoutedStore, STORES_MAX, StorePart};
pub use rule_check::needs_rules;
pub use scale::ScaleRequest;
pub use selector::{LabelRequirement, Selector, selected_field};
pub use status::{Availability, CacheState, CacheStatus, Obstacle, RequestCounts, StoreStatus, Subscription};
pub use store::{Options, Page, Query, Store};
pub use subresource::Subresource;
pub use validate::{document as check_document, key as check_key};
pub use watch::{Changes, Event, EventType, Scope, Watch};
pub use write::{FieldValidation, Precondition, Propagation, Request, Write, WriteResponse};

/// Largest document that a store accepts, in bytes of its JSON text: 1.5 MiB.
///
/// Source: the bound of requests to etcd (`--max-request-bytes`), in which an API server stores custom resources and
/// definitions as JSON.
pub const DOCUMENT_BYTES_MAX: u64 = 3 << 19;

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
