//! The connection to a webhook of Kubernetes, over `https`.
//!
//! Deliberately absent: redirects, proxies, retries, credentials of the host, and services, which a host cannot resolve.

use std::error::Error as _;
use std::fmt::Display;
use std::sync::OnceLock;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use homeostat_certificates::TrustedCertificates;
use homeostat_store::definition::{WebhookClient, WebhookTarget};
use reqwest::redirect::Policy;
use reqwest::{Client, Url, header};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

/// Maximum bytes of one answer. A review has at most 4 MiB of documents, or one document.
const ANSWER_BYTES_MAX: usize = 8 << 20;

/// Maximum characters of a reason of the HTTP client that are shown.
const REASON_CHARS_MAX: usize = 500;

/// A webhook that can be called, or the reason why it cannot.
pub(crate) struct WebhookConnection {
    url: String,
    timeout: Duration,
    settings: WebhookClient,
    client: OnceLock<Result<Client, String>>,
}

/// Checks where a webhook is, and whom it is trusted by.
///
/// # Errors
/// The path of the wrong field below `path`, and the reason, for a person.
pub(crate) fn check(settings: &WebhookClient, path: &str) -> Result<(), String> {
    if let WebhookTarget::Url(url) = &settings.target {
        Url::parse(url).map_err(|error| format!("{path}.url: {error}"))?;
    }
    trusted(settings.ca_bundle.as_deref()).map(drop).map_err(|reason| format!("{path}.caBundle: {reason}"))
}

/// Returns the certificates of a bundle; `None` for those of the system.
fn trusted(bundle: Option<&str>) -> Result<Option<TrustedCertificates>, String> {
    let Some(bundle) = bundle else { return Ok(None) };
    let pem = STANDARD.decode(bundle).map_err(|error| format!("must be base64: {error}"))?;
    let failed = |error: &dyn Display| format!("unable to load root certificates: {error}");
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    let found = found.map_err(|error| failed(&error))?;
    if found.is_empty() {
        return Err(failed(&"it has no certificate in PEM"));
    }
    TrustedCertificates::new(found).map(Some).map_err(|error| failed(&error))
}

/// Returns a URL with a clean path, as Kubernetes calls it: without empty steps, `.`, `..` and a last slash.
fn cleaned(url: &str) -> String {
    let Ok(mut parsed) = Url::parse(url) else { return url.to_owned() };
    let steps: Vec<&str> = parsed.path().split('/').filter(|step| !step.is_empty()).collect();
    let path = format!("/{}", steps.join("/"));
    parsed.set_path(&path);
    parsed.to_string()
}

impl WebhookConnection {
    /// Returns the connection to a webhook whose answers may take `timeout`.
    pub(crate) fn new(settings: WebhookClient, timeout: Duration) -> Self {
        let base = match &settings.target {
            WebhookTarget::Url(url) => cleaned(url),
            WebhookTarget::Service { namespace, name, path, port } => {
                format!("https://{name}.{namespace}.svc:{port}/{}", path.trim_start_matches('/'))
            }
        };
        let url = format!("{base}?timeout={}s", timeout.as_secs());
        Self { url, timeout, settings, client: OnceLock::new() }
    }

    /// Returns a failure of the call, in the words of Kubernetes.
    pub(crate) fn failed(&self, reason: &str) -> String {
        format!("Post {:?}: {reason}", self.url)
    }

    /// Returns the failure of a call that took too long.
    pub(crate) fn late(&self) -> String {
        self.failed("context deadline exceeded")
    }

    fn client(&self) -> Result<&Client, String> {
        let built = self.client.get_or_init(|| match &self.settings.target {
            WebhookTarget::Url(_) => client(self.settings.ca_bundle.as_deref(), self.timeout),
            WebhookTarget::Service { .. } => {
                Err("no cluster resolves services of a host: set clientConfig.url".to_owned())
            }
        });
        built.as_ref().map_err(|reason| self.failed(reason))
    }

    /// Sends a review, and returns the answer. The caller bounds the time.
    ///
    /// *Cancel safety*: the webhook may or may not have seen the review.
    ///
    /// # Errors
    /// Why there is no answer, for a person.
    pub(crate) async fn call(&self, review: Vec<u8>) -> Result<Vec<u8>, String> {
        let client = self.client()?;
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

fn client(bundle: Option<&str>, timeout: Duration) -> Result<Client, String> {
    let builder = Client::builder().no_proxy().redirect(Policy::none()).retry(reqwest::retry::never());
    let builder = builder.https_only(true).connect_timeout(timeout);
    let builder = match trusted(bundle)? {
        Some(trusted) => {
            let config = trusted.into_client_config().map_err(|error| error.to_string())?;
            builder.tls_backend_preconfigured(config)
        }
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
