//! A cache of converted resources, for the kinds of one host together.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use homeostat_component::Digest;
use homeostat_store::{Resource, Revision};
use parking_lot::Mutex;

/// Maximum number of cached resources.
const RESOURCES_MAX: usize = 8192;

/// Maximum size of all cached resources, in bytes of their JSON text.
const BYTES_MAX: u64 = 32 << 20;

/// Everything that determines a converted resource.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) struct ConversionKey {
    /// The number of the converter. A definition whose conversion or schemas change gets another one.
    pub(super) converter: u64,
    /// The code that converted it, if it is known.
    pub(super) code: Option<Digest>,
    pub(super) uid: String,
    pub(super) revision: Revision,
    /// The version into which the resource was converted.
    pub(super) version: String,
}

/// The converted resources; the oldest leave first.
#[derive(Default)]
pub(super) struct ConversionCache(Mutex<CachedResources>);

#[derive(Default)]
struct CachedResources {
    resources: HashMap<ConversionKey, Arc<Resource>>,
    /// The keys of `resources`, the oldest first.
    order: VecDeque<ConversionKey>,
    bytes: u64,
}

impl ConversionCache {
    /// Returns a converted resource.
    pub(super) fn get(&self, key: &ConversionKey) -> Option<Arc<Resource>> {
        self.0.lock().resources.get(key).cloned()
    }

    /// Keeps a converted resource. A larger one than all of the cache is not kept.
    pub(super) fn insert(&self, key: ConversionKey, resource: Arc<Resource>) {
        let mut cache = self.0.lock();
        let bytes = resource.bytes();
        if bytes > BYTES_MAX || cache.resources.contains_key(&key) {
            return;
        }
        cache.resources.insert(key.clone(), resource);
        cache.order.push_back(key);
        cache.bytes += bytes;
        while cache.order.len() > RESOURCES_MAX || cache.bytes > BYTES_MAX {
            let Some(oldest) = cache.order.pop_front() else { return };
            cache.bytes -= cache.resources.remove(&oldest).map_or(0, |resource| resource.bytes());
        }
    }
}

#[cfg(test)]
mod tests;
