//! How a definition says that the documents of its kind get from one version to another.
//!
//! Source: `validateCustomResourceConversion` and `ValidateWebhookURL` of Kubernetes.

use crate::fields::FieldReader;
use crate::{Result, validate};

/// How the documents of a kind get from one version to another.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Conversion {
    /// Only the `apiVersion` differs.
    #[default]
    None,
    /// A webhook converts documents.
    Webhook(WebhookClient),
    /// The component of the controller of this name converts documents.
    Component(String),
}

/// The annotation of a definition that names the controller whose component converts documents, whatever `spec.conversion`
/// says. So a definition can have a webhook for Kubernetes clusters.
pub const CONVERTER: &str = "homeostat.dev/converter";

/// A webhook, and whom it is trusted by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookClient {
    /// Where it is.
    pub target: WebhookTarget,
    /// The authorities that may have signed its certificate, as PEM in base64; `None` for those of the system.
    pub ca_bundle: Option<String>,
}

/// The place of a webhook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WebhookTarget {
    /// An `https` URL without user, query and fragment.
    Url(String),
    /// A service in a cluster.
    Service {
        /// The namespace of the service.
        namespace: String,
        /// The name of the service.
        name: String,
        /// The path of the URL; may be empty.
        path: String,
        /// The port of the service.
        port: u64,
    },
}

/// The version of reviews that the host sends.
const REVIEW_VERSION: &str = "v1";

/// Reads `spec.conversion` and the annotation [`CONVERTER`].
pub(super) fn conversion(metadata: &FieldReader<'_>, spec: &FieldReader<'_>) -> Result<Conversion> {
    let specified = specified(spec)?;
    let Some(annotations) = metadata.object("annotations")? else { return Ok(specified) };
    let Some(controller) = annotations.text(CONVERTER)? else { return Ok(specified) };
    validate::subdomain(&annotations.path().field(CONVERTER).to_string(), controller)?;
    Ok(Conversion::Component(controller.to_owned()))
}

fn specified(spec: &FieldReader<'_>) -> Result<Conversion> {
    let Some(fields) = spec.object("conversion")? else { return Ok(Conversion::None) };
    match fields.text("strategy")? {
        None | Some("" | "None") if fields.get("webhook").is_some() => {
            Err(fields.error("webhook", "should not be set when strategy is not set to Webhook"))
        }
        None | Some("" | "None") => Ok(Conversion::None),
        Some("Webhook") => webhook(&fields).map(Conversion::Webhook),
        Some(_) => Err(fields.error("strategy", "must be None or Webhook")),
    }
}

fn webhook(conversion: &FieldReader<'_>) -> Result<WebhookClient> {
    let webhook = conversion.required_object("webhook")?;
    let versions = webhook.texts("conversionReviewVersions")?;
    if !versions.iter().any(|version| version == REVIEW_VERSION) {
        return Err(webhook.error("conversionReviewVersions", format!("must include {REVIEW_VERSION}")));
    }
    let client = webhook.required_object("clientConfig")?;
    let ca_bundle = client.text("caBundle")?.filter(|text| !text.is_empty()).map(str::to_owned);
    let target = match (client.text("url")?, client.object("service")?) {
        (Some(url), None) => WebhookTarget::Url(checked_url(&client, url)?),
        (None, Some(service)) => self::service(&service)?,
        _ => {
            let path = client.path().to_string();
            return Err(crate::Error::invalid(path, "exactly one of url or service is required"));
        }
    };
    Ok(WebhookClient { target, ca_bundle })
}

fn checked_url(client: &FieldReader<'_>, url: &str) -> Result<String> {
    let refused = |reason: &str| Err(client.error("url", reason));
    let Some(rest) = url.strip_prefix("https://") else { return refused("'https' is the only allowed URL scheme") };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if authority.is_empty() {
        return refused("host must be specified");
    }
    if authority.contains('@') {
        return refused("user information is not permitted in the URL");
    }
    if rest.contains('#') {
        return refused("fragments are not permitted in the URL");
    }
    if rest.contains('?') {
        return refused("query parameters are not permitted in the URL");
    }
    Ok(url.to_owned())
}

fn service(fields: &FieldReader<'_>) -> Result<WebhookTarget> {
    let port = fields.count("port")?.unwrap_or(443);
    if !(1..=65535).contains(&port) {
        return Err(fields.error("port", "must be between 1 and 65535"));
    }
    Ok(WebhookTarget::Service {
        namespace: fields.required_text("namespace")?.to_owned(),
        name: fields.required_text("name")?.to_owned(),
        path: fields.text("path")?.unwrap_or_default().to_owned(),
        port,
    })
}
