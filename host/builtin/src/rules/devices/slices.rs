//! Slices: the devices of a pool that a driver offers.
//!
//! Source: `validateResourceSliceSpec` in `pkg/apis/resource/validation` and `pkg/registry/resource/resourceslice` of
//! Kubernetes.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::{check_driver_name, check_effect, check_name, check_pool_name};
use crate::rules::amounts::{nanos, whole};
use crate::rules::defaults::{default, object_at};
use crate::rules::pods::check_node_selector;
use crate::rules::report::{Report, items, text};

/// Most items of the lists of a slice. It has fewer devices if one of them has a taint or consumes counters.
const DEVICES_MAX: usize = 128;
const ADVANCED_DEVICES_MAX: usize = 64;
const COUNTER_SETS_MAX: usize = 8;
const COUNTERS_MAX: usize = 32;
/// Most items of the lists of a device.
const ATTRIBUTES_MAX: usize = 32;
const CONSUMPTIONS_MAX: usize = 2;
const TAINTS_MAX: usize = 16;
const CONDITIONS_MAX: usize = 4;
const VALID_AMOUNTS_MAX: usize = 10;
/// Most bytes of the text of an attribute.
const ATTRIBUTE_BYTES_MAX: usize = 64;

/// Drops the fields of a slice whose gates are off, and sets the amounts that it lacks.
pub(in crate::rules) fn set_defaults(slice: &mut Value, _old: Option<&Value>) {
    let Some(spec) = object_at(slice, "/spec") else { return };
    for set in spec.get_mut("sharedCounters").and_then(Value::as_array_mut).into_iter().flatten() {
        zero_amounts(set.get_mut("counters"));
    }
    let devices = spec.get_mut("devices").and_then(Value::as_array_mut).into_iter().flatten();
    for device in devices.filter_map(Value::as_object_mut) {
        device.remove("nodeAllocatableResourceMappings");
        let attributes = device.get_mut("attributes").and_then(Value::as_object_mut).into_iter().flatten();
        for attribute in attributes.filter_map(|(_, attribute)| attribute.as_object_mut()) {
            attribute.retain(|name, _| !matches!(name.as_str(), "bools" | "ints" | "strings" | "versions"));
        }
        zero_amounts(device.get_mut("capacity"));
        for consumption in device.get_mut("consumesCounters").and_then(Value::as_array_mut).into_iter().flatten() {
            zero_amounts(consumption.get_mut("counters"));
        }
    }
}

/// Sets the amounts that the entries of a map lack. Go does not tell them from zero.
fn zero_amounts(entries: Option<&mut Value>) {
    let entries = entries.and_then(Value::as_object_mut).into_iter().flatten();
    entries.filter_map(|(_, entry)| entry.as_object_mut()).for_each(|entry| default(entry, "value", "0"));
}

pub(in crate::rules) fn check(report: &mut Report<'_>) {
    let spec = report.at("/spec");
    check_driver_name(report, text(&spec["driver"]), "spec.driver");
    check_pool(report, &spec["pool"]);
    for pointer in ["/spec/pool/name", "/spec/driver", "/spec/nodeName"] {
        report.immutable(pointer);
    }
    check_nodes_of_slice(report, spec);
    let (devices, sets) = (&spec["devices"], &spec["sharedCounters"]);
    if !items(devices).is_empty() && !items(sets).is_empty() {
        report.invalid("spec", &"".into(), "only one of `sharedCounters` or `devices` is allowed");
    }
    let has = |device: &Value, name: &str| !items(&device[name]).is_empty();
    let is_advanced = |device: &Value| has(device, "taints") || has(device, "consumesCounters");
    let count_max = if items(devices).iter().any(is_advanced) { ADVANCED_DEVICES_MAX } else { DEVICES_MAX };
    let devices = report.at_most("spec.devices", devices, count_max);
    for (path, device) in &devices {
        check_device(report, device, path);
        check_nodes_of_device(report, device, path, spec["perDeviceNodeSelection"] == true);
    }
    report.distinct(&devices, |device| &device["name"]);
    let sets = report.at_most("spec.sharedCounters", sets, COUNTER_SETS_MAX);
    for (path, set) in &sets {
        check_counters(report, set, path, "name");
    }
    report.distinct(&sets, |set| &set["name"]);
}

fn check_pool(report: &mut Report<'_>, pool: &Value) {
    check_pool_name(report, text(&pool["name"]), "spec.pool.name");
    if pool["resourceSliceCount"].as_i64().unwrap_or(0) <= 0 {
        report.invalid("spec.pool.resourceSliceCount", &pool["resourceSliceCount"], "must be greater than zero");
    }
    if pool["generation"].as_i64().is_some_and(|generation| generation < 0) {
        report.invalid("spec.pool.generation", &pool["generation"], "must be greater than or equal to zero");
    }
}

/// Checks the ways in which an object selects nodes, and returns how many of them it has. A flag is one if it is true.
fn count_selections(report: &mut Report<'_>, holder: &Value, path: &str, flags: &[&str]) -> usize {
    let mut count = 0;
    match holder["nodeName"].as_str() {
        None => {}
        Some("") => {
            let detail = "must be either unset or set to a non-empty string";
            report.invalid(format!("{path}.nodeName"), &holder["nodeName"], detail);
        }
        Some(_) => {
            count += 1;
            report.subdomain(format!("{path}.nodeName"), &holder["nodeName"]);
        }
    }
    if holder["nodeSelector"].is_object() {
        count += 1;
        check_node_selector(report, &holder["nodeSelector"], &format!("{path}.nodeSelector"), true);
    }
    for name in flags {
        match &holder[*name] {
            Value::Bool(true) => count += 1,
            flag @ Value::Bool(false) => {
                report.invalid(format!("{path}.{name}"), flag, "must be either unset or set to true");
            }
            _ => {}
        }
    }
    count
}

fn check_nodes_of_slice(report: &mut Report<'_>, spec: &Value) {
    let detail = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required";
    match count_selections(report, spec, "spec", &["allNodes", "perDeviceNodeSelection"]) {
        0 => report.required("spec", detail),
        1 => {}
        count => report.invalid("spec", &count.into(), &format!("{detail}, but multiple fields are set")),
    }
    let terms = &spec["nodeSelector"]["nodeSelectorTerms"];
    if spec["nodeSelector"].is_object() && items(terms).len() != 1 {
        report.invalid("spec.nodeSelector.nodeSelectorTerms", terms, "must have exactly one node selector term");
    }
}

/// Checks the nodes of a device: it has them where its slice has none.
fn check_nodes_of_device(report: &mut Report<'_>, device: &Value, path: &str, is_wanted: bool) {
    if !is_wanted {
        if ["nodeName", "nodeSelector", "allNodes"].iter().any(|name| !device[*name].is_null()) {
            let detail = "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set \
                to true in the ResourceSlice spec";
            report.invalid(path, &Value::Null, detail);
        }
        return;
    }
    let detail = "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` \
        is set to true in the ResourceSlice spec";
    match count_selections(report, device, path, &["allNodes"]) {
        0 => report.required(path, detail),
        1 => {}
        count => report.invalid(path, &count.into(), detail),
    }
}

/// Checks a device, except for its nodes.
fn check_device(report: &mut Report<'_>, device: &Value, path: &str) {
    report.label(format!("{path}.name"), &device["name"]);
    let (attributes, capacity) = (device["attributes"].as_object(), device["capacity"].as_object());
    let count = attributes.map_or(0, Map::len) + capacity.map_or(0, Map::len);
    if count > ATTRIBUTES_MAX {
        let detail = format!("the total number of attributes and capacities must not exceed {ATTRIBUTES_MAX}");
        report.invalid(path, &count.into(), &detail);
    }
    for (name, attribute) in attributes.into_iter().flatten() {
        check_name(report, name, &format!("{path}.attributes"));
        check_attribute(report, attribute, &format!("{path}.attributes[{name}]"));
    }
    for (name, amount) in capacity.into_iter().flatten() {
        check_name(report, name, &format!("{path}.capacity"));
        let (policy, path) = (&amount["requestPolicy"], format!("{path}.capacity[{name}].requestPolicy"));
        if !policy.is_object() {
            continue;
        }
        if device["allowMultipleAllocations"] == true {
            check_policy(report, policy, &amount["value"], &path);
        } else {
            report.forbidden(path, "allowMultipleAllocations must be true");
        }
    }
    check_taints(report, device, &format!("{path}.taints"));
    let path_of_counters = format!("{path}.consumesCounters");
    let consumptions = report.at_most(&path_of_counters, &device["consumesCounters"], CONSUMPTIONS_MAX);
    for (path, consumption) in &consumptions {
        check_counters(report, consumption, path, "counterSet");
    }
    report.distinct(&consumptions, |consumption| &consumption["counterSet"]);
    check_conditions(report, device, path);
}

/// Checks that an attribute has one value.
fn check_attribute(report: &mut Report<'_>, attribute: &Value, path: &str) {
    let count = ["bool", "int", "string", "version"].iter().filter(|name| !attribute[**name].is_null()).count();
    if count != 1 {
        report.invalid(path, attribute, "exactly one value must be specified");
    }
    for name in ["string", "version"] {
        if text(&attribute[name]).len() > ATTRIBUTE_BYTES_MAX {
            report.too_long(format!("{path}.{name}"), ATTRIBUTE_BYTES_MAX);
        }
    }
    let version = &attribute["version"];
    if version.as_str().is_some_and(|version| !is_version(version)) {
        let detail = "must be a string compatible with semver.org spec 2.0.0";
        report.invalid(format!("{path}.version"), version, detail);
    }
}

/// Returns whether a text is a semantic version.
fn is_version(text: &str) -> bool {
    let (text, build) = text.split_once('+').map_or((text, None), |(text, build)| (text, Some(build)));
    let (core, release) = text.split_once('-').map_or((text, None), |(core, release)| (core, Some(release)));
    let has_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    let is_number = |part: &str| !part.is_empty() && has_digits(part) && (part == "0" || !part.starts_with('0'));
    let is_word =
        |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    let is_part = |part: &str| is_word(part) && (!has_digits(part) || is_number(part));
    core.split('.').count() == 3
        && core.split('.').all(is_number)
        && release.is_none_or(|release| release.split('.').all(is_part))
        && build.is_none_or(|build| build.split('.').all(is_word))
}

/// Checks the amounts that a request for a part of a capacity can have.
fn check_policy(report: &mut Report<'_>, policy: &Value, capacity: &Value, path: &str) {
    let (values, range) = (!items(&policy["validValues"]).is_empty(), policy["validRange"].is_object());
    let field = match (values, range) {
        (true, true) => {
            let detail = "exactly one policy can be specified, cannot specify \"validValues\" and \"validRange\" at \
                the same time";
            return report.forbidden(path, detail);
        }
        (false, false) => return,
        (true, false) => "validValues",
        (false, true) => "validRange",
    };
    if policy["default"].is_null() {
        report.required(format!("{path}.default"), &format!("required when {field} is defined"));
    } else if values {
        check_valid_amounts(report, policy, capacity, &format!("{path}.validValues"));
    } else {
        check_valid_range(report, policy, capacity, &format!("{path}.validRange"));
    }
}

fn check_valid_amounts(report: &mut Report<'_>, policy: &Value, capacity: &Value, path: &str) {
    for (at, pair) in items(&policy["validValues"]).windows(2).enumerate() {
        if nanos(&pair[0]) > nanos(&pair[1]) {
            let detail = "values must be sorted in ascending order";
            report.invalid(format!("{path}[{}]", at + 1), &pair[1], detail);
        }
    }
    let values = report.at_most(path, &policy["validValues"], VALID_AMOUNTS_MAX);
    let mut known = BTreeSet::new();
    for (path, value) in &values {
        if nanos(value) > nanos(capacity) {
            let detail = format!("option is larger than capacity value: {}", text(capacity));
            report.invalid(path, value, &detail);
        }
        if !known.insert(whole(value)) {
            report.duplicate(path, value);
        }
    }
    if !values.iter().any(|(_, value)| nanos(value) == nanos(&policy["default"])) {
        report.invalid(path, &policy["default"], "default value is not valid according to the requestPolicy");
    }
}

fn check_valid_range(report: &mut Report<'_>, policy: &Value, capacity: &Value, path: &str) {
    let (least, most, step) =
        (&policy["validRange"]["min"], &policy["validRange"]["max"], &policy["validRange"]["step"]);
    let given = &policy["default"];
    if least.is_null() {
        return report.required(format!("{path}.min"), "required when validRange is defined");
    }
    for (is_wrong, name, value, detail) in [
        (nanos(least) > nanos(capacity), "min", least, "min is larger than capacity value"),
        (nanos(given) < nanos(least), "min", given, "default is less than min"),
        (!most.is_null() && nanos(least) > nanos(most), "max", least, "min is larger than max"),
        (!most.is_null() && nanos(most) > nanos(capacity), "max", most, "max is larger than capacity value"),
        (!most.is_null() && nanos(given) > nanos(most), "max", given, "default is more than max"),
        (
            !step.is_null() && nanos(least) + nanos(step) > nanos(capacity),
            "step",
            step,
            "one step is larger than capacity value",
        ),
    ] {
        if is_wrong {
            report.invalid(format!("{path}.{name}"), value, detail);
        }
    }
    for value in [given, most].into_iter().filter(|value| !step.is_null() && !value.is_null()) {
        if (whole(value) - whole(least)).checked_rem(whole(step)) != Some(0) {
            let (step, least) = (text(step), text(least));
            let detail = format!("value is not a multiple of a given step ({step}) from ({least})");
            report.invalid(format!("{path}.step"), value, &detail);
        }
    }
}

/// Checks the taints of a device. Those that it has had stay as they are.
fn check_taints(report: &mut Report<'_>, device: &Value, path: &str) {
    let devices = report.old.map_or(&[][..], |old| items(&old["spec"]["devices"]));
    let before = devices.iter().find(|before| before["name"] == device["name"]);
    if before.is_some_and(|before| before["taints"] == device["taints"]) {
        return;
    }
    for (path, taint) in report.at_most(path, &device["taints"], TAINTS_MAX) {
        report.qualified(format!("{path}.key"), &taint["key"]);
        report.label_value(format!("{path}.value"), &taint["value"]);
        check_effect(report, &taint["effect"], format!("{path}.effect"));
    }
}

/// Checks a set of counters, or what a device consumes of one. `name` is the field that names the set.
fn check_counters(report: &mut Report<'_>, holder: &Value, path: &str, name: &str) {
    match text(&holder[name]) {
        "" => report.required(format!("{path}.{name}"), ""),
        _ => report.label(format!("{path}.{name}"), &holder[name]),
    }
    let path = format!("{path}.counters");
    let Some(counters) = holder["counters"].as_object().filter(|counters| !counters.is_empty()) else {
        return report.required(path, "");
    };
    if counters.len() > COUNTERS_MAX {
        return report.too_many(&path, counters.len(), COUNTERS_MAX);
    }
    for name in counters.keys() {
        report.label(path.clone(), &name.as_str().into());
    }
}

/// Checks the conditions on which a device is bound, and those on which the binding fails.
fn check_conditions(report: &mut Report<'_>, device: &Value, path: &str) {
    let (bound, failed) = ("bindingConditions", "bindingFailureConditions");
    for name in [bound, failed] {
        for (path, condition) in report.at_most(&format!("{path}.{name}"), &device[name], CONDITIONS_MAX) {
            report.qualified(path, condition);
        }
        let mut known = BTreeSet::new();
        for (at, condition) in items(&device[name]).iter().enumerate() {
            if !known.insert(text(condition)) {
                report.duplicate(format!("{path}.{name}[{at}]"), condition);
            }
        }
    }
    for (at, condition) in items(&device[failed]).iter().enumerate() {
        if items(&device[bound]).contains(condition) {
            let detail = "bindingFailureConditions must not overlap with bindingConditions";
            report.invalid(format!("{path}.{failed}[{at}]"), condition, detail);
        }
    }
    for (lacking, given) in [(bound, failed), (failed, bound)] {
        if items(&device[lacking]).is_empty() && !items(&device[given]).is_empty() {
            let detail = format!("{lacking} are required to use {given}");
            report.invalid(format!("{path}.{lacking}"), &device[lacking], &detail);
        }
    }
}
