//! Config maps and secrets.

use base64::Engine;
use homeostat_cel::names::CONFIG_KEY;
use serde_json::{Map, Value};

use super::report::{Report, text};

/// Bytes of all values of a config map or secret.
const BYTES_MAX: usize = 1 << 20;

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

/// Returns the number of bytes that a text in base64 stands for.
fn decoded_length(text: &str) -> usize {
    let padding = text.len() - text.trim_end_matches('=').len();
    (text.len() / 4 * 3).saturating_sub(padding)
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
            let text = text(value);
            bytes += if list == "data" { text.len() } else { decoded_length(text) };
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
        bytes += decoded_length(text(value));
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
        match report.at("/data").get(name).and_then(Value::as_str) {
            None => report.required(format!("data[{name}]"), ""),
            Some("") if *name == "ssh-privatekey" => report.required(format!("data[{name}]"), ""),
            Some(value) if name.starts_with(".docker") => check_json(report, name, value),
            Some(_) => {}
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
    report.form(format!("{list}[{name}]"), &name.into(), &CONFIG_KEY);
}

/// Checks that the value of a key of a secret is an object in JSON. It is not shown.
fn check_json(report: &mut Report<'_>, name: &str, value: &str) {
    // As Go decodes it, which skips the ends of lines.
    let value: String = value.chars().filter(|c| !matches!(c, '\r' | '\n')).collect();
    let bytes = base64::engine::general_purpose::STANDARD.decode(value).unwrap_or_default();
    let detail = match serde_json::from_slice::<Value>(&bytes) {
        Ok(Value::Object(_) | Value::Null) => return,
        Ok(other) => {
            let found = match other {
                Value::Array(_) => "array",
                Value::Bool(_) => "bool",
                Value::Number(_) => "number",
                _ => "string",
            };
            format!("json: cannot unmarshal {found} into Go value of type map[string]interface {{}}")
        }
        Err(error) if error.is_eof() => "unexpected end of JSON input".to_owned(),
        // The first byte alone is safe to name.
        Err(_) => match bytes.first() {
            Some(first) if !b"{[\"-0123456789tfn".contains(first) => {
                format!("invalid character {:?} looking for beginning of value", char::from(*first))
            }
            _ => "invalid character".to_owned(),
        },
    };
    report.invalid(format!("data[{name}]"), &"<secret contents redacted>".into(), &detail);
}
