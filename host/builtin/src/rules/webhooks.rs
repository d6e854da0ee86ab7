//! Webhooks of admission. They are stored, and not called.
//!
//! Source: `pkg/apis/admissionregistration/validation/validation.go` of Kubernetes.

use std::collections::BTreeSet;

use serde_json::Value;

use super::admission::{check_conditions, check_rule};
use super::names::{VERSION, is_subdomain, is_version};
use super::report::{Report, items, text};
use super::url::Url;

/// The time that a webhook may have for its answer, in seconds.
const TIMEOUT_SECONDS: std::ops::RangeInclusive<i64> = 1..=30;
/// The versions of a review that an API server sends.
const REVIEW_VERSIONS: [&str; 2] = ["v1", "v1beta1"];

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

/// Returns whether a webhook may have side effects in a dry run. The schema refuses values that Kubernetes does not know.
fn has_side_effects(webhook: &Value) -> bool {
    ["Some", "Unknown"].contains(&text(&webhook["sideEffects"]))
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
    if !name.is_empty() && !is_subdomain(name) {
        report.subdomain(format!("{path}.name"), &webhook["name"]);
    } else if !name.is_empty() && name.split('.').count() < 3 {
        let detail = "should be a domain with at least three segments separated by dots";
        report.invalid(format!("{path}.name"), &webhook["name"], detail);
    }
    for (at, rule) in items(&webhook["rules"]).iter().enumerate() {
        check_rule(report, rule, &format!("{path}.rules[{at}]"));
    }
    if rules.without_side_effects && has_side_effects(webhook) {
        report.unsupported(format!("{path}.sideEffects"), &webhook["sideEffects"], &["None", "NoneOnDryRun"]);
    }
    let seconds = &webhook["timeoutSeconds"];
    if seconds.as_i64().is_some_and(|seconds| !TIMEOUT_SECONDS.contains(&seconds)) {
        let detail = "the timeout value must be between 1 and 30 seconds";
        report.invalid(format!("{path}.timeoutSeconds"), seconds, detail);
    }
    for name in ["namespaceSelector", "objectSelector"] {
        let path = format!("{path}.{name}");
        report.selector(&path, &webhook[name]);
        if !rules.selector_values {
            let is_value = |path: &str| path.ends_with(']') && path.contains(".values[");
            report.found.retain(|found| !(found.path.starts_with(&path) && is_value(&found.path)));
        }
    }
    check_client(report, &webhook["clientConfig"], &format!("{path}.clientConfig"));
    if rules.match_conditions {
        check_conditions(report, &webhook["matchConditions"], &format!("{path}.matchConditions"), false);
    }
    check_review_versions(report, webhook, &format!("{path}.admissionReviewVersions"), rules);
}

fn check_review_versions(report: &mut Report<'_>, webhook: &Value, path: &str, rules: &WebhookRules) {
    let versions = items(&webhook["admissionReviewVersions"]);
    if versions.is_empty() {
        return report.required(path, "must specify one of v1, v1beta1");
    }
    let mut seen = BTreeSet::new();
    for (at, version) in versions.iter().enumerate() {
        let path = format!("{path}[{at}]");
        if !seen.insert(text(version)) {
            report.invalid(path, version, "duplicate version");
        } else if !is_version(text(version)) {
            report.invalid(path, version, VERSION);
        }
    }
    if rules.known_versions && !has_known_version(versions) {
        report.invalid(path, &webhook["admissionReviewVersions"], "must include at least one of v1, v1beta1");
    }
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
    if !service["port"].is_null() {
        report.port(format!("{path}.port"), &service["port"]);
    }
    let (url, path) = (text(&service["path"]), format!("{path}.path"));
    if url.is_empty() || url == "/" {
        return;
    }
    let Some(steps) = url.strip_prefix('/') else {
        return report.invalid(path, &service["path"], "must start with a '/'");
    };
    for (at, step) in steps.strip_suffix('/').unwrap_or(steps).split('/').enumerate() {
        if step.is_empty() {
            report.invalid(path.clone(), &service["path"], &format!("segment[{at}] may not be empty"));
        } else if !is_subdomain(step) {
            let detail = format!("segment[{at}]: a lowercase RFC 1123 subdomain is required");
            report.invalid(path.clone(), &service["path"], &detail);
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
