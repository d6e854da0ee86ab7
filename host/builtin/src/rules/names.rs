//! Names, labels and ports in the words of Kubernetes.
//!
//! Source: `k8s.io/apimachinery/pkg/util/validation`.

use std::net::IpAddr;

use serde_json::Value;

use super::report::Report;

pub(super) const PORT: &str = "must be between 1 and 65535, inclusive";

pub(super) const VERSION: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic \
character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is \
'[a-z]([-a-z0-9]*[a-z0-9])?')";

pub(super) const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', \
and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
'[a-z0-9]([-a-z0-9]*[a-z0-9])?')";

const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and \
must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

pub(super) const QUALIFIED: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";

const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and \
must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation \
is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

const LABEL_BYTES_MAX: usize = 63;
const PORT_NAME_BYTES_MAX: usize = 15;
const SUBDOMAIN_BYTES_MAX: usize = 253;

fn ends_are(text: &str, is_plain: fn(u8) -> bool) -> bool {
    let bytes = text.as_bytes();
    bytes.first().is_some_and(|first| is_plain(*first)) && bytes.last().is_some_and(|last| is_plain(*last))
}

/// Returns whether a text is a label of DNS.
pub(super) fn is_label(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    text.len() <= LABEL_BYTES_MAX && ends_are(text, is_plain) && text.bytes().all(|byte| is_plain(byte) || byte == b'-')
}

/// Returns whether a text is the version of a group, as `v1`: a label that begins with a letter.
pub(super) fn is_version(text: &str) -> bool {
    is_label(text) && text.starts_with(|first: char| first.is_ascii_lowercase())
}

/// Returns whether a text is a domain name.
pub(super) fn is_subdomain(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_part = |part: &str| ends_are(part, is_plain) && part.bytes().all(|byte| is_plain(byte) || byte == b'-');
    text.len() <= SUBDOMAIN_BYTES_MAX && text.split('.').all(is_part)
}

/// Returns whether a text is a name with an optional domain before it, as the key of a label.
pub(super) fn is_qualified(text: &str) -> bool {
    let (domain, name) = text.split_once('/').map_or((None, text), |(domain, name)| (Some(domain), name));
    domain.is_none_or(is_subdomain) && !name.is_empty() && is_label_value(name)
}

/// Returns whether a text is the value of a label.
pub(super) fn is_label_value(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric();
    text.is_empty()
        || (text.len() <= LABEL_BYTES_MAX
            && ends_are(text, is_plain)
            && text.bytes().all(|byte| is_plain(byte) || matches!(byte, b'-' | b'_' | b'.')))
}

/// Returns whether a text is the name of a port.
pub(super) fn is_port_name(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    (1..=PORT_NAME_BYTES_MAX).contains(&text.len())
        && text.bytes().all(|byte| is_plain(byte) || byte == b'-')
        && text.bytes().any(|byte| byte.is_ascii_lowercase())
        && !text.contains("--")
        && ends_are(text, is_plain)
}

/// Returns whether a text is a network, as `10.0.0.0/8`.
pub(super) fn is_network(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else { return false };
    let Ok(address) = address.parse::<IpAddr>() else { return false };
    let bits_max = if address.is_ipv4() { 32 } else { 128 };
    bits.parse::<u8>().is_ok_and(|bits| bits <= bits_max)
}

impl Report<'_> {
    /// Checks a label of DNS.
    pub(super) fn label(&mut self, path: String, value: &Value) {
        if !value.as_str().is_some_and(is_label) {
            self.invalid(path, value, LABEL);
        }
    }

    /// Checks a domain name.
    pub(super) fn subdomain(&mut self, path: String, value: &Value) {
        if !value.as_str().is_some_and(is_subdomain) {
            self.invalid(path, value, SUBDOMAIN);
        }
    }

    /// Checks the name of a driver, in any case. An empty one is no matter of this check.
    pub(super) fn driver_name(&mut self, path: &str, name: &str) {
        if name.len() > LABEL_BYTES_MAX {
            self.too_long(path, LABEL_BYTES_MAX);
        }
        if !name.is_empty() {
            self.subdomain(path.to_owned(), &name.to_ascii_lowercase().into());
        }
    }

    /// Checks a name that is a part of a path. An empty one is no matter of this check.
    pub(super) fn path_segment(&mut self, path: &str, value: &Value) {
        let name = value.as_str().unwrap_or_default();
        if name == "." || name == ".." {
            return self.invalid(path, value, &format!("may not be '{name}'"));
        }
        for part in ["/", "%"].into_iter().filter(|part| name.contains(part)) {
            self.invalid(path, value, &format!("may not contain '{part}'"));
        }
    }

    /// Checks the key of a label or taint.
    pub(super) fn qualified(&mut self, path: String, value: &Value) {
        if !value.as_str().is_some_and(is_qualified) {
            if value == "" {
                self.invalid(path.clone(), value, "name part must be non-empty");
            }
            self.invalid(path, value, QUALIFIED);
        }
    }

    /// Checks labels, or a selector by labels.
    pub(super) fn labels(&mut self, path: &str, labels: &Value) {
        for (name, value) in labels.as_object().into_iter().flatten() {
            if !is_qualified(name) {
                self.invalid(path, &name.as_str().into(), QUALIFIED);
            }
            if !value.as_str().is_some_and(is_label_value) {
                self.invalid(path, value, LABEL_VALUE);
            }
        }
    }

    /// Checks a label selector. Nothing selects nothing, and is valid.
    pub(super) fn selector(&mut self, path: &str, selector: &Value) {
        self.labels(&format!("{path}.matchLabels"), &selector["matchLabels"]);
        for (at, requirement) in selector["matchExpressions"].as_array().into_iter().flatten().enumerate() {
            self.selector_requirement(&format!("{path}.matchExpressions[{at}]"), requirement);
        }
    }

    fn selector_requirement(&mut self, path: &str, requirement: &Value) {
        let values = requirement["values"].as_array().map(Vec::as_slice).unwrap_or_default();
        match requirement["operator"].as_str().unwrap_or_default() {
            "In" | "NotIn" if values.is_empty() => {
                self.required(format!("{path}.values"), "must be specified when `operator` is 'In' or 'NotIn'");
            }
            "Exists" | "DoesNotExist" if !values.is_empty() => {
                let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                self.forbidden(format!("{path}.values"), detail);
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            other => self.invalid(format!("{path}.operator"), &other.into(), "not a valid selector operator"),
        }
        let key = requirement["key"].as_str().unwrap_or_default();
        if !is_qualified(key) {
            self.invalid(format!("{path}.key"), &key.into(), QUALIFIED);
        }
        for (at, value) in values.iter().enumerate() {
            if !value.as_str().is_some_and(is_label_value) {
                self.invalid(format!("{path}.values[{at}]"), value, LABEL_VALUE);
            }
        }
    }

    /// Checks the number of a port.
    pub(super) fn port(&mut self, path: String, value: &Value) {
        if !value.as_i64().is_some_and(|number| (1..=65535).contains(&number)) {
            self.invalid(path, &value.as_i64().unwrap_or(0).into(), PORT);
        }
    }

    /// Checks the number or the name of a port.
    pub(super) fn port_or_name(&mut self, path: String, value: &Value) {
        match value {
            Value::String(name) if is_port_name(name) => {}
            Value::String(name) => {
                let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
                if name.len() > PORT_NAME_BYTES_MAX {
                    self.invalid(path.clone(), value, "must be no more than 15 characters");
                }
                if name.is_empty() || !name.bytes().all(is_plain) {
                    let detail = "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)";
                    self.invalid(path.clone(), value, detail);
                }
                if !name.bytes().any(|byte| byte.is_ascii_lowercase()) {
                    self.invalid(path.clone(), value, "must contain at least one letter (a-z)");
                }
                if name.contains("--") {
                    self.invalid(path.clone(), value, "must not contain consecutive hyphens");
                }
                if name.starts_with('-') || name.ends_with('-') {
                    self.invalid(path, value, "must not begin or end with a hyphen");
                }
            }
            _ => self.port(path, value),
        }
    }
}
