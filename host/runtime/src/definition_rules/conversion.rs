//! How a definition converts resources from version to version.

use homeostat_cel::names::DNS_1035_LABEL;
use homeostat_store::schema::{Reason, Violation};
use serde_json::Value;

use super::{form, invalid, text, violation};

/// The versions of reviews of which a webhook knows one.
const REVIEW_VERSIONS: [&str; 2] = ["v1", "v1beta1"];

/// Checks `spec.conversion`. Kubernetes names its fields as those of an older version.
pub(super) fn check(conversion: &Value, violations: &mut Vec<Violation>) {
    if !conversion.is_object() {
        return;
    }
    let (client, versions) = ("spec.conversion.webhookClientConfig", "spec.conversion.conversionReviewVersions");
    let webhook = &conversion["webhook"];
    let reviewed = webhook["conversionReviewVersions"].as_array().map(Vec::as_slice).unwrap_or_default();
    match text(&conversion["strategy"]) {
        "Webhook" => {
            check_client(&webhook["clientConfig"], client, violations);
            check_review_versions(reviewed, versions, violations);
            return;
        }
        "None" => {}
        "" => violations.push(violation("spec.conversion.strategy", Reason::Required, "")),
        other => {
            let detail = format!("{other:?}: supported values: \"None\", \"Webhook\"");
            violations.push(violation("spec.conversion.strategy", Reason::Unsupported, detail));
        }
    }
    let words = "should not be set when strategy is not set to Webhook";
    if webhook["clientConfig"].is_object() {
        violations.push(violation(client, Reason::Forbidden, words));
    }
    if !reviewed.is_empty() {
        violations.push(violation(versions, Reason::Forbidden, words));
    }
}

/// Checks where a webhook is.
fn check_client(client: &Value, path: &str, violations: &mut Vec<Violation>) {
    if !client.is_object() {
        return violations.push(violation(path, Reason::Required, "required when strategy is set to Webhook"));
    }
    match (client["url"].as_str(), client["service"].is_object()) {
        (Some(url), false) => check_url(url, &format!("{path}.url"), violations),
        (None, true) => {
            let service = &client["service"];
            for name in ["name", "namespace"].into_iter().filter(|name| text(&service[*name]).is_empty()) {
                violations.push(violation(format!("{path}.service.{name}"), Reason::Required, ""));
            }
            if service["port"].as_i64().is_some_and(|port| !(1..=65535).contains(&port)) {
                let detail = format!("{}: port is not valid: must be between 1 and 65535, inclusive", service["port"]);
                violations.push(invalid(format!("{path}.service.port"), detail));
            }
        }
        _ => violations.push(violation(path, Reason::Required, "exactly one of url or service is required")),
    }
}

fn check_url(url: &str, path: &str, violations: &mut Vec<Violation>) {
    const FORM: &str = "desired format: https://host[/path]";
    let (url, fragment) = url.split_once('#').unwrap_or((url, ""));
    let (url, query) = url.split_once('?').unwrap_or((url, ""));
    let (scheme, rest) = url.split_once("://").unwrap_or(("", ""));
    let authority = rest.split('/').next().unwrap_or_default();
    let (user, host) = authority.rsplit_once('@').map_or((None, authority), |(user, host)| (Some(user), host));
    let faults = [
        (scheme != "https", scheme, format!("'https' is the only allowed URL scheme; {FORM}")),
        (host.is_empty(), host, format!("host must be specified; {FORM}")),
        (user.is_some(), user.unwrap_or_default(), "user information is not permitted in the URL".to_owned()),
        (!fragment.is_empty(), fragment, "fragments are not permitted in the URL".to_owned()),
        (!query.is_empty(), query, "query parameters are not permitted in the URL".to_owned()),
    ];
    for (_, value, fault) in faults.into_iter().filter(|(is_faulty, ..)| *is_faulty) {
        violations.push(invalid(path, format!("{value:?}: {fault}")));
    }
}

/// Checks which versions of reviews a webhook knows.
fn check_review_versions(versions: &[Value], path: &str, violations: &mut Vec<Violation>) {
    if versions.is_empty() {
        return violations.push(violation(path, Reason::Required, ""));
    }
    for (at, version) in versions.iter().enumerate() {
        let path = format!("{path}[{at}]");
        if versions[..at].contains(version) {
            violations.push(invalid(path, format!("{version}: duplicate version")));
        } else {
            form(path, version, &DNS_1035_LABEL, violations);
        }
    }
    if !versions.iter().any(|version| REVIEW_VERSIONS.contains(&text(version))) {
        let shown = Value::from(versions);
        let detail = format!("{shown}: must include at least one of {}", REVIEW_VERSIONS.join(", "));
        violations.push(invalid(path, detail));
    }
}
