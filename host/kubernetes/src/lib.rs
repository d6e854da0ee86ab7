//! Resources that live in a Kubernetes cluster.
//!
//! The server decides each write. This crate says which request a write becomes, and how to read the answer;
//! the cache in front of it is [`homeostat_store::cached`].
//!
//! How a cluster differs from a store in this process:
//!
//! | | in this process | in a cluster |
//! |---|---|---|
//! | revisions | grow by one, over all kinds | grow with gaps, and those of two kinds cannot be compared |
//! | deletions | are told with their revision | are told with the revision before; the event has that of the deletion |
//! | `Conflict` | has the current revision | the same, from one more read; none if that read fails |
//! | a write that changes nothing | `change` is `None` | the same if the state before was known, else `Modified` |
//! | `generation` | every kind has one | 0 for kinds for which the server keeps none, as `ConfigMap` |
//! | `status` | apart from the rest in every kind | in the document of kinds without that subresource; only its own verbs change it there, too |
//! | the end of a deletion | with the last finalizer | the same, but Pods and Namespaces end later, by their own controllers |
//! | foreground, orphan | the host's collector | kube-controller-manager |
//! | strategic merge patches | by the schema of the kind | by the server for its own kinds; of custom kinds they are computed here, without a schema, and sent as an update |
//! | fields of an apply that no schema knows | `null` is not applied | `null` is a value; for an unknown field of the metadata, or of a typed object, the apply is refused |
//! | managers | as given | with [`ClusterSettings::manager_prefix`] in front: no apply is that of kubectl |
//! | names, sizes, schemas | checked by the store | checked by the server: it accepts more names, and documents up to 1.5 MiB; a schema that requires a status refuses each creation |
//! | versions | a resource is read as it was written last | in the version that the reader names |
//! | pages of a kind without a subscription | in the order of keys | in the order of the server; a page is sorted, and short where a field or an owner is selected |
//! | a kind that is not served | has no resources | `Unavailable`: `NotFound` would be an answer about a resource |
//!
//! The conformance suite asserts these rows as its `Difference`s (`tests/conformance/src/fixture.rs`), and
//! `tests/it/stores/kubernetes/writes.rs` those that are about one request.
//!
//! Read in this order: [`ClusterSettings`], [`Cluster`], `requests`, `read`, `follow`, `write`, `lease`.
//!
//! Deliberately absent: typed resources, informers and retries of the client library. Documents stay text, one
//! state machine follows a kind, and a request is tried again only where the server says that it did nothing. The
//! crate reads no environment variable.

mod catalog;
mod cluster;
mod document;
mod errors;
mod events;
mod follow;
mod identity;
mod lease;
mod lines;
mod path;
mod read;
mod requests;
mod scale;
mod settings;
mod write;

use std::sync::Arc;

use homeostat_store::cached::{CachedStore, Options};

pub use catalog::{Catalog, ServedKind, Verbs};
pub use cluster::Cluster;
pub use events::EventOutlet;
pub use homeostat_store::EventRecord;
pub use settings::{ClusterSettings, Credentials};

/// Opens the store of a cluster, and contacts the server in the background. The store can be used at once. It writes
/// events about its resources to the cluster.
///
/// # Panics
/// When called outside of a tokio runtime with time.
pub fn open(settings: ClusterSettings, cache: Options) -> CachedStore {
    let instance = settings.instance.clone();
    let cluster = Arc::new(Cluster::new(settings));
    let events = Arc::new(EventOutlet::start(Arc::clone(&cluster), instance));
    CachedStore::start(cluster, cache).with_event_sink(events)
}
