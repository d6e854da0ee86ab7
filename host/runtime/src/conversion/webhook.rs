//! The webhook of a definition.

use async_trait::async_trait;
use homeostat_component::Digest;
use homeostat_store::PAGE_BYTES_MAX;
use homeostat_store::definition::{Conversion, WebhookClient};
use serde_json::Value;
use uuid::Uuid;

use super::converter::CALL_MAX;
use super::document_converter::{BatchSize, ConvertedDocuments, DocumentConverter};
use super::review;
use crate::webhook_connection::{self, WebhookConnection};

/// Documents in one review: those of a page of a list.
const BATCH_MAX: BatchSize = BatchSize { documents: 500, bytes: PAGE_BYTES_MAX };

/// A webhook that converts documents.
pub(super) struct Webhook(WebhookConnection);

/// Checks what only this crate can check of a conversion.
///
/// # Errors
/// The path of the wrong field and the reason, for a person.
pub(crate) fn check(conversion: &Conversion) -> Result<(), String> {
    let Conversion::Webhook(settings) = conversion else { return Ok(()) };
    webhook_connection::check(settings, "spec.conversion.webhook.clientConfig")
}

impl Webhook {
    pub(super) fn new(settings: &WebhookClient) -> Self {
        Self(WebhookConnection::new(settings.clone(), CALL_MAX))
    }
}

#[async_trait]
impl DocumentConverter for Webhook {
    fn name(&self) -> String {
        "conversion webhook".to_owned()
    }

    fn batch_max(&self) -> BatchSize {
        BATCH_MAX
    }

    /// The program behind an address can change without a sign.
    fn code(&self) -> Option<Digest> {
        None
    }

    async fn convert(&self, desired: &str, originals: &[&Value]) -> Result<ConvertedDocuments, String> {
        let uid = Uuid::new_v4().to_string();
        let answer = self.0.call(review::request(&uid, desired, originals)).await?;
        Ok(ConvertedDocuments { documents: review::documents(&answer, &uid)?, code: None })
    }

    fn late(&self) -> String {
        self.0.late()
    }
}
