//! Named formats of texts. Source: Kubernetes' library of formats, with its messages.

use super::{encoders, time, urls};
use crate::names::{DNS_1035_LABEL, DNS_1123_LABEL, DNS_1123_SUBDOMAIN, LABEL_VALUE, qualified_faults};

/// The size of a pattern, for the cost of a match. Source: the longest of those that Kubernetes assumes for names.
pub(crate) const PATTERN_SIZE: u64 = 128;

/// A format and its name.
pub(crate) struct NamedFormat {
    name: &'static str,
    /// Returns the faults of a text.
    check: fn(&str) -> Vec<String>,
}

impl std::fmt::Debug for NamedFormat {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

impl PartialEq for NamedFormat {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

/// All formats.
static FORMATS: [NamedFormat; 13] = [
    NamedFormat { name: "dns1123Label", check: |text| DNS_1123_LABEL.faults(text) },
    NamedFormat { name: "dns1123LabelPrefix", check: |text| DNS_1123_LABEL.faults(&as_prefix(text)) },
    NamedFormat { name: "dns1123Subdomain", check: |text| DNS_1123_SUBDOMAIN.faults(text) },
    NamedFormat { name: "dns1123SubdomainPrefix", check: |text| DNS_1123_SUBDOMAIN.faults(&as_prefix(text)) },
    NamedFormat { name: "dns1035Label", check: |text| DNS_1035_LABEL.faults(text) },
    NamedFormat { name: "dns1035LabelPrefix", check: |text| DNS_1035_LABEL.faults(&as_prefix(text)) },
    NamedFormat { name: "qualifiedName", check: qualified_faults },
    NamedFormat { name: "labelValue", check: |text| LABEL_VALUE.faults(text) },
    NamedFormat { name: "uri", check: |text| one(urls::Url::parse(text).is_some(), "invalid URI for request") },
    NamedFormat { name: "uuid", check: |text| one(is_uuid(text), "does not match the UUID format") },
    NamedFormat { name: "byte", check: |text| one(encoders::decoded(text).is_some(), "invalid base64") },
    NamedFormat {
        name: "date",
        check: |text| one(text.len() == 10 && text.parse::<jiff::civil::Date>().is_ok(), "invalid date"),
    },
    NamedFormat { name: "datetime", check: |text| one(time::timestamp(text).is_some(), "invalid datetime") },
];

/// Returns the format of a name.
pub(crate) fn by_name(name: &str) -> Option<&'static NamedFormat> {
    FORMATS.iter().find(|format| format.name == name)
}

impl NamedFormat {
    /// Returns the faults of a text.
    pub(crate) fn faults(&self, text: &str) -> Vec<String> {
        (self.check)(text)
    }
}

fn one(is_valid: bool, reason: &str) -> Vec<String> {
    if is_valid { Vec::new() } else { vec![reason.to_owned()] }
}

/// Returns a name as the generated name that begins with a prefix: a final dash is no end then.
fn as_prefix(text: &str) -> String {
    match text.strip_suffix('-') {
        Some(start) => format!("{start}a"),
        None => text.to_owned(),
    }
}

fn is_uuid(text: &str) -> bool {
    let digits = text.replace('-', "");
    let is_form = text.len() == 32 || text.split('-').map(str::len).eq([8, 4, 4, 4, 12]);
    is_form && digits.len() == 32 && digits.bytes().all(|digit| digit.is_ascii_hexdigit())
}
