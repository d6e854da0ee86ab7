//! The converters of all kinds that have one.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use homeostat_store::Kind;
use homeostat_store::definition::Conversion;
use homeostat_store::schema::Schema;
use parking_lot::RwLock;

use super::cache::ConversionCache;
use super::component::{CodeFinder, ComponentConverter, ControllerCode};
use super::converter::KindConverter;
use super::document_converter::DocumentConverter;
use super::webhook::Webhook;

/// The converters, by group and name of their kinds. One for each definition with a conversion.
#[derive(Default)]
pub(crate) struct Converters {
    by_type: RwLock<BTreeMap<(String, String), Arc<KindConverter>>>,
    cache: Arc<ConversionCache>,
    count: AtomicU64,
    finder: Arc<CodeFinder>,
}

impl Converters {
    /// Sets how the code of a controller is found by its name.
    pub(crate) fn connect(&self, find: impl Fn(&str) -> Option<ControllerCode> + Send + Sync + 'static) {
        self.finder.connect(Box::new(find));
    }

    /// Sets the converter of a kind. `kind` has the storage version, and `schemas` every version that documents can have.
    pub(crate) fn set(&self, kind: &Kind, conversion: &Arc<Conversion>, schemas: &[(String, Option<Schema>)]) {
        if self.of(kind).is_some_and(|known| known.is_of(kind, conversion, schemas)) {
            return;
        }
        let inner: Box<dyn DocumentConverter> = match &**conversion {
            Conversion::None => return self.forget(kind),
            Conversion::Webhook(settings) => Box::new(Webhook::new(settings)),
            Conversion::Component(controller) => {
                Box::new(ComponentConverter::new(controller, Arc::clone(&self.finder)))
            }
        };
        let number = self.count.fetch_add(1, Ordering::Relaxed);
        let (schemas, cache) = (schemas.to_vec(), Arc::clone(&self.cache));
        let converter = KindConverter::new(number, kind.clone(), Arc::clone(conversion), schemas, inner, cache);
        self.by_type.write().insert(by_type(kind), Arc::new(converter));
    }

    /// Sets a converter whose documents a test converts.
    #[cfg(test)]
    pub(super) fn set_inner(
        &self,
        kind: &Kind,
        schemas: Vec<(String, Option<Schema>)>,
        inner: Box<dyn DocumentConverter>,
    ) {
        let (number, cache) = (self.count.fetch_add(1, Ordering::Relaxed), Arc::clone(&self.cache));
        let converter = KindConverter::new(number, kind.clone(), Arc::default(), schemas, inner, cache);
        self.by_type.write().insert(by_type(kind), Arc::new(converter));
    }

    /// Removes the converter of a kind.
    pub(crate) fn forget(&self, kind: &Kind) {
        self.by_type.write().remove(&by_type(kind));
    }

    /// Returns whether no kind has a converter, as on most hosts.
    pub(super) fn is_empty(&self) -> bool {
        self.by_type.read().is_empty()
    }

    /// Returns the converter of a kind; its version is ignored.
    pub(crate) fn of(&self, kind: &Kind) -> Option<Arc<KindConverter>> {
        if self.is_empty() { None } else { self.by_type.read().get(&by_type(kind)).cloned() }
    }
}

fn by_type(kind: &Kind) -> (String, String) {
    (kind.group.clone(), kind.name.clone())
}
