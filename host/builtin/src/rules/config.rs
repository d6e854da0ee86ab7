//! Config maps and secrets.

use base64::Engine;
use serde_json::{Map, Value};

use super::report::Report;

/// Bytes of all values of a config map or secret.
const BYTES_MAX: usize = 1 << 20;
const KEY_BYTES_MAX: usize = 253;

/// Moves the plain texts of a secret into its data.
pub(super) fn merge_string_data(secret: &mut Value, _old: Option<&Value>) {
    let Some(fields) = secret.as_object_mut() else { return };
    let Some(Value::Object(texts)) = fields.remove("stringData") else { return };
    let data = fields.entry("data").or_insert_with(|| Value::Object(Map::new()));
    if let Some(data) = data.as_object_mut() {
        let encoded =
            |text: &Value| base64::engine::general_purpose::STANDARD.encode(text.as_str().unwrap_or_default());
        data.extend(texts.iter().map(|(name, text)| (name.clone(), encoded(text).into())));
    }
}

pub(super) fn check_config_map(report: &mut Report<'_>) {
    let mut bytes = 0;
    for list in ["data", "binaryData"] {
        for (name, value) in report.at(&format!("/{list}")).as_object().into_iter().flatten() {
            check_key(report, list, name);
            if list == "data" && report.resource["binaryData"].get(name).is_some() {
                let detail = "duplicate of key present in binaryData";
                report.invalid(format!("data[{name}]"), &name.as_str().into(), detail);
            }
            let length = value.as_str().map_or(0, str::len);
            bytes += if list == "data" { length } else { length / 4 * 3 };
        }
    }
    if bytes > BYTES_MAX {
        report.too_long("", BYTES_MAX);
    }
    check_immutable(report, &["data", "binaryData"]);
}

pub(super) fn check_secret(report: &mut Report<'_>) {
    let mut bytes = 0;
    for (name, value) in report.at("/data").as_object().into_iter().flatten() {
        check_key(report, "data", name);
        bytes += value.as_str().map_or(0, str::len) / 4 * 3;
    }
    if bytes > BYTES_MAX {
        report.too_long("data", BYTES_MAX);
    }
    let needed: &[&str] = match report.at("/type").as_str().unwrap_or_default() {
        "kubernetes.io/service-account-token" => {
            let account = report.at("/metadata/annotations/kubernetes.io~1service-account.name");
            if account.as_str().is_none_or(str::is_empty) {
                report.required("metadata.annotations[kubernetes.io/service-account.name]", "");
            }
            &[]
        }
        "kubernetes.io/dockercfg" => &[".dockercfg"],
        "kubernetes.io/dockerconfigjson" => &[".dockerconfigjson"],
        "kubernetes.io/ssh-auth" => &["ssh-privatekey"],
        "kubernetes.io/tls" => &["tls.crt", "tls.key"],
        "kubernetes.io/basic-auth" => {
            let data = report.at("/data");
            let has_one = data.get("username").is_some() || data.get("password").is_some();
            if has_one { &[] } else { &["username", "password"] }
        }
        _ => &[],
    };
    for name in needed {
        if report.at("/data").get(name).is_none() {
            report.required(format!("data[{name}]"), "");
        }
    }
    report.immutable("/type");
    check_immutable(report, &["data"]);
}

fn check_immutable(report: &mut Report<'_>, lists: &[&str]) {
    const DETAIL: &str = "field is immutable when `immutable` is set";
    let Some(old) = report.old.filter(|old| old["immutable"] == true) else { return };
    if report.at("/immutable") != true {
        report.forbidden("immutable", DETAIL);
    }
    for list in lists {
        if old[*list] != report.resource[*list] {
            report.forbidden(*list, DETAIL);
        }
    }
}

fn check_key(report: &mut Report<'_>, list: &str, name: &str) {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    if name.is_empty() || !name.bytes().all(is_plain) {
        let detail = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or \
            'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";
        report.invalid(format!("{list}[{name}]"), &name.into(), detail);
    } else if name == "." || name == ".." {
        report.invalid(format!("{list}[{name}]"), &name.into(), &format!("must not be '{name}'"));
    } else if name.len() > KEY_BYTES_MAX {
        report.invalid(format!("{list}[{name}]"), &name.into(), "must be no more than 253 characters");
    }
}
