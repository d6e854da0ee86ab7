//! The status of claims, of volumes and of devices.

use std::collections::BTreeSet;

use homeostat_cel::names::qualified_faults;
use serde_json::Value;

use crate::rules::amounts::check_not_negative;
use crate::rules::devices::{check_config, check_driver_name, check_pool_name, check_reference};
use crate::rules::report::{Report, items, text};
use crate::rules::resource_names::is_native;

/// Most consumers of a claim, and most devices that are allocated for it.
const CONSUMERS_MAX: usize = 256;
const RESULTS_MAX: usize = 32;
const CONFIGS_MAX: usize = 64;

/// The states of a resize. Source: `resizeStatusSet` in `pkg/apis/core/validation/validation.go`.
const RESIZES: [&str; 5] = [
    "ControllerResizeInProgress",
    "ControllerResizeInfeasible",
    "NodeResizeInProgress",
    "NodeResizeInfeasible",
    "NodeResizePending",
];

pub(in crate::rules) fn check_persistent_volume_claim(report: &mut Report<'_>) {
    for (name, amount) in report.at("/status/capacity").as_object().into_iter().flatten() {
        check_not_negative(report, amount, format!("status.capacity[{name}]"));
    }
    let path = "status.allocatedResourceStatuses";
    for (name, state) in report.at("/status/allocatedResourceStatuses").as_object().into_iter().flatten() {
        check_name(report, name, path);
        if !RESIZES.contains(&text(state)) {
            let mut known = RESIZES;
            known.sort_unstable();
            report.unsupported(path, &name.as_str().into(), &known);
        }
    }
    for (name, amount) in report.at("/status/allocatedResources").as_object().into_iter().flatten() {
        if check_name(report, name, "status.allocatedResources") {
            check_not_negative(report, amount, format!("status.allocatedResources[{name}]"));
        }
    }
}

/// Checks the name of a resource that is resized, and returns whether it is valid.
fn check_name(report: &mut Report<'_>, name: &str, path: &str) -> bool {
    let faults = qualified_faults(name);
    let is_valid = faults.is_empty() && (!is_native(name) || name == "storage");
    if !faults.is_empty() {
        report.faults(path, &name.into(), faults);
    } else if !is_valid {
        report.unsupported(path, &name.into(), &["storage"]);
    }
    is_valid
}

pub(in crate::rules) fn check_resource_claim(report: &mut Report<'_>) {
    let (status, old) = (report.at("/status"), report.old.map_or(&Value::Null, |old| &old["status"]));
    let consumers = items(&status["reservedFor"]);
    if consumers.len() > CONSUMERS_MAX {
        report.too_many("status.reservedFor", consumers.len(), CONSUMERS_MAX);
    }
    let mut seen = BTreeSet::new();
    let consumers = &consumers[..consumers.len().min(CONSUMERS_MAX)];
    for (at, consumer) in consumers.iter().enumerate() {
        let path = format!("status.reservedFor[{at}]");
        for field in ["resource", "name", "uid"] {
            if text(&consumer[field]).is_empty() {
                report.required(format!("{path}.{field}"), "");
            }
        }
        if !seen.insert(text(&consumer["uid"])) {
            report.duplicate(format!("{path}.uid"), &consumer["uid"]);
        }
    }
    let (allocation, allocated) = (&status["allocation"], &old["allocation"]);
    check_devices(report, items(&status["devices"]), allocation);
    if !consumers.is_empty() && allocation.is_null() {
        report.forbidden("status.reservedFor", "may not be specified when `allocated` is not set");
    }
    let is_deleting = !report.at("/metadata/deletionTimestamp").is_null();
    let before = items(&old["reservedFor"]);
    if is_deleting && !allocation.is_null() && consumers.iter().any(|consumer| !before.contains(consumer)) {
        let detail = "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set";
        report.forbidden("status.reservedFor", detail);
    }
    if allocation.is_null() || allocated.is_null() {
        check_allocation(report, allocation);
    } else if allocation != allocated {
        report.invalid("status.allocation", allocation, "field is immutable");
    }
}

/// Checks what drivers tell of the devices of a claim.
fn check_devices(report: &mut Report<'_>, devices: &[Value], allocation: &Value) {
    let id = |device: &Value| ["driver", "pool", "device", "shareID"].map(|field| text(&device[field]).to_owned());
    let allocated: BTreeSet<_> = items(&allocation["devices"]["results"]).iter().map(id).collect();
    for (at, device) in devices.iter().enumerate() {
        let path = format!("status.devices[{at}]");
        check_device(report, device, &path);
        if !allocated.contains(&id(device)) {
            report.invalid_whole(path, "must be an allocated device in the claim");
        }
    }
}

fn check_device(report: &mut Report<'_>, device: &Value, path: &str) {
    check_driver_name(report, text(&device["driver"]), &format!("{path}.driver"));
    check_pool_name(report, text(&device["pool"]), &format!("{path}.pool"));
    report.label(format!("{path}.device"), &text(&device["device"]).into());
}

fn check_allocation(report: &mut Report<'_>, allocation: &Value) {
    let (results, configs) = (items(&allocation["devices"]["results"]), items(&allocation["devices"]["config"]));
    let requests = items(report.at("/spec/devices/requests"));
    for (name, list, count_max) in [("results", results, RESULTS_MAX), ("config", configs, CONFIGS_MAX)] {
        if list.len() > count_max {
            report.too_many(&format!("status.allocation.devices.{name}"), list.len(), count_max);
        }
    }
    for (at, result) in results.iter().take(RESULTS_MAX).enumerate() {
        let path = format!("status.allocation.devices.results[{at}]");
        check_reference(report, text(&result["request"]), &format!("{path}.request"), requests);
        check_device(report, result, &path);
    }
    for (at, config) in configs.iter().take(CONFIGS_MAX).enumerate() {
        let path = format!("status.allocation.devices.config[{at}]");
        match text(&config["source"]) {
            "" => report.required(format!("{path}.source"), ""),
            "FromClaim" | "FromClass" => {}
            _ => report.unsupported(format!("{path}.source"), &config["source"], &["FromClaim", "FromClass"]),
        }
        for (at, name) in items(&config["requests"]).iter().enumerate() {
            check_reference(report, text(name), &format!("{path}.requests[{at}]"), requests);
        }
        check_config(report, config, &path, false);
    }
}
