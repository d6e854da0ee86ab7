//! The trait of webhooks and components, which convert documents.

use async_trait::async_trait;
use homeostat_component::Digest;
use serde_json::Value;

/// Converts documents of one kind.
#[async_trait]
pub(super) trait DocumentConverter: Send + Sync + 'static {
    /// Returns what it is, as the subject of a sentence about its failure.
    fn name(&self) -> String;

    /// Returns the maximum documents of one call, and their maximum size together. One document may be larger.
    fn batch_max(&self) -> BatchSize;

    /// Returns the code that would convert now. Results of other code are not used. `None` if there is no code to know.
    fn code(&self) -> Option<Digest>;

    /// Returns documents in the `apiVersion` `desired`, which are not checked yet.
    ///
    /// # Errors
    /// Why there are none, for a person.
    ///
    /// *Cancel safety*: the documents may have been sent; a conversion has no effects.
    async fn convert(&self, desired: &str, originals: &[&Value]) -> Result<ConvertedDocuments, String>;

    /// Returns the failure of an answer that came too late, for a person.
    fn late(&self) -> String;
}

/// The size of a batch.
#[derive(Clone, Copy, Debug)]
pub(super) struct BatchSize {
    pub(super) documents: usize,
    /// Bytes of JSON text.
    pub(super) bytes: u64,
}

/// The answer to a conversion.
#[derive(Debug)]
pub(super) struct ConvertedDocuments {
    pub(super) documents: Vec<Value>,
    /// The code that converted them, as in [`DocumentConverter::code`].
    pub(super) code: Option<Digest>,
}
