//! Quotas and ranges of resources.

use std::collections::BTreeSet;

use homeostat_cel::names::qualified_faults;
use homeostat_store::schema::quantity_in_nanos;
use serde_json::{Value, json};

use super::amounts::{NANOS, nanos};
use super::defaults::default;
use super::report::{Report, items, text};
use super::resource_names::{self, HUGE_PAGES, check_container_resource, is_counted, is_native, is_of_quota};

/// The scopes of quotas, and the resources that a quota with the scope can bound.
const SCOPES: [(&str, &[&str]); 7] = [
    ("BestEffort", &["pods"]),
    ("CrossNamespacePodAffinity", POD_RESOURCES),
    ("NotBestEffort", POD_RESOURCES),
    ("NotTerminating", POD_RESOURCES),
    ("PriorityClass", POD_RESOURCES),
    ("Terminating", POD_RESOURCES),
    ("VolumeAttributesClass", &["persistentvolumeclaims", "requests.storage"]),
];
const POD_RESOURCES: &[&str] =
    &["cpu", "limits.cpu", "limits.memory", "memory", "pods", "requests.cpu", "requests.memory"];

/// Scopes that exclude each other.
const CONFLICTS: [[&str; 2]; 2] = [["BestEffort", "NotBestEffort"], ["NotTerminating", "Terminating"]];

pub(super) fn check_resource_quota(report: &mut Report<'_>) {
    for (name, amount) in report.at("/spec/hard").as_object().into_iter().flatten() {
        check_amount(report, name, amount, format!("spec.hard[{name}]"));
    }
    check_scopes(report);
    check_scope_selector(report);
    let scopes = report.at("/spec/scopes");
    let distinct = |scopes: &Value| -> BTreeSet<String> { items(scopes).iter().map(Value::to_string).collect() };
    if report.old.is_some_and(|old| distinct(&old["spec"]["scopes"]) != distinct(scopes)) {
        report.invalid("spec.scopes", scopes, "field is immutable");
    }
}

/// Checks an amount of a resource that a quota bounds.
pub(super) fn check_amount(report: &mut Report<'_>, name: &str, amount: &Value, path: String) {
    resource_names::check(report, name, &path);
    if !name.contains('/') && !is_of_quota(name) {
        report.invalid(path.clone(), &name.into(), "must be a standard resource for quota");
    }
    let nanos = nanos(amount);
    if nanos < 0 {
        report.invalid(path.clone(), amount, "must be greater than or equal to 0");
    }
    if is_counted(name) && nanos % NANOS != 0 {
        report.invalid(path, amount, "must be an integer");
    }
}

/// Checks that a scope can bound the resources of a quota.
fn check_scope(report: &mut Report<'_>, scope: &str, path: &str, shown: &Value) {
    let Some((_, valid)) = SCOPES.iter().find(|(name, _)| *name == scope) else { return };
    let hard = report.at("/spec/hard").as_object().into_iter().flatten();
    for _ in hard.filter(|(name, _)| is_of_quota(name) && !valid.contains(&name.as_str())) {
        report.invalid(path, shown, "unsupported scope applied to resource");
    }
}

fn check_conflicts(report: &mut Report<'_>, scopes: &BTreeSet<&str>, path: &str) {
    for _ in CONFLICTS.iter().filter(|pair| pair.iter().all(|scope| scopes.contains(scope))) {
        report.invalid(path, report.at("/spec/scopes"), "conflicting scopes");
    }
}

fn check_scopes(report: &mut Report<'_>) {
    let (path, all) = ("spec.scopes", report.at("/spec/scopes"));
    for scope in items(all).iter().map(text) {
        if !SCOPES.iter().any(|(name, _)| *name == scope) {
            report.invalid(path, all, "unsupported scope");
        }
        check_scope(report, scope, path, all);
    }
    check_conflicts(report, &items(all).iter().map(text).collect(), path);
}

/// Checks the requirements of a selector of scopes. Kubernetes names the list, and not the requirement.
fn check_scope_selector(report: &mut Report<'_>) {
    let (path, selector) = ("spec.scopeSelector.matchExpressions", report.at("/spec/scopeSelector"));
    let requirements = items(&selector["matchExpressions"]);
    for requirement in requirements {
        let (scope, operator, values) = (&requirement["scopeName"], &requirement["operator"], &requirement["values"]);
        if !SCOPES.iter().any(|(name, _)| scope == name) {
            report.invalid(format!("{path}.scopeName"), &text(scope).into(), "unsupported scope");
        }
        check_scope(report, text(scope), path, selector);
        let has_values = matches!(text(scope), "PriorityClass" | "VolumeAttributesClass");
        let is_known = SCOPES.iter().any(|(name, _)| scope == name);
        if is_known && !has_values && operator != "Exists" {
            let detail = "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, \
                ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or \
                ResourceQuotaScopeCrossNamespacePodAffinity";
            report.invalid(format!("{path}.operator"), &text(operator).into(), detail);
        }
        match (text(operator), items(values).is_empty()) {
            ("In" | "NotIn", true) => {
                let detail = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector";
                report.required(format!("{path}.values"), detail);
            }
            ("Exists" | "DoesNotExist", false) => {
                let detail = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector";
                report.invalid(format!("{path}.values"), values, detail);
            }
            ("In" | "NotIn" | "Exists" | "DoesNotExist", _) => {}
            (other, _) => report.invalid(format!("{path}.operator"), &other.into(), "not a valid selector operator"),
        }
    }
    check_conflicts(report, &requirements.iter().map(|one| text(&one["scopeName"])).collect(), path);
}

pub(super) fn limit_range_defaults(range: &mut Value, _old: Option<&Value>) {
    for item in range.pointer_mut("/spec/limits").and_then(Value::as_array_mut).into_iter().flatten() {
        let Some(item) = item.as_object_mut().filter(|item| item.get("type").is_some_and(|name| name == "Container"))
        else {
            continue;
        };
        for (from, to) in [("max", "default"), ("default", "defaultRequest"), ("min", "defaultRequest")] {
            let Some(amounts) = item.get(from).and_then(Value::as_object).cloned() else { continue };
            let given = item.entry(to).or_insert_with(|| json!({}));
            if let Some(given) = given.as_object_mut() {
                amounts.into_iter().for_each(|(name, amount)| default(given, &name, amount));
            }
        }
    }
}

pub(super) fn check_limit_range(report: &mut Report<'_>) {
    let mut kinds = BTreeSet::new();
    for (at, item) in items(report.at("/spec/limits")).iter().enumerate() {
        let (path, kind) = (format!("spec.limits[{at}]"), text(&item["type"]));
        let faults = qualified_faults(kind);
        if faults.is_empty() && !kind.contains('/') && !["Container", "Pod", "PersistentVolumeClaim"].contains(&kind) {
            let detail = "must be a standard limit type or fully qualified";
            report.invalid(format!("{path}.type"), &kind.into(), detail);
        }
        report.faults(format!("{path}.type"), &kind.into(), faults);
        if !kinds.insert(kind) {
            report.duplicate(format!("{path}.type"), &kind.into());
        }
        check_limits(report, item, kind, &path);
    }
}

fn check_limits(report: &mut Report<'_>, item: &Value, kind: &str, path: &str) {
    let is_set = |list: &str| item[list].as_object().is_some_and(|amounts| !amounts.is_empty());
    let mut lists = vec!["max", "min", "maxLimitRequestRatio"];
    for list in ["default", "defaultRequest"] {
        match kind {
            "Pod" if is_set(list) => {
                report.forbidden(format!("{path}.{list}"), "may not be specified when `type` is 'Pod'");
            }
            "Pod" => {}
            _ => lists.push(list),
        }
    }
    let mut names = BTreeSet::new();
    for list in &lists {
        for (name, _) in item[*list].as_object().into_iter().flatten() {
            let path = format!("{path}.{list}[{name}]");
            match kind {
                "Pod" | "Container" => check_container_resource(report, name, &path),
                _ => resource_names::check(report, name, &path),
            }
            names.insert(name.as_str());
        }
    }
    if kind == "PersistentVolumeClaim" && ["min", "max"].iter().all(|list| item[*list]["storage"].is_null()) {
        let detail = "either minimum or maximum storage value is required, but neither was provided";
        report.required(format!("{path}.limits"), detail);
    }
    for name in names {
        let amounts = Amounts { item, name, has_defaults: kind != "Pod" };
        amounts.check_order(report, path);
        amounts.check_ratio(report, path);
    }
}

/// The amounts of a resource in a limit.
struct Amounts<'a> {
    item: &'a Value,
    name: &'a str,
    has_defaults: bool,
}

impl Amounts<'_> {
    fn value(&self, list: &str) -> &Value {
        let is_default = list.starts_with("default");
        if is_default && !self.has_defaults { &Value::Null } else { &self.item[list][self.name] }
    }

    fn nanos(&self, list: &str) -> Option<i128> {
        quantity_in_nanos(self.value(list))
    }

    /// Checks that the bounds and the defaults are in order, and that the defaults of a resource without overcommitment are equal.
    fn check_order(&self, report: &mut Report<'_>, path: &str) {
        for (less, more, at, named, words) in [
            ("min", "max", "min", "min", ["min", "max"]),
            ("min", "defaultRequest", "defaultRequest", "defaultRequest", ["min", "default request"]),
            ("defaultRequest", "max", "defaultRequest", "defaultRequest", ["default request", "max"]),
            ("defaultRequest", "default", "defaultRequest", "defaultRequest", ["default request", "default limit"]),
            // Kubernetes names the other amount.
            ("min", "default", "default", "min", ["min", "default"]),
            ("default", "max", "default", "max", ["default", "max"]),
        ] {
            if self.nanos(less).zip(self.nanos(more)).is_some_and(|(less, more)| less > more) {
                let [small, large] = [less, more].map(|list| text(self.value(list)));
                let detail = format!("{} value {small} is greater than {} value {large}", words[0], words[1]);
                report.invalid(format!("{path}.{at}[{}]", self.name), self.value(named), &detail);
            }
        }
        let allows_more = is_native(self.name) && !self.name.starts_with(HUGE_PAGES);
        let defaults = self.nanos("default").zip(self.nanos("defaultRequest"));
        if !allows_more && defaults.is_some_and(|(limit, request)| limit != request) {
            let [limit, request] = ["default", "defaultRequest"].map(|list| text(self.value(list)));
            let name = self.name;
            let detail = format!("default value {limit} must equal to defaultRequest value {request} in {name}");
            report.invalid(format!("{path}.defaultRequest[{name}]"), self.value("defaultRequest"), &detail);
        }
    }

    /// Checks how much more a limit may be than a request.
    fn check_ratio(&self, report: &mut Report<'_>, path: &str) {
        #[expect(clippy::cast_precision_loss, reason = "a ratio is compared, and shown with six digits")]
        let float = |list: &str| self.nanos(list).map(|nanos| nanos as f64 / 1e9);
        let (path, shown) = (format!("{path}.maxLimitRequestRatio[{}]", self.name), self.value("maxLimitRequestRatio"));
        let Some(ratio) = float("maxLimitRequestRatio") else { return };
        if ratio < 1.0 {
            report.invalid(path.clone(), shown, &format!("ratio {} is less than 1", text(shown)));
        }
        let bound = float("max").zip(float("min")).map(|(max, min)| max / min);
        if let Some(bound) = bound.filter(|bound| ratio > *bound) {
            report.invalid(path, shown, &format!("ratio {} is greater than max/min = {bound:.6}", text(shown)));
        }
    }
}
