//! Who answers reviews.

use async_trait::async_trait;

/// Answers reviews of one kind.
#[async_trait]
pub(super) trait Reviewer: Send + Sync + 'static {
    /// Sends a review, and returns the answer, which is not checked yet.
    ///
    /// # Errors
    /// Why there is no answer, for a person.
    ///
    /// *Cancel safety*: the review may have been sent; a conversion has no effects.
    async fn ask(&self, review: Vec<u8>) -> Result<Vec<u8>, String>;

    /// Returns the failure of an answer that came too late, for a person.
    fn late(&self) -> String;
}
