//! `kind: Stores`, as written.

use homeostat_runtime::manifest::Bytes;
use serde::Deserialize;

#[cfg(not(feature = "kubernetes"))]
use super::absent::AbsentEntry as KubernetesEntry;
#[cfg(not(feature = "nats"))]
use super::absent::AbsentEntry as NatsEntry;
#[cfg(feature = "kubernetes")]
use super::kubernetes::KubernetesEntry;
#[cfg(feature = "nats")]
use super::nats::NatsEntry;

/// The `kind` of the file.
pub(super) const KIND: &str = "Stores";

/// The whole file.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct StoresManifest {
    pub(super) api_version: String,
    pub(super) kind: String,
    /// The stores besides the host's own, which is called `home`.
    #[serde(default)]
    pub(super) stores: Vec<StoreEntry>,
    /// Which kinds live where. The first match counts, and a kind without a match lives in `home`.
    #[serde(default)]
    pub(super) routes: Vec<RouteEntry>,
}

/// One store: its name, and one of the others.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct StoreEntry {
    pub(super) name: String,
    /// In memory: all resources are lost at the end. For tests and experiments.
    pub(super) memory: Option<MemoryEntry>,
    /// In a NATS bucket.
    pub(super) nats: Option<NatsEntry>,
    /// In a Kubernetes cluster.
    pub(super) kubernetes: Option<KubernetesEntry>,
    /// The cache of a store that is far away.
    #[serde(default)]
    pub(super) cache: CacheEntry,
}

/// The bounds of a cache.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub(super) struct CacheEntry {
    /// Bytes of all kinds of the store together.
    pub(super) bytes_max: Option<Bytes>,
}

/// A store in memory has no settings.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MemoryEntry {}

/// Where some kinds live.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct RouteEntry {
    /// Patterns: `GROUP/KIND`, `GROUP/*`, `v1/KIND`, `v1/*` or `*/*`.
    pub(super) kinds: Vec<String>,
    /// The name of a store.
    pub(super) store: String,
    /// How much of the resources a store that is far away caches.
    #[serde(default)]
    pub(super) view: CachedView,
}

/// How much of a resource is cached.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum CachedView {
    /// The whole resource.
    #[default]
    Whole,
    /// The metadata. The whole resource is read from the server.
    Metadata,
}
