//! The webhook of a definition, over `https`.
//!
//! Deliberately absent: redirects, proxies, retries, credentials of the host, and services, which a host cannot resolve.

use std::error::Error as _;

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use homeostat_component::Digest;
use homeostat_store::PAGE_BYTES_MAX;
use homeostat_store::definition::{Conversion, WebhookClient, WebhookTarget};
use reqwest::redirect::Policy;
use reqwest::{Certificate, Client, Url, header};
use serde_json::Value;
use uuid::Uuid;

use super::converter::CALL_MAX;
use super::document_converter::{BatchSize, ConvertedDocuments, DocumentConverter};
use super::review;

/// Maximum bytes of one answer. A review has at most 4 MiB of documents, or one document.
const ANSWER_BYTES_MAX: usize = 8 << 20;

/// Documents in one review: those of a page of a list.
const BATCH_MAX: BatchSize = BatchSize { documents: 500, bytes: PAGE_BYTES_MAX };

/// Maximum characters of a reason of the HTTP client that are shown.
const REASON_CHARS_MAX: usize = 500;

/// A webhook that can be asked, or the reason why it cannot.
pub(super) struct Webhook {
    url: String,
    client: Result<Client, String>,
}

/// Checks what only this crate can check of a conversion.
///
/// # Errors
/// The path of the wrong field and the reason, for a person.
pub(crate) fn check(conversion: &Conversion) -> Result<(), String> {
    let Conversion::Webhook(WebhookClient { target, ca_bundle }) = conversion else { return Ok(()) };
    let path = "spec.conversion.webhook.clientConfig";
    if let WebhookTarget::Url(url) = target {
        Url::parse(url).map_err(|error| format!("{path}.url: {error}"))?;
    }
    authorities(ca_bundle.as_deref()).map(drop).map_err(|reason| format!("{path}.caBundle: {reason}"))
}

/// Returns the authorities of a bundle; `None` for those of the system.
fn authorities(bundle: Option<&str>) -> Result<Option<Vec<Certificate>>, String> {
    let Some(bundle) = bundle else { return Ok(None) };
    let pem = STANDARD.decode(bundle).map_err(|error| format!("must be base64: {error}"))?;
    let found = Certificate::from_pem_bundle(&pem);
    let found = found.map_err(|error| format!("unable to load root certificates: {error}"))?;
    if found.is_empty() {
        return Err("unable to load root certificates: it has no certificate in PEM".to_owned());
    }
    Ok(Some(found))
}

impl Webhook {
    pub(super) fn new(settings: &WebhookClient) -> Self {
        let WebhookClient { target, ca_bundle } = settings;
        let base = match target {
            WebhookTarget::Url(url) => url.clone(),
            WebhookTarget::Service { namespace, name, path, port } => {
                format!("https://{name}.{namespace}.svc:{port}/{}", path.trim_start_matches('/'))
            }
        };
        let url = format!("{base}?timeout={}s", CALL_MAX.as_secs());
        let client = match target {
            WebhookTarget::Url(_) => client(ca_bundle.as_deref()),
            WebhookTarget::Service { .. } => {
                Err("no cluster resolves services of a host: set clientConfig.url".to_owned())
            }
        };
        Self { url, client }
    }

    fn failed(&self, reason: &str) -> String {
        format!("Post {:?}: {reason}", self.url)
    }
}

fn client(bundle: Option<&str>) -> Result<Client, String> {
    let builder = Client::builder().no_proxy().redirect(Policy::none()).retry(reqwest::retry::never());
    let builder = builder.https_only(true).connect_timeout(CALL_MAX);
    let builder = match authorities(bundle)? {
        Some(authorities) => builder.tls_certs_only(authorities),
        None => builder,
    };
    builder.build().map_err(|error| reason_of(&error))
}

/// Returns the last cause of an error, which says most, without the URL.
fn reason_of(error: &reqwest::Error) -> String {
    let causes = std::iter::successors(error.source(), |error| (*error).source());
    let cause = causes.last().map_or_else(|| "the connection failed".to_owned(), ToString::to_string);
    cause.chars().take(REASON_CHARS_MAX).collect()
}

impl Webhook {
    /// Sends a review, and returns the answer.
    async fn ask(&self, review: Vec<u8>) -> Result<Vec<u8>, String> {
        let client = self.client.as_ref().map_err(|reason| self.failed(reason))?;
        let failed = |error: reqwest::Error| self.failed(&reason_of(&error));
        let json = "application/json";
        let request = client.post(&self.url).header(header::CONTENT_TYPE, json).header(header::ACCEPT, json);
        let mut response = request.body(review).send().await.map_err(failed)?;
        let status = response.status();
        if !status.is_success() {
            return Err(self.failed(&format!("the webhook responded with the status {status}")));
        }
        let mut answer = Vec::new();
        while let Some(bytes) = response.chunk().await.map_err(failed)? {
            if answer.len() + bytes.len() > ANSWER_BYTES_MAX {
                return Err(self.failed(&format!("the answer has more than {} MiB", ANSWER_BYTES_MAX >> 20)));
            }
            answer.extend_from_slice(&bytes);
        }
        Ok(answer)
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
        let answer = self.ask(review::request(&uid, desired, originals)).await?;
        Ok(ConvertedDocuments { documents: review::documents(&answer, &uid)?, code: None })
    }

    fn late(&self) -> String {
        self.failed("context deadline exceeded")
    }
}
