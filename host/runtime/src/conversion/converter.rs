//! Converts the documents of one kind, by a webhook or a component.

use std::sync::Arc;
use std::time::Duration;

use homeostat_component::Digest;
use homeostat_store::definition::Conversion;
use homeostat_store::schema::Schema;
use homeostat_store::{Error, Kind, Resource, Result};
use serde_json::Value;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::cache::{ConversionCache, ConversionKey};
use super::document_converter::{BatchSize, ConvertedDocuments, DocumentConverter};
use super::review;

/// How long a conversion may wait for its turn and take. Source: Kubernetes.
pub(super) const CALL_MAX: Duration = Duration::from_secs(30);

/// Concurrent conversions of one kind.
const CALLS_MAX: usize = 8;

/// Converts the documents of one kind.
pub(crate) struct KindConverter {
    /// Tells its results in the cache from those of its predecessors.
    number: u64,
    /// The kind in its storage version.
    kind: Kind,
    conversion: Arc<Conversion>,
    /// The served versions and the storage version, each with its schema.
    schemas: Vec<(String, Option<Schema>)>,
    inner: Box<dyn DocumentConverter>,
    calls: Semaphore,
    cache: Arc<ConversionCache>,
}

impl KindConverter {
    /// Returns a converter whose documents `inner` converts. `kind` has the storage version.
    pub(super) fn new(
        number: u64,
        kind: Kind,
        conversion: Arc<Conversion>,
        schemas: Vec<(String, Option<Schema>)>,
        inner: Box<dyn DocumentConverter>,
        cache: Arc<ConversionCache>,
    ) -> Self {
        Self { number, kind, conversion, schemas, inner, calls: Semaphore::new(CALLS_MAX), cache }
    }

    /// Returns whether this converter is still that of a definition.
    pub(super) fn is_of(&self, kind: &Kind, conversion: &Conversion, schemas: &[(String, Option<Schema>)]) -> bool {
        self.kind == *kind && *self.conversion == *conversion && self.schemas == schemas
    }

    /// Returns the storage version.
    pub(super) fn stored(&self) -> &str {
        &self.kind.version
    }

    /// Returns whether the kind has a version.
    pub(super) fn knows(&self, version: &str) -> bool {
        self.schemas.iter().any(|(known, _)| known == version)
    }

    /// Returns resources in a version of the kind. Those that have it already are the same.
    ///
    /// *Cancel safety*: nothing is lost.
    ///
    /// # Errors
    /// `Conversion`.
    pub(super) async fn convert(&self, version: &str, mut resources: Vec<Arc<Resource>>) -> Result<Vec<Arc<Resource>>> {
        if resources.iter().all(|resource| resource.key().kind().version == version) {
            return Ok(resources);
        }
        let (all, code) = ((0..resources.len()).collect(), self.inner.code());
        let missing = self.find(version, &code, &mut resources, all);
        for batch in batches(&resources, missing, self.inner.batch_max()) {
            let Some(first) = batch.first().map(|at| Arc::clone(&resources[*at])) else { continue };
            let call = timeout(CALL_MAX, self.convert_batch(version, &code, &mut resources, batch)).await;
            call.unwrap_or_else(|_| Err(self.late(first.document())))?;
        }
        Ok(resources)
    }

    /// Returns a document that is not stored in a version of the kind.
    ///
    /// *Cancel safety*: nothing is lost.
    ///
    /// # Errors
    /// `Conversion`.
    pub(crate) async fn convert_document(&self, version: &str, document: Value) -> Result<Value> {
        if document["apiVersion"] == self.api_version(version) {
            return Ok(document);
        }
        let convert = async {
            let _permit = self.permit().await?;
            self.call(version, &[&document]).await
        };
        let (converted, _) = timeout(CALL_MAX, convert).await.unwrap_or_else(|_| Err(self.late(&document)))?;
        Ok(converted.into_iter().next().unwrap_or(document))
    }

    /// Replaces resources at these positions by cached ones, and returns the positions of those that are not cached.
    fn find(
        &self,
        version: &str,
        code: &Option<Digest>,
        resources: &mut [Arc<Resource>],
        positions: Vec<usize>,
    ) -> Vec<usize> {
        let is_missing = |at: &usize| {
            let resource = &mut resources[*at];
            if resource.key().kind().version == version {
                return false;
            }
            let found = self.cache.get(&self.key_of(version, code, resource));
            let is_missing = found.is_none();
            if let Some(found) = found {
                *resource = found;
            }
            is_missing
        };
        positions.into_iter().filter(is_missing).collect()
    }

    async fn convert_batch(
        &self,
        version: &str,
        code: &Option<Digest>,
        resources: &mut [Arc<Resource>],
        batch: Vec<usize>,
    ) -> Result<()> {
        let _permit = self.permit().await?;
        // While this call waited for its turn, another one may have converted the same resources.
        let batch = self.find(version, code, resources, batch);
        if batch.is_empty() {
            return Ok(());
        }
        let originals: Vec<Arc<Resource>> = batch.iter().map(|at| resources[*at].without_document()).collect();
        let documents: Vec<&Value> = originals.iter().map(|original| original.document()).collect();
        let (converted, code) = self.call(version, &documents).await?;
        for (at, document) in batch.into_iter().zip(converted) {
            let resource = Resource::from_document(document)?.without_document();
            self.cache.insert(self.key_of(version, &code, &resources[at]), Arc::clone(&resource));
            resources[at] = resource;
        }
        Ok(())
    }

    /// Converts documents once, and returns them in the form of their schema, and the code that converted them. The caller
    /// holds a permit.
    async fn call(&self, version: &str, originals: &[&Value]) -> Result<(Vec<Value>, Option<Digest>)> {
        let failed = |reason: String| self.failure(originals[0], &reason);
        let desired = self.api_version(version);
        let converted = self.inner.convert(&desired, originals).await;
        let ConvertedDocuments { documents, code } = converted.map_err(|reason| failed(format!("failed: {reason}")))?;
        let mut documents = review::checked(documents, &desired, originals).map_err(failed)?;
        let schema = self.schemas.iter().find(|(known, _)| known == version).and_then(|(_, schema)| schema.as_ref());
        if let Some(schema) = schema {
            for document in &mut documents {
                schema.prune(document);
                schema.set_defaults(document)?;
            }
        }
        Ok((documents, code))
    }

    async fn permit(&self) -> Result<tokio::sync::SemaphorePermit<'_>> {
        self.calls.acquire().await.map_err(Error::unavailable)
    }

    fn key_of(&self, version: &str, code: &Option<Digest>, resource: &Resource) -> ConversionKey {
        let (uid, revision, version) = (resource.uid().to_owned(), resource.revision(), version.to_owned());
        ConversionKey { converter: self.number, code: code.clone(), uid, revision, version }
    }

    fn api_version(&self, version: &str) -> String {
        Kind::new(&self.kind.group, version, &self.kind.name).api_version()
    }

    fn late(&self, original: &Value) -> Error {
        self.failure(original, &format!("failed: {}", self.inner.late()))
    }

    /// Returns the error of a conversion of this document, in the words of Kubernetes. `reason` is the rest of the sentence.
    fn failure(&self, original: &Value, reason: &str) -> Error {
        let text = |name: &str| original[name].as_str().unwrap_or_default();
        let reason = format!("{} for {}, Kind={} {reason}", self.inner.name(), text("apiVersion"), text("kind"));
        Error::Conversion { reason }
    }
}

/// Returns the positions in batches for one call each.
fn batches(resources: &[Arc<Resource>], positions: Vec<usize>, max: BatchSize) -> Vec<Vec<usize>> {
    let mut batches: Vec<Vec<usize>> = Vec::new();
    let mut bytes = 0;
    for at in positions {
        let added = resources[at].bytes();
        match batches.last_mut() {
            Some(last) if last.len() < max.documents && bytes + added <= max.bytes => {
                last.push(at);
                bytes += added;
            }
            _ => {
                batches.push(vec![at]);
                bytes = added;
            }
        }
    }
    batches
}
