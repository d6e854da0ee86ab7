//! Registered API services, requests for certificates, and runtimes of containers.

use std::collections::BTreeSet;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use homeostat_cel::names::DNS_1035_LABEL;
use homeostat_store::schema::quantity_in_nanos;
use serde_json::Value;

use super::names::PORT;
use super::pods::check_tolerations;
use super::report::{Report, text};
use super::resource_names::check_container_resource;

/// The priorities of an API service.
const GROUP_PRIORITY: std::ops::RangeInclusive<i64> = 1..=20_000;
const VERSION_PRIORITY: std::ops::RangeInclusive<i64> = 1..=1_000;

/// The least life of a certificate, in seconds.
const CERTIFICATE_SECONDS_MIN: i64 = 600;

/// The usages of a key in a certificate. Source: `k8s.io/api/certificates/v1`.
const USAGES: [&str; 23] = [
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
];

/// A signer that no request names any more.
const LEGACY_SIGNER: &str = "kubernetes.io/legacy-unknown";

pub(super) fn check_api_service(report: &mut Report<'_>) {
    let spec = report.at("/spec");
    let field = |name: &str| text(&spec[name]);
    let required = [field("version"), field("group")].join(".");
    let name = report.at("/metadata/name");
    if name.as_str().is_some_and(|name| !name.is_empty() && name != required) {
        report.invalid("metadata.name", name, &format!("must be `spec.version+\".\"+spec.group`: {required:?}"));
    }
    match field("group") {
        "" if field("version") != "v1" => {
            report.required("spec.group", "only v1 may have an empty group and it better be legacy kube");
        }
        "" => {}
        group => report.subdomain("spec.group".to_owned(), &group.into()),
    }
    report.form("spec.version", &field("version").into(), &DNS_1035_LABEL);
    for (name, range) in [("groupPriorityMinimum", GROUP_PRIORITY), ("versionPriority", VERSION_PRIORITY)] {
        if !spec[name].as_i64().is_some_and(|priority| range.contains(&priority)) {
            let detail = format!("must be positive and less than {}", range.end());
            report.invalid(format!("spec.{name}"), &spec[name], &detail);
        }
    }
    check_service(report, spec);
}

/// Checks where an API service is.
fn check_service(report: &mut Report<'_>, spec: &Value) {
    let (bundle, skips) = (!text(&spec["caBundle"]).is_empty(), spec["insecureSkipTLSVerify"] == true);
    let service = &spec["service"];
    if !service.is_object() {
        if bundle {
            report.invalid("spec.caBundle", &"".into(), "local APIServices may not have a caBundle");
        }
        if skips {
            let detail = "local APIServices may not have insecureSkipTLSVerify";
            report.invalid("spec.insecureSkipTLSVerify", &true.into(), detail);
        }
        return;
    }
    for name in ["namespace", "name"] {
        if text(&service[name]).is_empty() {
            report.required(format!("spec.service.{name}"), "");
        }
    }
    let port = service["port"].as_i64().unwrap_or(0);
    if !(1..=65535).contains(&port) {
        report.invalid("spec.service.port", &port.into(), &format!("port is not valid: {PORT}"));
    }
    if skips && bundle {
        report.invalid("spec.insecureSkipTLSVerify", &true.into(), "may not be true if caBundle is present");
    }
}

/// The specification of a request for a certificate never changes.
pub(super) fn certificate_request_defaults(request: &mut Value, old: Option<&Value>) {
    if let Some(old) = old {
        request["spec"] = old["spec"].clone();
    }
}

pub(super) fn check_certificate_request(report: &mut Report<'_>) {
    let spec = report.at("/spec");
    if let Err(detail) = request_of(spec["request"].as_str().unwrap_or_default()) {
        report.invalid("spec.request", &spec["request"], detail);
    }
    let usages = spec["usages"].as_array().map(Vec::as_slice).unwrap_or_default();
    if usages.is_empty() {
        report.required("spec.usages", "");
    }
    let mut seen = BTreeSet::new();
    for (at, usage) in usages.iter().enumerate() {
        if !USAGES.iter().any(|known| usage == known) {
            report.unsupported(format!("spec.usages[{at}]"), usage, &USAGES);
        }
        if !seen.insert(usage.as_str()) {
            report.duplicate(format!("spec.usages[{at}]"), usage);
        }
    }
    if text(&spec["signerName"]).is_empty() {
        report.required("spec.signerName", "");
    }
    check_signer(report, &spec["signerName"]);
    let seconds = &spec["expirationSeconds"];
    if seconds.as_i64().is_some_and(|seconds| seconds < CERTIFICATE_SECONDS_MIN) {
        let detail = "may not specify a duration less than 600 seconds (10 minutes)";
        report.invalid("spec.expirationSeconds", seconds, detail);
    }
}

/// Returns whether a request for a certificate names a group as one of the organizations of its subject. `encoded` is
/// the text of `spec.request`.
///
/// Its DER has an organization as the identifier 2.5.4.10, the type of a text, its length in one byte, and the text.
pub fn requests_group(encoded: &str, group: &str) -> bool {
    const ORGANIZATION: [u8; 5] = [0x06, 0x03, 0x55, 0x04, 0x0a];
    let Ok(der) = request_of(encoded) else { return false };
    let is_named = |at: usize| {
        let text = der.get(at + ORGANIZATION.len() + 1..).and_then(|rest| rest.split_first());
        text.is_some_and(|(length, rest)| usize::from(*length) == group.len() && rest.starts_with(group.as_bytes()))
    };
    der.windows(ORGANIZATION.len()).enumerate().any(|(at, found)| found == ORGANIZATION && is_named(at))
}

/// Returns a request for a certificate in DER, if a text is one in PEM that is whole by its length. Its signer checks its
/// signature.
fn request_of(encoded: &str) -> Result<Vec<u8>, &'static str> {
    const ERROR: &str = "PEM block type must be CERTIFICATE REQUEST";
    let pem = STANDARD.decode(encoded).ok().and_then(|bytes| String::from_utf8(bytes).ok()).ok_or(ERROR)?;
    let (_, rest) = pem.split_once("-----BEGIN CERTIFICATE REQUEST-----").ok_or(ERROR)?;
    let (body, _) = rest.split_once("-----END CERTIFICATE REQUEST-----").ok_or(ERROR)?;
    let body: String = body.split_ascii_whitespace().collect();
    let der = STANDARD.decode(body).map_err(|_| ERROR)?;
    // A sequence, with its length in one, two or three bytes.
    let length = match der.as_slice() {
        [0x30, length @ ..=0x7f, rest @ ..] => (usize::from(*length), rest.len()),
        [0x30, 0x81, length, rest @ ..] => (usize::from(*length), rest.len()),
        [0x30, 0x82, high, low, rest @ ..] => (usize::from(*high) << 8 | usize::from(*low), rest.len()),
        _ => return Err("asn1: structure error"),
    };
    if length.0 == length.1 { Ok(der) } else { Err("asn1: syntax error: data truncated") }
}

/// Checks the name of a signer: a domain, a slash and a path of names, each of them as a subdomain.
fn check_signer(report: &mut Report<'_>, signer: &Value) {
    let Some(name) = signer.as_str().filter(|name| !name.is_empty()) else { return };
    let path = "spec.signerName";
    if name == LEGACY_SIGNER {
        return report.invalid(path, signer, "the legacy signerName is not allowed via this API version");
    }
    let Some((domain, rest)) = name.split_once('/').filter(|(_, rest)| !rest.contains('/')) else {
        return report.invalid(
            path,
            signer,
            "must be a fully qualified domain and path of the form 'example.com/signer-name'",
        );
    };
    if !domain.contains('.') {
        report.invalid(path, &domain.into(), "should be a domain with at least two segments separated by dots");
    }
    for part in std::iter::once(domain).chain(rest.split('.')) {
        report.subdomain(path.to_owned(), &part.into());
    }
}

pub(super) fn check_runtime_class(report: &mut Report<'_>) {
    let handler = report.at("/handler");
    if !text(handler).is_empty() {
        report.label("handler".to_owned(), handler);
    }
    for (name, amount) in report.at("/overhead/podFixed").as_object().into_iter().flatten() {
        check_container_resource(report, name, &format!("overhead.limits[{name}]"));
        if quantity_in_nanos(amount).is_some_and(|amount| amount < 0) {
            report.invalid(format!("overhead.limits[{name}]"), amount, "must be greater than or equal to 0");
        }
    }
    report.labels("scheduling.nodeSelector", report.at("/scheduling/nodeSelector"));
    check_tolerations(report, report.at("/scheduling/tolerations"), "scheduling.tolerations");
    let mut seen = BTreeSet::new();
    for (at, toleration) in report.at("/scheduling/tolerations").as_array().into_iter().flatten().enumerate() {
        let path = format!("scheduling.tolerations[{at}]");
        if !seen.insert(["key", "operator", "value", "effect"].map(|name| text(&toleration[name]))) {
            report.duplicate(path, toleration);
        }
    }
    report.immutable("/handler");
}

#[cfg(test)]
mod tests;
