//! One webhook of a configuration, as it is stored and as it acts.

use std::time::Duration;

use homeostat_cel::Definitions;
use homeostat_store::Resource;
use homeostat_store::definition::{WebhookClient, WebhookTarget};
use serde_json::Value;

use super::configurations::Origin;
use super::constraints::{Constraints, texts};
use super::expressions::{Inputs, MatchConditions};
use crate::webhook_connection::WebhookConnection;

/// The time of a webhook that states none.
const TIMEOUT_S: u64 = 10;

/// A webhook that is called for the writes that it matches.
pub(super) struct AdmissionWebhook {
    /// The configuration.
    pub(super) origin: Origin,
    pub(super) name: String,
    pub(super) constraints: Constraints,
    /// The first known version of a review that it reads.
    pub(super) review_version: Option<&'static str>,
    pub(super) ignores_failures: bool,
    /// It may be called for a dry run.
    pub(super) is_free_of_side_effects: bool,
    /// It is called again if a later webhook changes the document.
    pub(super) is_called_again: bool,
    pub(super) timeout: Duration,
    pub(super) connection: WebhookConnection,
    conditions: MatchConditions,
}

/// Returns the webhooks of a configuration that can be called: those with a URL.
pub(super) fn webhooks(configuration: &Resource) -> Vec<AdmissionWebhook> {
    let webhooks = configuration.document()["webhooks"].as_array().into_iter().flatten();
    webhooks.filter_map(|webhook| AdmissionWebhook::new(configuration, webhook)).collect()
}

impl AdmissionWebhook {
    fn new(configuration: &Resource, webhook: &Value) -> Option<Self> {
        let client = &webhook["clientConfig"];
        let url = client["url"].as_str()?.to_owned();
        let ca_bundle = client["caBundle"].as_str().filter(|bundle| !bundle.is_empty()).map(str::to_owned);
        let timeout = Duration::from_secs(webhook["timeoutSeconds"].as_u64().unwrap_or(TIMEOUT_S));
        let versions = texts(&webhook["admissionReviewVersions"]);
        let known = |version: &String| ["v1", "v1beta1"].into_iter().find(|known| version == known);
        Some(Self {
            origin: Origin::of(configuration),
            name: webhook["name"].as_str().unwrap_or_default().to_owned(),
            constraints: Constraints::of_webhook(webhook)?,
            review_version: versions.iter().find_map(known),
            ignores_failures: webhook["failurePolicy"] == "Ignore",
            is_free_of_side_effects: ["None", "NoneOnDryRun"].iter().any(|effects| webhook["sideEffects"] == *effects),
            is_called_again: webhook["reinvocationPolicy"] == "IfNeeded",
            timeout,
            connection: WebhookConnection::new(WebhookClient { target: WebhookTarget::Url(url), ca_bundle }, timeout),
            conditions: MatchConditions::new(&webhook["matchConditions"], &Definitions::default()),
        })
    }

    pub(super) fn has_conditions(&self) -> bool {
        !self.conditions.is_empty()
    }

    /// Returns whether the match conditions hold for the request of a review.
    ///
    /// # Errors
    /// As [`MatchConditions::hold`], unless failures are ignored.
    pub(super) fn meets_conditions(&self, request: &Value) -> Result<bool, String> {
        match self.conditions.hold(Inputs::of_request(request), &Definitions::default()) {
            Err(_) if self.ignores_failures => Ok(false),
            held => held,
        }
    }
}
