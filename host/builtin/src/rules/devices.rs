//! The kinds of dynamic resource allocation: classes of devices, claims and their templates. Slices have a module of
//! their own.
//!
//! The cost of an expression in CEL is not checked, and neither is the status of a claim.
//!
//! Source: `pkg/apis/resource/validation`, `pkg/apis/resource/v1/defaults.go` and `pkg/registry/resource` of
//! Kubernetes.

pub(super) mod slices;

use std::collections::BTreeSet;

use homeostat_cel::names::{ANNOTATIONS_BYTES_MAX, DNS_1123_LABEL};
use serde_json::{Map, Value};

use super::defaults::{default, object_at};
use super::expressions::check_selector;
use super::report::{Report, items, text};
use super::resource_names::is_extended;

/// Most items of the lists of a class and of a claim.
const SELECTORS_MAX: usize = 32;
const REQUESTS_MAX: usize = 32;
const ALTERNATIVES_MAX: usize = 8;
const CONSTRAINTS_MAX: usize = 32;
const CONFIGS_MAX: usize = 32;
/// Most bytes of texts.
const EXPRESSION_BYTES_MAX: usize = 10 * 1024;
const PARAMETERS_BYTES_MAX: usize = 10 * 1024;
const IDENTIFIER_BYTES_MAX: usize = 32;

/// The effects of a taint on pods.
const EFFECTS: [&str; 3] = ["NoExecute", "NoSchedule", "None"];

/// Most bytes of the name of a pool.
const POOL_BYTES_MAX: usize = 253;

/// Sets the count of the requests of a claim.
pub(super) fn claim_defaults(claim: &mut Value, _old: Option<&Value>) {
    count_requests(claim.pointer_mut("/spec/devices/requests"));
}

/// Sets the count of the requests of a template.
pub(super) fn template_defaults(template: &mut Value, _old: Option<&Value>) {
    count_requests(template.pointer_mut("/spec/spec/devices/requests"));
}

fn count_requests(requests: Option<&mut Value>) {
    for request in requests.and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(exactly) = object_at(request, "/exactly") {
            count_devices(exactly);
        }
        let alternatives = request.get_mut("firstAvailable").and_then(Value::as_array_mut).into_iter().flatten();
        alternatives.filter_map(Value::as_object_mut).for_each(count_devices);
    }
}

/// Asks for one device where a request wants an exact count, and names none.
fn count_devices(request: &mut Map<String, Value>) {
    if request.get("allocationMode").is_some_and(|mode| mode == "ExactCount") {
        default(request, "count", 1);
    }
}

impl Report<'_> {
    /// Checks the length of a list, and returns its items with their paths. Those of a list that is too long are not
    /// checked.
    fn at_most<'v>(&mut self, path: &str, list: &'v Value, count_max: usize) -> Vec<(String, &'v Value)> {
        let items = items(list);
        if items.len() > count_max {
            self.too_many(path, items.len(), count_max);
            return Vec::new();
        }
        items.iter().enumerate().map(|(at, item)| (format!("{path}[{at}]"), item)).collect()
    }

    /// Checks that the items of a list have distinct keys.
    fn distinct(&mut self, items: &[(String, &Value)], key: fn(&Value) -> &Value) {
        let mut known = BTreeSet::new();
        for (path, item) in items {
            if !known.insert(text(key(item))) {
                self.duplicate(path.clone(), key(item));
            }
        }
    }
}

pub(super) fn check_class(report: &mut Report<'_>) {
    let spec = report.at("/spec");
    check_selectors(report, &spec["selectors"], "spec.selectors");
    let is_stored = report.old.is_some_and(|old| old["spec"]["config"] == spec["config"]);
    for (path, config) in report.at_most("spec.config", &spec["config"], CONFIGS_MAX) {
        check_config(report, config, &path, is_stored);
    }
    let name = &spec["extendedResourceName"];
    if !name.is_null() && !is_extended(text(name)) {
        report.invalid("spec.extendedResourceName", name, "must be a valid extended resource name");
    }
}

/// Checks a claim. A change of it is an error whatever it is, so that only a new claim is checked further.
pub(super) fn check_claim(report: &mut Report<'_>) {
    match report.old {
        None => check_devices(report, "/spec/devices", "spec.devices"),
        Some(_) => report.immutable("/spec"),
    }
}

pub(super) fn check_template(report: &mut Report<'_>) {
    check_metadata(report, "/spec/metadata", "spec.metadata");
    check_devices(report, "/spec/spec/devices", "spec.spec.devices");
    report.immutable("/spec");
}

/// Checks the metadata of the claims of a template: it has labels and annotations alone.
fn check_metadata(report: &mut Report<'_>, pointer: &str, path: &str) {
    let metadata = report.at(pointer);
    report.labels(&format!("{path}.labels"), &metadata["labels"]);
    let mut bytes = 0;
    for (name, value) in metadata["annotations"].as_object().into_iter().flatten() {
        bytes += name.len() + text(value).len();
        report.qualified_in_any_case(&format!("{path}.annotations"), &name.as_str().into());
    }
    if bytes > ANNOTATIONS_BYTES_MAX {
        report.too_long(format!("{path}.annotations"), ANNOTATIONS_BYTES_MAX);
    }
    for name in metadata.as_object().into_iter().flat_map(Map::keys) {
        match name.as_str() {
            "annotations" | "labels" => {}
            // As there.
            "uid" => report.forbidden(format!("{path}.uID"), "cannot be set"),
            name => report.forbidden(format!("{path}.{name}"), "cannot be set"),
        }
    }
}

/// Checks the devices that a claim asks for.
fn check_devices(report: &mut Report<'_>, pointer: &str, path: &str) {
    let devices = report.at(pointer);
    let requests = report.at_most(&format!("{path}.requests"), &devices["requests"], REQUESTS_MAX);
    for (path, request) in &requests {
        check_request(report, request, path);
    }
    report.distinct(&requests, |request| &request["name"]);
    let requests = items(&devices["requests"]);
    for (path, constraint) in report.at_most(&format!("{path}.constraints"), &devices["constraints"], CONSTRAINTS_MAX) {
        check_references(report, &constraint["requests"], &format!("{path}.requests"), requests);
        let name = ["matchAttribute", "distinctAttribute"].into_iter().find(|name| constraint[*name].is_string());
        match name {
            Some(name) => check_full_name(report, text(&constraint[name]), &format!("{path}.{name}")),
            None => report.required(
                path,
                // As there, also if none is set.
                "exactly one of \"matchAttribute\" or \"distinctAttribute\" is required, but multiple fields are set",
            ),
        }
    }
    for (path, config) in report.at_most(&format!("{path}.config"), &devices["config"], CONFIGS_MAX) {
        check_references(report, &config["requests"], &format!("{path}.requests"), requests);
        check_config(report, config, &path, false);
    }
}

fn check_request(report: &mut Report<'_>, request: &Value, path: &str) {
    report.label(format!("{path}.name"), &request["name"]);
    let (exactly, alternatives) = (&request["exactly"], &request["firstAvailable"]);
    let detail = "exactly one of `exactly` or `firstAvailable` is required";
    match (exactly.is_object(), !items(alternatives).is_empty()) {
        (false, false) => report.required(path, detail),
        (true, true) => report.invalid(path, &Value::Null, &format!("{detail}, but multiple fields are set")),
        (true, false) => check_demand(report, exactly, &format!("{path}.exactly")),
        (false, true) => {
            let alternatives = report.at_most(&format!("{path}.firstAvailable"), alternatives, ALTERNATIVES_MAX);
            for (path, alternative) in &alternatives {
                report.label(format!("{path}.name"), &alternative["name"]);
                check_demand(report, alternative, path);
            }
            report.distinct(&alternatives, |alternative| &alternative["name"]);
        }
    }
}

/// Checks how many devices of a class a request wants.
fn check_demand(report: &mut Report<'_>, demand: &Value, path: &str) {
    let class = format!("{path}.deviceClassName");
    match text(&demand["deviceClassName"]) {
        "" => report.required(class, ""),
        _ => report.subdomain(class, &demand["deviceClassName"]),
    }
    check_selectors(report, &demand["selectors"], &format!("{path}.selectors"));
    let (mode, count) = (&demand["allocationMode"], demand["count"].as_i64().unwrap_or(0));
    match text(mode) {
        "All" if count != 0 => {
            let detail = "must not be specified when allocationMode is 'All'";
            report.invalid(format!("{path}.count"), &count.into(), detail);
        }
        "ExactCount" if count <= 0 => {
            report.invalid(format!("{path}.count"), &count.into(), "must be greater than zero");
        }
        "All" | "ExactCount" => {}
        _ => report.unsupported(format!("{path}.allocationMode"), mode, &["All", "ExactCount"]),
    }
    check_tolerations(report, &demand["tolerations"], &format!("{path}.tolerations"));
}

fn check_selectors(report: &mut Report<'_>, selectors: &Value, path: &str) {
    for (path, selector) in report.at_most(path, selectors, SELECTORS_MAX) {
        if selector["cel"].is_object() {
            let (expression, path) = (&selector["cel"]["expression"], format!("{path}.cel.expression"));
            if text(expression).len() > EXPRESSION_BYTES_MAX {
                report.too_long(path, EXPRESSION_BYTES_MAX);
            } else {
                check_selector(report, expression, &path);
            }
        } else {
            report.required(format!("{path}.cel"), "");
        }
    }
}

fn check_tolerations(report: &mut Report<'_>, tolerations: &Value, path: &str) {
    for (at, toleration) in items(tolerations).iter().enumerate() {
        let path = format!("{path}[{at}]");
        let (key, operator, value) = (&toleration["key"], &toleration["operator"], &toleration["value"]);
        if !text(key).is_empty() {
            report.qualified(format!("{path}.key"), key);
        }
        match text(operator) {
            "Exists" if !text(value).is_empty() => {
                report.invalid(format!("{path}.value"), value, "must be empty for operator `Exists`");
            }
            "Equal" => report.label_value(format!("{path}.value"), value),
            "Exists" => {}
            "" => report.required(format!("{path}.operator"), ""),
            _ => report.unsupported(format!("{path}.operator"), operator, &["Equal", "Exists"]),
        }
        if !text(&toleration["effect"]).is_empty() {
            check_effect(report, &toleration["effect"], format!("{path}.effect"));
        }
    }
}

fn check_effect(report: &mut Report<'_>, effect: &Value, path: String) {
    match text(effect) {
        "" => report.required(path, ""),
        name if !EFFECTS.contains(&name) => report.unsupported(path, effect, &EFFECTS),
        _ => {}
    }
}

/// Checks that a list names requests of a claim.
fn check_references(report: &mut Report<'_>, names: &Value, path: &str, requests: &[Value]) {
    let names = report.at_most(path, names, REQUESTS_MAX);
    names.iter().for_each(|(path, name)| check_steps(report, text(name), path));
    names.iter().for_each(|(path, name)| check_is_reference(report, text(name), path, requests));
    report.distinct(&names, |name| name);
}

/// Checks that a text names a request of a claim.
pub(super) fn check_reference(report: &mut Report<'_>, name: &str, path: &str, requests: &[Value]) {
    check_steps(report, name, path);
    check_is_reference(report, name, path, requests);
}

/// Checks the names of a request and of its alternative in a reference.
fn check_steps(report: &mut Report<'_>, name: &str, path: &str) {
    for step in name.split('/').filter(|_| name.split('/').count() <= 2) {
        report.label(path.to_owned(), &step.into());
    }
}

fn check_is_reference(report: &mut Report<'_>, name: &str, path: &str, requests: &[Value]) {
    if !is_reference(name, requests) {
        let detail = "must be the name of a request in the claim or the name of a request and a subrequest separated \
            by '/'";
        report.invalid(path, &name.into(), detail);
    }
}

/// Checks the name of a pool of devices.
pub(super) fn check_pool_name(report: &mut Report<'_>, name: &str, path: &str) {
    if name.is_empty() {
        report.required(path, "");
    }
    for part in name.split('/').filter(|_| !name.is_empty()) {
        report.subdomain(path.to_owned(), &part.into());
    }
    if name.len() > POOL_BYTES_MAX {
        report.too_long(path, POOL_BYTES_MAX);
    }
}

/// Returns whether a text names a request, or one of its alternatives as `request/alternative`.
fn is_reference(name: &str, requests: &[Value]) -> bool {
    let (name, alternative) = name.split_once('/').map_or((name, None), |(name, rest)| (name, Some(rest)));
    let Some(request) = requests.iter().rfind(|request| text(&request["name"]) == name) else { return false };
    let has = |wanted: &str| items(&request["firstAvailable"]).iter().any(|known| text(&known["name"]) == wanted);
    DNS_1123_LABEL.fits(name) && alternative.is_none_or(|wanted| DNS_1123_LABEL.fits(wanted) && has(wanted))
}

/// Checks the configuration of devices for one driver. The parameters of one that is stored may be longer.
pub(super) fn check_config(report: &mut Report<'_>, config: &Value, path: &str, is_stored: bool) {
    let (opaque, path) = (&config["opaque"], format!("{path}.opaque"));
    if !opaque.is_object() {
        return report.required(path, "");
    }
    check_driver_name(report, text(&opaque["driver"]), &format!("{path}.driver"));
    let (parameters, path) = (&opaque["parameters"], format!("{path}.parameters"));
    if parameters.is_null() {
        report.required(path, "");
    } else if !is_stored && parameters.to_string().len() > PARAMETERS_BYTES_MAX {
        report.too_long(path, PARAMETERS_BYTES_MAX);
    } else if !parameters.is_object() {
        report.invalid(path, &"<value omitted>".into(), "must be a valid JSON object");
    }
}

pub(super) fn check_driver_name(report: &mut Report<'_>, name: &str, path: &str) {
    if name.is_empty() {
        return report.required(path, "");
    }
    report.driver_name(path, name);
}

/// Checks the name of an attribute or a capacity, which may have a domain before it. A name of more parts is valid in
/// Kubernetes, too.
fn check_name(report: &mut Report<'_>, name: &str, path: &str) {
    match name.split('/').collect::<Vec<_>>()[..] {
        [name] => check_identifier(report, name, path),
        [domain, name] => {
            if domain.is_empty() {
                report.invalid(path, &domain.into(), "the domain must not be empty");
            } else {
                check_driver_name(report, domain, path);
            }
            check_identifier(report, name, path);
        }
        _ => {}
    }
}

/// Checks the name of an attribute, which has a domain before it.
fn check_full_name(report: &mut Report<'_>, name: &str, path: &str) {
    check_name(report, name, path);
    if !name.contains('/') {
        let detail = "a fully qualified name must be a domain and a name separated by a slash";
        report.invalid(path, &name.into(), detail);
    }
}

fn check_identifier(report: &mut Report<'_>, name: &str, path: &str) {
    if name.len() > IDENTIFIER_BYTES_MAX {
        report.too_long(path, IDENTIFIER_BYTES_MAX);
    }
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    if name.is_empty() || name.starts_with(|first: char| first.is_ascii_digit()) || !name.bytes().all(is_plain) {
        let detail = "a valid C identifier must start with alphabetic character or '_', followed by a string of \
            alphanumeric characters or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for validation is \
            '[A-Za-z_][A-Za-z0-9_]*')";
        report.invalid(path, &name.into(), detail);
    }
}

#[cfg(test)]
mod tests;
