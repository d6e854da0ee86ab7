//! The claims of devices that the containers of a pod use.

use std::collections::BTreeSet;

use homeostat_cel::names::DNS_1123_SUBDOMAIN;
use serde_json::Value;

use super::annotations::MIRROR;
use super::spec::PodSpec;
use crate::rules::report::{Report, items, text};

const SOURCES: [&str; 2] = ["resourceClaimName", "resourceClaimTemplateName"];

/// Checks the claims of a pod.
pub(super) fn check(report: &mut Report<'_>, pod: &PodSpec<'_>) {
    let is_static = pod.is_of_pod && report.at("/metadata/annotations").get(MIRROR).is_some();
    let mut names = BTreeSet::new();
    for (at, claim) in items(&pod.fields["resourceClaims"]).iter().enumerate() {
        let path = format!("{}.resourceClaims[{at}]", pod.path);
        if is_static {
            report.forbidden("", "static pods do not support resource claims");
            continue;
        }
        check_name(report, text(&claim["name"]), format!("{path}.name"), &mut names);
        check_source(report, claim, &path);
    }
}

fn check_name<'c>(report: &mut Report<'_>, name: &'c str, path: String, names: &mut BTreeSet<&'c str>) {
    if name.is_empty() {
        report.required(path, "");
    } else if names.insert(name) {
        report.label(path, &name.into());
    } else {
        report.duplicate(path, &name.into());
    }
}

fn check_source(report: &mut Report<'_>, claim: &Value, path: &str) {
    match SOURCES.iter().filter(|name| claim[**name].is_string()).count() {
        0 => report.invalid(path, claim, "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"),
        1 => {}
        _ => {
            let detail = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified";
            report.invalid(path, claim, detail);
        }
    }
    for name in SOURCES.into_iter().filter(|name| claim[*name].is_string()) {
        report.form(format!("{path}.{name}"), &claim[name], &DNS_1123_SUBDOMAIN);
    }
}
