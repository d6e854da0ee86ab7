//! The volumes that a container mounts, or has as block devices.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::Volumes;
use crate::rules::report::{Report, items, text};
use crate::rules::volumes::paths;

const PROPAGATIONS: [&str; 3] = ["Bidirectional", "HostToContainer", "None"];
const RECURSIVE: [&str; 3] = ["Disabled", "Enabled", "IfPossible"];

/// Checks the mounts and the block devices of a container. `volumes` are the valid ones of its pod.
pub(super) fn check(report: &mut Report<'_>, container: &Value, volumes: &Volumes<'_>, path: &str) {
    let (mounts, devices) = (items(&container["volumeMounts"]), items(&container["volumeDevices"]));
    let (mounted, attached) = (Holders::of(mounts, "mountPath"), Holders::of(devices, "devicePath"));
    let list = format!("{path}.volumeMounts");
    let mut places = BTreeSet::new();
    for (at, mount) in mounts.iter().enumerate() {
        let path = format!("{list}[{at}]");
        check_name(report, mount, volumes, &path);
        check_place(report, mount, places.insert(text(&mount["mountPath"])), &path);
        check_devices(report, mount, &attached, &path);
        check_sub_paths(report, mount, &path, &list);
        let is_privileged = container["securityContext"]["privileged"] == true;
        check_propagation(report, mount, is_privileged, &format!("{list}.mountPropagation"));
        check_recursive(report, mount, &format!("{list}.recursiveReadOnly"));
    }
    check_block_devices(report, devices, &mounted, volumes, &format!("{path}.volumeDevices"));
}

fn check_name(report: &mut Report<'_>, mount: &Value, volumes: &Volumes<'_>, path: &str) {
    let name = text(&mount["name"]);
    if name.is_empty() {
        report.required(format!("{path}.name"), "");
    }
    if !volumes.contains_key(name) {
        report.not_found(format!("{path}.name"), &name.into());
    }
}

/// Checks the place of a mount, which is new if no other mount has it.
fn check_place(report: &mut Report<'_>, mount: &Value, is_new: bool, path: &str) {
    let place = text(&mount["mountPath"]);
    if place.is_empty() {
        report.required(format!("{path}.mountPath"), "");
    }
    if !is_new {
        report.invalid(format!("{path}.mountPath"), &place.into(), "must be unique");
    }
}

/// Checks that a mount and the block devices have nothing in common.
fn check_devices(report: &mut Report<'_>, mount: &Value, devices: &Holders<'_>, path: &str) {
    let (name, place) = (text(&mount["name"]), text(&mount["mountPath"]));
    if devices.names.contains_key(name) {
        report.invalid(format!("{path}.name"), &name.into(), "must not already exist in volumeDevices");
    }
    if devices.paths.contains(place) {
        let detail = "must not already exist as a path in volumeDevices";
        report.invalid(format!("{path}.mountPath"), &place.into(), detail);
    }
}

/// Checks the part of a volume that is mounted. Some errors have the path of the list, as those of Kubernetes.
fn check_sub_paths(report: &mut Report<'_>, mount: &Value, path: &str, list: &str) {
    paths::check_descending(report, &mount["subPath"], &format!("{list}.subPath"));
    if !text(&mount["subPathExpr"]).is_empty() && !text(&mount["subPath"]).is_empty() {
        let detail = "subPathExpr and subPath are mutually exclusive";
        report.invalid(format!("{path}.subPathExpr"), &mount["subPathExpr"], detail);
    }
    paths::check_descending(report, &mount["subPathExpr"], &format!("{list}.subPathExpr"));
}

fn check_propagation(report: &mut Report<'_>, mount: &Value, is_privileged: bool, path: &str) {
    let propagation = &mount["mountPropagation"];
    if !propagation.is_null() && !PROPAGATIONS.contains(&text(propagation)) {
        report.unsupported(path, propagation, &PROPAGATIONS);
    }
    if propagation == "Bidirectional" && !is_privileged {
        report.forbidden(path, "Bidirectional mount propagation is available only to privileged containers");
    }
}

fn check_recursive(report: &mut Report<'_>, mount: &Value, path: &str) {
    let recursive = &mount["recursiveReadOnly"];
    if !recursive.is_null() && !RECURSIVE.contains(&text(recursive)) {
        return report.unsupported(path, recursive, &RECURSIVE);
    }
    if recursive.is_null() || recursive == "Disabled" {
        return;
    }
    if mount["readOnly"] != true {
        report.forbidden(path, "may only be specified when readOnly is true");
    }
    if !mount["mountPropagation"].is_null() && mount["mountPropagation"] != "None" {
        report.forbidden(path, "may only be specified when mountPropagation is None or not specified");
    }
}

fn check_block_devices(
    report: &mut Report<'_>,
    devices: &[Value],
    mounts: &Holders<'_>,
    volumes: &Volumes<'_>,
    path: &str,
) {
    let (mut names, mut places) = (BTreeSet::new(), BTreeSet::new());
    for (at, device) in devices.iter().enumerate() {
        let path = format!("{path}[{at}]");
        let (name, place) = (text(&device["name"]), text(&device["devicePath"]));
        check_device_name(report, name, !name.is_empty() && !names.insert(name), volumes, &format!("{path}.name"));
        let is_known = places.contains(place);
        if check_device_path(report, place, is_known, &format!("{path}.devicePath")) {
            places.insert(place);
        }
        if mounts.names.contains_key(name) {
            report.invalid(format!("{path}.name"), &name.into(), "must not already exist in volumeMounts");
        }
        if mounts.paths.contains(place) {
            let detail = "must not already exist as a path in volumeMounts";
            report.invalid(format!("{path}.devicePath"), &place.into(), detail);
        }
    }
}

fn check_device_name(report: &mut Report<'_>, name: &str, is_known: bool, volumes: &Volumes<'_>, path: &str) {
    if name.is_empty() {
        report.required(path, "");
    }
    if is_known {
        report.invalid(path, &name.into(), "must be unique");
    }
    match volumes.get(name) {
        None => report.not_found(path, &name.into()),
        Some(volume) if !volume["persistentVolumeClaim"].is_object() && !volume["ephemeral"].is_object() => {
            let detail = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode";
            report.invalid(path, &name.into(), detail);
        }
        Some(_) => {}
    }
}

/// Checks the path of a block device, and returns whether it stays in its folder.
fn check_device_path(report: &mut Report<'_>, place: &str, is_known: bool, path: &str) -> bool {
    if place.is_empty() {
        report.required(path, "");
    }
    if is_known {
        report.invalid(path, &place.into(), "must be unique");
    }
    let stays = !paths::has_back_step(place);
    if !stays {
        report.invalid(path, &place.into(), "can not contain backsteps ('..')");
    }
    stays
}

/// The mounts or the block devices of a container: their names, and the paths of the last ones of these names.
struct Holders<'v> {
    names: BTreeMap<&'v str, &'v str>,
    paths: BTreeSet<&'v str>,
}

impl<'v> Holders<'v> {
    fn of(holders: &'v [Value], path: &str) -> Self {
        let named = holders.iter().map(|holder| (text(&holder["name"]), text(&holder[path])));
        let names: BTreeMap<&str, &str> = named.collect();
        let paths = names.values().copied().collect();
        Self { names, paths }
    }
}
