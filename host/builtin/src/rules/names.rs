//! Names, labels and ports in the words of Kubernetes.
//!
//! Source: `k8s.io/apimachinery/pkg/util/validation`.

use std::net::{IpAddr, Ipv4Addr};

use homeostat_cel::names::{
    DNS_1123_LABEL, DNS_1123_SUBDOMAIN, LABEL_VALUE, NameForm, path_segment_faults, qualified_faults,
};
use serde_json::Value;

use super::report::{Report, items, text};

pub(super) const PORT: &str = "must be between 1 and 65535, inclusive";

pub(super) const NO_ADDRESS: &str = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
pub(super) const NO_NETWORK: &str = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";

const PORT_NAME_BYTES_MAX: usize = 15;

/// Returns what is wrong with the name of a port.
fn port_name_faults(name: &str) -> Vec<String> {
    let is_letter = |byte: u8| byte.is_ascii_lowercase();
    let is_plain = |byte: u8| is_letter(byte) || byte.is_ascii_digit() || byte == b'-';
    let faults = [
        (name.len() > PORT_NAME_BYTES_MAX, "must be no more than 15 characters"),
        (
            name.is_empty() || !name.bytes().all(is_plain),
            "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)",
        ),
        (!name.bytes().any(is_letter), "must contain at least one letter (a-z)"),
        (name.contains("--"), "must not contain consecutive hyphens"),
        (name.starts_with('-') || name.ends_with('-'), "must not begin or end with a hyphen"),
    ];
    faults.into_iter().filter(|(is_violated, _)| *is_violated).map(|(_, fault)| fault.to_owned()).collect()
}

/// A network, as `10.0.0.0/8`.
pub(super) struct Network {
    address: IpAddr,
    /// The length of its prefix, in bits.
    length: u8,
}

impl Network {
    /// Returns whether it contains all addresses of another network, and more.
    pub(super) fn is_above(&self, other: &Self) -> bool {
        let prefix = |address: IpAddr| match address {
            IpAddr::V4(address) => u128::from(address.to_bits()).checked_shr(32 - u32::from(self.length)),
            IpAddr::V6(address) => address.to_bits().checked_shr(128 - u32::from(self.length)),
        };
        self.address.is_ipv4() == other.address.is_ipv4()
            && self.length < other.length
            && prefix(self.address) == prefix(other.address)
    }
}

/// Parses a network.
pub(super) fn network(text: &str) -> Option<Network> {
    let (address, length) = text.split_once('/')?;
    let (address, length) = (address.parse::<IpAddr>().ok()?, length.parse::<u8>().ok()?);
    (length <= if address.is_ipv4() { 32 } else { 128 }).then_some(Network { address, length })
}

/// Returns whether a text is a network.
pub(super) fn is_network(text: &str) -> bool {
    network(text).is_some()
}

/// Returns whether a text is an IPv4 address but for zeros before its numbers.
fn has_leading_zeros(text: &str) -> bool {
    let plain = |number: &str| match number.trim_start_matches('0') {
        "" if !number.is_empty() => "0".to_owned(),
        plain => plain.to_owned(),
    };
    text.split('.').map(plain).collect::<Vec<_>>().join(".").parse::<Ipv4Addr>().is_ok()
}

impl Report<'_> {
    /// Checks that a text has a form.
    pub(super) fn form(&mut self, path: impl Into<String>, value: &Value, form: &NameForm) {
        self.faults(path, value, form.faults(text(value)));
    }

    /// Adds the faults of a value.
    pub(super) fn faults(&mut self, path: impl Into<String>, value: &Value, faults: Vec<String>) {
        let path = path.into();
        faults.iter().for_each(|fault| self.invalid(path.clone(), value, fault));
    }

    /// Checks a label of DNS.
    pub(super) fn label(&mut self, path: String, value: &Value) {
        self.form(path, value, &DNS_1123_LABEL);
    }

    /// Checks a domain name.
    pub(super) fn subdomain(&mut self, path: String, value: &Value) {
        self.form(path, value, &DNS_1123_SUBDOMAIN);
    }

    /// Checks the value of a label, whose faults are one.
    pub(super) fn label_value(&mut self, path: String, value: &Value) {
        let faults = LABEL_VALUE.faults(text(value));
        if !faults.is_empty() {
            self.invalid(path, value, &faults.join(";"));
        }
    }

    /// Checks a domain, a slash and a path. An empty text is missing.
    pub(super) fn domain_prefixed_path(&mut self, path: &str, value: &Value) {
        let name = text(value);
        if name.is_empty() {
            return self.required(path, "");
        }
        let Some((domain, rest)) = name.split_once('/').filter(|(domain, rest)| !domain.is_empty() && !rest.is_empty())
        else {
            return self.invalid(path, value, "must be a domain-prefixed path (such as \"acme.io/foo\")");
        };
        self.subdomain(path.to_owned(), &domain.into());
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&byte);
        if !rest.bytes().all(is_plain) {
            let detail = "Invalid path (regex used for validation is '[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')";
            self.invalid(path, &rest.into(), detail);
        }
    }

    /// Checks the name of a driver, in any case. An empty one is no matter of this check.
    pub(super) fn driver_name(&mut self, path: &str, name: &str) {
        if name.len() > DNS_1123_LABEL.length_max {
            self.too_long(path, DNS_1123_LABEL.length_max);
        }
        if !name.is_empty() {
            self.faults(path, &name.into(), DNS_1123_SUBDOMAIN.faults(&name.to_ascii_lowercase()));
        }
    }

    /// Checks a name that is a part of a path. An empty one is no matter of this check.
    pub(super) fn path_segment(&mut self, path: &str, value: &Value) {
        self.faults(path, value, path_segment_faults(text(value)));
    }

    /// Checks the key of a label or taint.
    pub(super) fn qualified(&mut self, path: impl Into<String>, value: &Value) {
        self.faults(path, value, qualified_faults(text(value)));
    }

    /// Checks a name as the key of a label, in any case.
    pub(super) fn qualified_in_any_case(&mut self, path: &str, value: &Value) {
        self.faults(path, value, qualified_faults(&text(value).to_lowercase()));
    }

    /// Checks the names of annotations.
    pub(super) fn annotation_names(&mut self, path: &str, annotations: &Value) {
        for (name, _) in annotations.as_object().into_iter().flatten() {
            self.qualified_in_any_case(path, &name.as_str().into());
        }
    }

    /// Checks labels, or a selector by labels.
    pub(super) fn labels(&mut self, path: &str, labels: &Value) {
        for (name, value) in labels.as_object().into_iter().flatten() {
            self.qualified(path, &name.as_str().into());
            self.form(path, value, &LABEL_VALUE);
        }
    }

    /// Checks values of labels.
    pub(super) fn label_values(&mut self, path: &str, values: &[Value]) {
        for (at, value) in values.iter().enumerate() {
            self.form(format!("{path}[{at}]"), value, &LABEL_VALUE);
        }
    }

    /// Checks a label selector. Nothing selects nothing, and is valid.
    pub(super) fn selector(&mut self, path: &str, selector: &Value) {
        self.selector_with(path, selector, true);
    }

    /// Checks a label selector, and the values of its requirements if `checks_values`.
    pub(super) fn selector_with(&mut self, path: &str, selector: &Value, checks_values: bool) {
        self.labels(&format!("{path}.matchLabels"), &selector["matchLabels"]);
        for (at, requirement) in items(&selector["matchExpressions"]).iter().enumerate() {
            let path = format!("{path}.matchExpressions[{at}]");
            self.selector_requirement(&path, requirement, false, checks_values);
        }
    }

    /// Checks a requirement of labels, which can compare numbers if `compares`, and its values if `checks_values`.
    pub(super) fn selector_requirement(
        &mut self,
        path: &str,
        requirement: &Value,
        compares: bool,
        checks_values: bool,
    ) {
        let (values, list) = (format!("{path}.values"), items(&requirement["values"]));
        match text(&requirement["operator"]) {
            "In" | "NotIn" if list.is_empty() => {
                self.required(values.clone(), "must be specified when `operator` is 'In' or 'NotIn'");
            }
            "Exists" | "DoesNotExist" if !list.is_empty() => {
                let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                self.forbidden(values.clone(), detail);
            }
            "Gt" | "Lt" if compares && list.len() != 1 => {
                self.required(values.clone(), "must be specified single value when `operator` is 'Lt' or 'Gt'");
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            "Gt" | "Lt" if compares => {}
            other => self.invalid(format!("{path}.operator"), &other.into(), "not a valid selector operator"),
        }
        self.qualified(format!("{path}.key"), &text(&requirement["key"]).into());
        if checks_values {
            self.label_values(&values, list);
        }
    }

    /// Checks an IP address of a field that Kubernetes also takes in other than its canonical form.
    pub(super) fn legacy_ip(&mut self, path: String, value: &Value) {
        match text(value).parse::<IpAddr>() {
            Ok(IpAddr::V6(address)) if address.to_ipv4_mapped().is_some() => {
                self.invalid(path, value, "must not be an IPv4-mapped IPv6 address");
            }
            Ok(_) => {}
            Err(_) if has_leading_zeros(text(value)) => self.invalid(path, value, "must not have leading 0s"),
            Err(_) => self.invalid(path, value, NO_ADDRESS),
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
            Value::String(name) => self.faults(path, value, port_name_faults(name)),
            _ => self.port(path, value),
        }
    }
}
