//! Stored resources that do not act: settings of an API server for parts that a host does not have.

use homeostat_runtime::KindInfo;
use homeostat_store::{Kind, Resource};

const ADMISSION: &str = "admissionregistration.k8s.io";

/// The groups of such settings.
const GROUPS: [&str; 3] = [ADMISSION, "apiregistration.k8s.io", "flowcontrol.apiserver.k8s.io"];

/// Returns a warning for each part of a written resource that does not act.
pub(crate) fn warnings(info: &KindInfo, written: &Resource) -> Vec<String> {
    let Kind { group, name, .. } = &info.kind;
    if info.built_in().is_none() || !GROUPS.contains(&group.as_str()) {
        return Vec::new();
    }
    if group == ADMISSION && name.contains("AdmissionPolicy") {
        return Vec::new();
    }
    if group != ADMISSION {
        return vec![format!("{name}.{group} is stored, and does not act on this host")];
    }
    let webhooks = written.document()["webhooks"].as_array().into_iter().flatten().enumerate();
    let services = webhooks.filter(|(_, webhook)| webhook["clientConfig"]["url"].is_null());
    let warning = |at| {
        format!(
            "webhooks[{at}].clientConfig.service: this host calls no services: the webhook is called if it has a url"
        )
    };
    services.map(|(at, _)| warning(at)).collect()
}
