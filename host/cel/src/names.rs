//! The forms of names, with the words of Kubernetes. Source: `pkg/util/validation/validation.go` of apimachinery.

use std::net::IpAddr;

/// A form of names.
#[derive(Debug)]
pub struct NameForm {
    /// In bytes.
    pub length_max: usize,
    is_valid: fn(&str) -> bool,
    reason: &'static str,
}

impl NameForm {
    /// Returns the faults of a text: its length first, then its form.
    pub fn faults(&self, text: &str) -> Vec<String> {
        let too_long =
            (text.len() > self.length_max).then(|| format!("must be no more than {} bytes", self.length_max));
        let malformed = (!(self.is_valid)(text)).then(|| self.reason.to_owned());
        too_long.into_iter().chain(malformed).collect()
    }

    /// Returns the description of the form, as Kubernetes words it.
    pub fn description(&self) -> &'static str {
        self.reason
    }
}

/// A label of DNS, as the name of a namespace.
pub const DNS_1123_LABEL: NameForm = NameForm {
    length_max: 63,
    is_valid: |text| is_label(text, |first| first.is_ascii_lowercase() || first.is_ascii_digit()),
    reason: "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')",
};
/// A name of DNS, as the name of most resources.
pub const DNS_1123_SUBDOMAIN: NameForm = NameForm {
    length_max: 253,
    is_valid: |text| text.split('.').all(DNS_1123_LABEL.is_valid),
    reason: "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
};
/// A name that is one segment of a path, as the name of a role. Kubernetes also takes characters that a path has to escape.
pub const PATH_SEGMENT: NameForm = NameForm {
    length_max: 253,
    is_valid: |text| !matches!(text, "" | "." | "..") && text.chars().all(is_path_character),
    reason: "may not be '.' or '..', and may have only letters, digits and -._~!$&'()*+,;=:@",
};
/// An IP address, in the form in which it is written.
pub const IP_ADDRESS: NameForm = NameForm {
    length_max: 39,
    is_valid: |text| text.parse().is_ok_and(|address: IpAddr| address.to_string() == text),
    reason: "must be a valid IP address in canonical form (e.g. 10.9.8.7 or 2001:db8::ffff)",
};
/// A label of DNS that begins with a letter, as the name of a service.
pub const DNS_1035_LABEL: NameForm = NameForm {
    length_max: 63,
    is_valid: |text| is_label(text, |first| first.is_ascii_lowercase()),
    reason: "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')",
};
/// The value of a label.
pub const LABEL_VALUE: NameForm = NameForm {
    length_max: 63,
    is_valid: |text| text.is_empty() || is_qualified_part(text),
    reason: "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')",
};
/// The name of a label behind its prefix.
pub const QUALIFIED_PART: NameForm = NameForm {
    length_max: 63,
    is_valid: is_qualified_part,
    reason: "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
};

/// Returns whether a character stands for itself in a segment of a path. Source: RFC 3986, `pchar`.
pub fn is_path_character(c: char) -> bool {
    c.is_ascii_alphanumeric() || "-._~!$&'()*+,;=:@".contains(c)
}

fn is_label(text: &str, is_first: impl Fn(char) -> bool) -> bool {
    let is_inner = |c: char| c == '-' || c.is_ascii_lowercase() || c.is_ascii_digit();
    text.starts_with(is_first) && text.chars().all(is_inner) && !text.ends_with('-')
}

fn is_qualified_part(text: &str) -> bool {
    let is_inner = |c: char| matches!(c, '-' | '_' | '.') || c.is_ascii_alphanumeric();
    let is_end = |c: char| c.is_ascii_alphanumeric();
    text.starts_with(is_end) && text.ends_with(is_end) && text.chars().all(is_inner)
}
