//! The volumes of storage systems on the network that have rules of their own.

use serde_json::Value;

use super::sources::require;
use crate::rules::report::{Report, items, text};

pub(super) const TOO_LONG_WITH_PORTAL: &str = "Total length of <volume name>:<iscsi.targetPortal> must be under 64 \
    characters if iscsi.initiatorName is specified.";

/// The longest name and portal of a volume whose node names itself to the portal, in bytes.
const NAME_AND_PORTAL_MAX: usize = 64;
const LUN_MAX: i64 = 255;
const LUN: &str = "must be between 0 and 255, inclusive";
const TENANT_BYTES_MAX: usize = 64;
const DISK_KINDS: [&str; 3] = ["Dedicated", "Managed", "Shared"];
const CACHING_MODES: [&str; 3] = ["None", "ReadOnly", "ReadWrite"];
const MANAGED_DISK: &str =
    "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}";
const BLOB_DISK: &str = "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd";

/// Returns whether the name of a volume and its portal are too long for the node, which names itself to the portal.
pub(super) fn is_too_long_with_portal(source: &Value, name: &str) -> bool {
    source["initiatorName"].is_string() && name.len() + 1 + text(&source["targetPortal"]).len() > NAME_AND_PORTAL_MAX
}

/// Checks a volume of iSCSI of a pod.
pub(super) fn check_iscsi(report: &mut Report<'_>, source: &Value, path: &str) {
    check_targets(report, source, path, "must be valid format starting with iqn, eui, or naa");
}

/// Checks what volumes of iSCSI of pods and persistent ones have in common. `no_prefix` is said of a name of an unknown kind.
pub(super) fn check_targets(report: &mut Report<'_>, source: &Value, path: &str, no_prefix: &str) {
    let names = [("iqn", &source["iqn"], "iqn"), ("initiatorName", &source["initiatorName"], "initiatorname")];
    for (field, name, shown) in names {
        // An absent target is reported elsewhere.
        let is_given = if field == "iqn" { !text(name).is_empty() } else { name.is_string() };
        if let Some(fault) = qualified_name_fault(text(name), no_prefix).filter(|_| is_given) {
            report.invalid(format!("{path}.{shown}"), name, fault);
        }
    }
    check_lun(report, &source["lun"], path);
    let has_secret = source["chapAuthDiscovery"] == true || source["chapAuthSession"] == true;
    if has_secret && source["secretRef"].is_null() {
        report.required(format!("{path}.secretRef"), "");
    }
}

/// Returns the fault of a name of iSCSI.
fn qualified_name_fault<'f>(name: &str, no_prefix: &'f str) -> Option<&'f str> {
    let is_valid = match name.get(..3) {
        Some("iqn") => is_dated_name(name),
        Some("eui") => is_identifier(name, 16),
        Some("naa") => is_identifier(name, 32),
        _ => return Some(no_prefix),
    };
    (!is_valid).then_some("must be valid format")
}

/// Returns whether a text ends with a name as `iqn.2001-04.com.example:storage`.
fn is_dated_name(text: &str) -> bool {
    text.match_indices("iqn.").any(|(at, prefix)| is_date_and_owner(&text[at + prefix.len()..]))
}

fn is_date_and_owner(text: &str) -> bool {
    let Some((owner, unit)) = text.split_once(':') else { return false };
    let mut parts = owner.splitn(2, '.');
    let (date, owner) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let is_digits = |text: &str, count| text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_date = date.split_once('-').is_some_and(|(year, month)| is_digits(year, 4) && is_digits(month, 2));
    let is_owner = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.');
    let is_separator = |letter: char| ",;*&$| \t\n\r\u{c}".contains(letter);
    is_date && !owner.is_empty() && owner.bytes().all(is_owner) && !unit.is_empty() && !unit.contains(is_separator)
}

/// Returns whether a text has a kind of three letters, any character, and a number of letters and digits.
fn is_identifier(text: &str, count: usize) -> bool {
    let mut letters = text.get(3..).unwrap_or_default().chars();
    let has_separator = letters.next().is_some_and(|letter| letter != '\n');
    let rest = letters.as_str();
    has_separator && rest.len() == count && rest.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

fn check_lun(report: &mut Report<'_>, lun: &Value, path: &str) {
    if lun.as_i64().is_some_and(|number| !(0..=LUN_MAX).contains(&number)) {
        report.invalid(format!("{path}.lun"), lun, LUN);
    }
}

/// Checks a volume of fibre channel.
pub(super) fn check_fibre_channel(report: &mut Report<'_>, source: &Value, path: &str) {
    let (has_targets, has_ids) = (!items(&source["targetWWNs"]).is_empty(), !items(&source["wwids"]).is_empty());
    let targets = format!("{path}.targetWWNs");
    match (has_targets, has_ids) {
        (false, false) => report.required(targets, "must specify either targetWWNs or wwids, but not both"),
        (true, true) => {
            let detail = "targetWWNs and wwids can not be specified simultaneously";
            report.invalid(targets, &source["targetWWNs"], detail);
        }
        _ => {}
    }
    if has_targets && source["lun"].is_null() {
        report.required(format!("{path}.lun"), "lun is required if targetWWNs is specified");
    } else if has_targets {
        check_lun(report, &source["lun"], path);
    }
}

/// Checks a volume of Quobyte.
pub(super) fn check_quobyte(report: &mut Report<'_>, source: &Value, path: &str) {
    const PAIRS: &str = "must be a host:port pair or multiple pairs separated by commas";
    let registry = text(&source["registry"]);
    if registry.is_empty() {
        return report.required(format!("{path}.registry"), PAIRS);
    }
    if text(&source["tenant"]).len() > TENANT_BYTES_MAX {
        let detail = "must be a UUID and may not exceed a length of 64 characters";
        return report.required(format!("{path}.tenant"), detail);
    }
    for _ in registry.split(',').filter(|pair| !is_host_and_port(pair)) {
        report.invalid(format!("{path}.registry"), &source["registry"], PAIRS);
    }
}

/// Returns whether a text is a host and a port, of any form. A host with colons has brackets around it.
fn is_host_and_port(text: &str) -> bool {
    let Some((host, port)) = text.rsplit_once(':') else { return false };
    let bare = match host.strip_prefix('[') {
        Some(rest) => rest.strip_suffix(']'),
        None => Some(host).filter(|host| !host.contains(':')),
    };
    bare.is_some_and(|host| !host.contains(['[', ']'])) && !port.contains(['[', ']'])
}

/// Checks a volume of Flocker.
pub(super) fn check_flocker(report: &mut Report<'_>, source: &Value, path: &str) {
    let (name, id) = (text(&source["datasetName"]), text(&source["datasetUUID"]));
    match (name.is_empty(), id.is_empty()) {
        (true, true) => report.required(path, "one of datasetName and datasetUUID is required"),
        (false, false) => {
            let detail = "datasetName and datasetUUID can not be specified simultaneously";
            report.invalid(path, &"resource".into(), detail);
        }
        _ => {}
    }
    if name.contains('/') {
        report.invalid(format!("{path}.datasetName"), &name.into(), "must not contain '/'");
    }
}

/// Checks a disk of Azure.
pub(super) fn check_azure_disk(report: &mut Report<'_>, source: &Value, path: &str) {
    for (name, known) in [("cachingMode", CACHING_MODES), ("kind", DISK_KINDS)] {
        if !source[name].is_null() && !known.contains(&text(&source[name])) {
            report.unsupported(format!("{path}.{name}"), &source[name], &known);
        }
    }
    let (kind, address) = (&source["kind"], text(&source["diskURI"]));
    let (prefix, form) = if kind == "Managed" { ("/subscriptions/", MANAGED_DISK) } else { ("https://", BLOB_DISK) };
    if !kind.is_null() && !address.starts_with(prefix) {
        report.unsupported(format!("{path}.diskURI"), &address.into(), &[form]);
    }
}

/// Checks a volume of StorageOS.
pub(super) fn check_storage_os(report: &mut Report<'_>, source: &Value, path: &str) {
    for name in ["volumeName", "volumeNamespace"] {
        if !text(&source[name]).is_empty() {
            report.label(format!("{path}.{name}"), &source[name]);
        }
    }
    check_secret(report, source, path);
}

/// Checks that a reference to a secret has a name.
pub(super) fn check_secret(report: &mut Report<'_>, source: &Value, path: &str) {
    if source["secretRef"].is_object() {
        require(report, &source["secretRef"], &format!("{path}.secretRef"), &["name"]);
    }
}

/// Checks the driver of a volume that Kubernetes has no code for.
pub(super) fn check_driver(report: &mut Report<'_>, source: &Value, path: &str) {
    report.driver_name(&format!("{path}.driver"), text(&source["driver"]));
}

/// Checks a volume of a driver in a pod.
pub(super) fn check_driver_of_pod(report: &mut Report<'_>, source: &Value, path: &str) {
    check_driver(report, source, path);
    let secret = &source["nodePublishSecretRef"];
    if secret.is_object() && text(&secret["name"]).is_empty() {
        report.required(format!("{path}.nodePublishSecretRef.name"), "");
    } else if secret.is_object() {
        // Kubernetes names the field of the volume.
        report.subdomain(format!("{path}.name"), &secret["name"]);
    }
}

/// Checks the options of a volume of a FlexVolume driver.
pub(super) fn check_options(report: &mut Report<'_>, source: &Value, path: &str) {
    for (name, _) in source["options"].as_object().into_iter().flatten() {
        let domain = format!(".{}", name.split('/').next().unwrap_or_default().to_lowercase());
        if domain.ends_with(".kubernetes.io") || domain.ends_with(".k8s.io") {
            let detail = "kubernetes.io and k8s.io namespaces are reserved";
            report.invalid(format!("{path}.options[{name}]"), &name.as_str().into(), detail);
        }
    }
}
