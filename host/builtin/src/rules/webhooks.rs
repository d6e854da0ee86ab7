//! Webhooks of admission.
//!
//! Source: `pkg/apis/admissionregistration/validation/validation.go` of Kubernetes.

use std::collections::BTreeSet;

use homeostat_cel::names::{DNS_1035_LABEL, DNS_1123_SUBDOMAIN};
use homeostat_store::schema::Violation;
use serde_json::Value;

use super::admission::{check_conditions, check_rule};
use super::names::PORT;
use super::report::{Report, items, text};
use super::url::Url;

/// The time that a webhook may have for its answer, in seconds.
const TIMEOUT_SECONDS: std::ops::RangeInclusive<i64> = 1..=30;
/// The versions of a review that an API server sends.
const REVIEW_VERSIONS: [&str; 2] = ["v1", "v1beta1"];
/// The side effects that a webhook can have; in a dry run, the first two have none.
const SIDE_EFFECTS: [&str; 4] = ["None", "NoneOnDryRun", "Some", "Unknown"];

/// The rules that webhooks obey. An update need not obey a rule that the stored webhooks violate: they can be older than it.
struct WebhookRules {
    without_side_effects: bool,
    known_versions: bool,
    unique_names: bool,
    selector_values: bool,
    match_conditions: bool,
}

impl WebhookRules {
    fn new(webhooks: &[Value], old: Option<&Value>) -> Self {
        let Some(old) = old.map(|old| items(&old["webhooks"])) else {
            return Self {
                without_side_effects: true,
                known_versions: true,
                unique_names: true,
                selector_values: true,
                match_conditions: true,
            };
        };
        let names: BTreeSet<&str> = old.iter().map(|webhook| text(&webhook["name"])).collect();
        let conditions = |webhooks: &[Value]| -> Vec<Value> {
            webhooks.iter().map(|webhook| webhook["matchConditions"].clone()).collect()
        };
        Self {
            without_side_effects: old.iter().all(|webhook| !has_side_effects(webhook)),
            known_versions: old.iter().all(|webhook| {
                let versions = items(&webhook["admissionReviewVersions"]);
                versions.is_empty() || has_known_version(versions)
            }),
            unique_names: names.len() == old.len(),
            selector_values: old.iter().all(has_valid_selectors),
            match_conditions: conditions(webhooks) != conditions(old),
        }
    }
}

/// Returns whether a webhook may have side effects in a dry run.
fn has_side_effects(webhook: &Value) -> bool {
    !SIDE_EFFECTS[..2].contains(&text(&webhook["sideEffects"]))
}

fn has_known_version(versions: &[Value]) -> bool {
    versions.iter().any(|version| REVIEW_VERSIONS.contains(&text(version)))
}

fn has_valid_selectors(webhook: &Value) -> bool {
    let mut report = Report::new(webhook, None, None);
    report.selector("", &webhook["namespaceSelector"]);
    report.selector("", &webhook["objectSelector"]);
    report.found.is_empty()
}

pub(super) fn check(report: &mut Report<'_>) {
    let webhooks = items(report.at("/webhooks"));
    let rules = WebhookRules::new(webhooks, report.old);
    let mut names = BTreeSet::new();
    for (at, webhook) in webhooks.iter().enumerate() {
        let path = format!("webhooks[{at}]");
        check_webhook(report, webhook, &path, &rules);
        let name = text(&webhook["name"]);
        if rules.unique_names && !name.is_empty() && !names.insert(name) {
            report.duplicate(format!("{path}.name"), &webhook["name"]);
        }
    }
}

fn check_webhook(report: &mut Report<'_>, webhook: &Value, path: &str, rules: &WebhookRules) {
    let name = text(&webhook["name"]);
    if !name.is_empty() && !DNS_1123_SUBDOMAIN.fits(name) {
        report.subdomain(format!("{path}.name"), &webhook["name"]);
    } else if !name.is_empty() && name.split('.').count() < 3 {
        let detail = "should be a domain with at least three segments separated by dots";
        report.invalid(format!("{path}.name"), &webhook["name"], detail);
    }
    for (at, rule) in items(&webhook["rules"]).iter().enumerate() {
        check_rule(report, rule, &format!("{path}.rules[{at}]"));
    }
    check_side_effects(report, &webhook["sideEffects"], format!("{path}.sideEffects"), rules);
    let seconds = &webhook["timeoutSeconds"];
    if seconds.as_i64().is_some_and(|seconds| !TIMEOUT_SECONDS.contains(&seconds)) {
        let detail = "the timeout value must be between 1 and 30 seconds";
        report.invalid(format!("{path}.timeoutSeconds"), seconds, detail);
    }
    for name in ["namespaceSelector", "objectSelector"] {
        report.selector_with(&format!("{path}.{name}"), &webhook[name], rules.selector_values);
    }
    check_client(report, &webhook["clientConfig"], &format!("{path}.clientConfig"));
    if rules.match_conditions {
        check_conditions(report, &webhook["matchConditions"], &format!("{path}.matchConditions"), false);
    }
    check_review_versions(
        report,
        &webhook["admissionReviewVersions"],
        &format!("{path}.admissionReviewVersions"),
        "must specify one of v1, v1beta1",
        rules.known_versions,
    );
}

/// Checks what a webhook does in a dry run.
fn check_side_effects(report: &mut Report<'_>, effects: &Value, path: String, rules: &WebhookRules) {
    let allowed = if rules.without_side_effects { &SIDE_EFFECTS[..2] } else { &SIDE_EFFECTS };
    if effects.is_null() {
        report.required(path, &format!("must specify one of {}", allowed.join(", ")));
    } else if !allowed.contains(&text(effects)) {
        report.unsupported(path, effects, allowed);
    }
}

/// Checks which versions of reviews a webhook knows. `missing` says what it needs if it knows none.
fn check_review_versions(report: &mut Report<'_>, known: &Value, path: &str, missing: &str, needs_known: bool) {
    let versions = items(known);
    if versions.is_empty() {
        return report.required(path, missing);
    }
    let mut seen = BTreeSet::new();
    for (at, version) in versions.iter().enumerate() {
        let path = format!("{path}[{at}]");
        if !seen.insert(text(version)) {
            report.invalid(path, version, "duplicate version");
        } else {
            report.form(path, version, &DNS_1035_LABEL);
        }
    }
    if needs_known && !has_known_version(versions) {
        report.invalid(path, known, "must include at least one of v1, v1beta1");
    }
}

/// Returns what is wrong with the webhook by which a definition converts its resources, with the paths of the fields in
/// `spec.conversion` of the internal form.
pub fn check_conversion_webhook(webhook: &Value) -> Vec<Violation> {
    let mut report = Report::new(webhook, None, None);
    let client = &webhook["clientConfig"];
    if client.is_object() {
        check_client(&mut report, client, "spec.conversion.webhookClientConfig");
    } else {
        report.required("spec.conversion.webhookClientConfig", "required when strategy is set to Webhook");
    }
    let versions = "spec.conversion.conversionReviewVersions";
    check_review_versions(&mut report, &webhook["conversionReviewVersions"], versions, "", true);
    report.found
}

/// Checks where a webhook is.
fn check_client(report: &mut Report<'_>, client: &Value, path: &str) {
    match (&client["url"], &client["service"]) {
        (Value::String(url), Value::Null) => check_url(report, url, &format!("{path}.url")),
        (Value::Null, service) if service.is_object() => check_service(report, service, &format!("{path}.service")),
        _ => report.required(path, "exactly one of url or service is required"),
    }
}

fn check_service(report: &mut Report<'_>, service: &Value, path: &str) {
    // Kubernetes confuses the two.
    for (field, reported) in [("namespace", "name"), ("name", "namespace")] {
        if text(&service[field]).is_empty() {
            report.required(format!("{path}.{reported}"), "");
        }
    }
    let port = &service["port"];
    if port.as_i64().is_some_and(|number| !(1..=65535).contains(&number)) {
        report.invalid(format!("{path}.port"), port, &format!("port is not valid: {PORT}"));
    }
    let (url, path) = (text(&service["path"]), format!("{path}.path"));
    if url.is_empty() || url == "/" {
        return;
    }
    if !url.starts_with('/') {
        report.invalid(path.clone(), &service["path"], "must start with a '/'");
    }
    // Kubernetes takes the first character for a slash.
    let steps = url.char_indices().nth(1).map_or("", |(at, _)| &url[at..]);
    for (at, step) in steps.strip_suffix('/').unwrap_or(steps).split('/').enumerate() {
        if step.is_empty() {
            report.invalid(path.clone(), &service["path"], &format!("segment[{at}] may not be empty"));
        }
        for fault in DNS_1123_SUBDOMAIN.faults(step).iter().filter(|_| !step.is_empty()) {
            report.invalid(path.clone(), &service["path"], &format!("segment[{at}]: {fault}"));
        }
    }
}

/// Checks the URL of a webhook.
fn check_url(report: &mut Report<'_>, url: &str, path: &str) {
    const FORM: &str = "desired format: https://host[/path]";
    let url = match Url::parse(url) {
        Ok(url) => url,
        Err(error) => return report.required(path, &format!("url must be a valid URL: {error}; {FORM}")),
    };
    if url.scheme != "https" {
        let detail = format!("'https' is the only allowed URL scheme; {FORM}");
        report.invalid(path, &url.scheme.as_str().into(), &detail);
    }
    if url.host.is_empty() {
        report.invalid(path, &url.host.into(), &format!("host must be specified; {FORM}"));
    }
    if let Some(user) = url.user {
        report.invalid(path, &user.into(), "user information is not permitted in the URL");
    }
    for (part, name) in [(url.fragment, "fragments"), (url.query, "query parameters")] {
        if !part.is_empty() {
            report.invalid(path, &part.into(), &format!("{name} are not permitted in the URL"));
        }
    }
}
