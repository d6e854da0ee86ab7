//! The names and addresses by which a pod knows itself and others.

use homeostat_cel::names::{DNS_1123_LABEL, DNS_1123_SUBDOMAIN, DNS_1123_SUBDOMAIN_WITH_UNDERSCORE};
use serde_json::Value;

use super::spec::PodSpec;
use crate::rules::report::{Report, items, text};

const NAME_SERVERS_MAX: usize = 3;
const SEARCHES_MAX: usize = 32;
/// Most bytes of all search paths, with a space between two of them.
const SEARCH_BYTES_MAX: usize = 2048;
const HOST_NAME_BYTES_MAX: usize = 64;

/// Checks the names and addresses of a pod and of others.
pub(super) fn check(report: &mut Report<'_>, pod: &PodSpec<'_>) {
    check_dns(report, pod);
    check_host_names(report, pod);
    check_host_name_override(report, pod);
    for (at, alias) in items(&pod.fields["hostAliases"]).iter().enumerate() {
        let path = format!("{}.hostAliases[{at}]", pod.path);
        report.legacy_ip(format!("{path}.ip"), &text(&alias["ip"]).into());
        for (at, name) in items(&alias["hostnames"]).iter().enumerate() {
            report.form(format!("{path}.hostnames[{at}]"), name, &DNS_1123_SUBDOMAIN);
        }
    }
}

fn check_dns(report: &mut Report<'_>, pod: &PodSpec<'_>) {
    let (config, path) = (&pod.fields["dnsConfig"], format!("{}.dnsConfig", pod.path));
    if pod.fields["dnsPolicy"] == "None" {
        if !config.is_object() {
            return report.required(path, "must provide `dnsConfig` when `dnsPolicy` is None");
        }
        if items(&config["nameservers"]).is_empty() {
            let detail = "must provide at least one DNS nameserver when `dnsPolicy` is None";
            return report.required(format!("{path}.nameservers"), detail);
        }
    }
    check_name_servers(report, &config["nameservers"], &format!("{path}.nameservers"));
    check_searches(report, &config["searches"], &format!("{path}.searches"));
    for (at, option) in items(&config["options"]).iter().enumerate() {
        if text(&option["name"]).is_empty() {
            report.required(format!("{path}.options[{at}]"), "must not be empty");
        }
    }
}

fn check_name_servers(report: &mut Report<'_>, servers: &Value, path: &str) {
    if items(servers).len() > NAME_SERVERS_MAX {
        report.invalid(path, servers, "must not have more than 3 nameservers");
    }
    for (at, server) in items(servers).iter().enumerate() {
        report.legacy_ip(format!("{path}[{at}]"), server);
    }
}

fn check_searches(report: &mut Report<'_>, searches: &Value, path: &str) {
    let list: Vec<&str> = items(searches).iter().map(text).collect();
    if list.len() > SEARCHES_MAX {
        report.invalid(path, searches, "must not have more than 32 search paths");
    }
    if list.join(" ").len() > SEARCH_BYTES_MAX {
        report.invalid(path, searches, "must not have more than 2048 characters (including spaces) in the search list");
    }
    for (at, search) in list.into_iter().enumerate().filter(|(_, search)| *search != ".") {
        let search = search.strip_suffix('.').unwrap_or(search);
        report.form(format!("{path}[{at}]"), &search.into(), &DNS_1123_SUBDOMAIN_WITH_UNDERSCORE);
    }
}

fn check_host_names(report: &mut Report<'_>, pod: &PodSpec<'_>) {
    // A stateful set overwrites the names of its pods.
    if !pod.is_of_pod && report.at("/kind") == "StatefulSet" {
        return;
    }
    for name in ["hostname", "subdomain"] {
        let value = &pod.fields[name];
        if !text(value).is_empty() {
            report.form(format!("{}.{name}", pod.path), value, &DNS_1123_LABEL);
        }
    }
}

fn check_host_name_override(report: &mut Report<'_>, pod: &PodSpec<'_>) {
    let (name, path) = (&pod.fields["hostnameOverride"], format!("{}.hostnameOverride", pod.path));
    if !name.is_string() {
        return;
    }
    if pod.fields["setHostnameAsFQDN"] == true {
        report.forbidden(path.clone(), "may not be specified when setHostnameAsFQDN is true");
    }
    if pod.is_on_host_network() {
        report.forbidden(path.clone(), "may not be specified when hostNetwork is true");
    }
    if text(name).len() > HOST_NAME_BYTES_MAX {
        report.too_long(path.clone(), HOST_NAME_BYTES_MAX);
    }
    report.form(path, name, &DNS_1123_SUBDOMAIN);
}
