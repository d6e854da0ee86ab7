//! The forms of names, with the words of Kubernetes. Source: `pkg/util/validation/validation.go` of apimachinery.

use std::net::IpAddr;

/// A form of names.
#[derive(Debug)]
pub struct NameForm {
    /// In bytes.
    pub length_max: usize,
    /// The word of Kubernetes for the bytes.
    unit: &'static str,
    /// Returns why a text of any length does not have the form.
    fault: fn(&str) -> Option<String>,
}

impl NameForm {
    const fn of_characters(length_max: usize, fault: fn(&str) -> Option<String>) -> Self {
        Self { length_max, unit: "characters", fault }
    }

    const fn of_bytes(length_max: usize, fault: fn(&str) -> Option<String>) -> Self {
        Self { length_max, unit: "bytes", fault }
    }

    /// Returns the faults of a text: its length first, then its form.
    pub fn faults(&self, text: &str) -> Vec<String> {
        let Self { length_max, unit, fault } = self;
        let too_long = (text.len() > *length_max).then(|| format!("must be no more than {length_max} {unit}"));
        too_long.into_iter().chain(fault(text)).collect()
    }

    /// Returns whether a text has the form.
    pub fn fits(&self, text: &str) -> bool {
        text.len() <= self.length_max && (self.fault)(text).is_none()
    }
}

/// Returns what Kubernetes says of a text that lacks a form: the description of the form, examples, and its pattern.
macro_rules! words {
    ($description:literal, $examples:literal, $pattern:literal) => {
        concat!($description, " (e.g. ", $examples, ", regex used for validation is '", $pattern, "')")
    };
}

/// A label of DNS, as the name of a namespace.
pub const DNS_1123_LABEL: NameForm = NameForm::of_characters(63, |text| {
    let words = words!(
        "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an \
        alphanumeric character",
        "'my-name',  or '123-abc'",
        "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
    );
    let has_dots = || text.split('.').all(is_dns_label);
    (!is_dns_label(text)).then(|| if has_dots() { "must not contain dots" } else { words }.to_owned())
});
/// A name of DNS, as the name of most resources.
pub const DNS_1123_SUBDOMAIN: NameForm = NameForm::of_characters(253, |text| {
    let words = words!(
        "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and \
        end with an alphanumeric character",
        "'example.com'",
        "[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
    );
    unless(text.split('.').all(is_dns_label), words)
});
/// A name of DNS whose labels can begin with an underscore and have some inside, as the domain of a service record.
pub const DNS_1123_SUBDOMAIN_WITH_UNDERSCORE: NameForm = NameForm::of_characters(253, |text| {
    let words = words!(
        "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must start \
        and end with an alphanumeric character",
        "'example.com'",
        "_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*"
    );
    unless(text.split('.').all(is_dns_label_with_underscore), words)
});
/// A key of a config map or a secret.
pub const CONFIG_KEY: NameForm = NameForm::of_characters(253, |text| {
    let words = words!(
        "a valid config key must consist of alphanumeric characters, '-', '_' or '.'",
        "'key.name',  or 'KEY_NAME',  or 'key-name'",
        "[-._a-zA-Z0-9]+"
    );
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    match text {
        "." | ".." => Some(format!("must not be '{text}'")),
        _ if text.is_empty() || !text.chars().all(is_plain) => Some(words.to_owned()),
        _ => text.starts_with("..").then(|| "must not start with '..'".to_owned()),
    }
});
/// A name that is one segment of a path, as the name of a role. Kubernetes also takes characters that a path has to escape.
pub const PATH_SEGMENT: NameForm = NameForm::of_bytes(253, |text| {
    let is_valid = !matches!(text, "" | "." | "..") && text.chars().all(is_path_character);
    unless(is_valid, "may not be '.' or '..', and may have only letters, digits and -._~!$&'()*+,;=:@")
});
/// An IP address, in the form in which it is written.
pub const IP_ADDRESS: NameForm = NameForm::of_characters(usize::MAX, |text| match text.parse::<IpAddr>() {
    Err(_) => Some("must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)".to_owned()),
    Ok(IpAddr::V6(address)) if address.to_ipv4_mapped().is_some() => {
        Some("must not be an IPv4-mapped IPv6 address".to_owned())
    }
    Ok(address) => {
        let canonical = address.to_string();
        (canonical != text).then(|| format!("must be in canonical form ({canonical:?})"))
    }
});
/// A label of DNS that begins with a letter, as the name of a service.
pub const DNS_1035_LABEL: NameForm = NameForm::of_characters(63, |text| {
    let words = words!(
        "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and \
        end with an alphanumeric character",
        "'my-name',  or 'abc-123'",
        "[a-z]([-a-z0-9]*[a-z0-9])?"
    );
    unless(is_dns_label(text) && text.starts_with(|first: char| first.is_ascii_lowercase()), words)
});
/// The value of a label.
pub const LABEL_VALUE: NameForm = NameForm::of_bytes(63, |text| {
    let words = words!(
        "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end \
        with an alphanumeric character",
        "'MyValue',  or 'my_value',  or '12345'",
        "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?"
    );
    unless(text.is_empty() || is_qualified_part(text), words)
});
/// The name of a label behind its prefix.
const QUALIFIED_PART: NameForm = NameForm::of_bytes(63, |text| unless(is_qualified_part(text), QUALIFIED_WORDS));
const QUALIFIED_WORDS: &str = words!(
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character",
    "'MyName',  or 'my.name',  or '123-abc'",
    "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
);

/// Most bytes of the names and values of all annotations of a resource together.
pub const ANNOTATIONS_BYTES_MAX: usize = 256 << 10;

/// Returns the faults of a name that is one segment of a path.
pub fn path_segment_faults(text: &str) -> Vec<String> {
    if text == "." || text == ".." { vec![format!("may not be '{text}'")] } else { path_segment_prefix_faults(text) }
}

/// Returns the faults of a text with which a name begins that is one segment of a path.
pub fn path_segment_prefix_faults(text: &str) -> Vec<String> {
    ["/", "%"].into_iter().filter(|part| text.contains(part)).map(|part| format!("may not contain '{part}'")).collect()
}

/// Returns the faults of the name of a label, annotation or finalizer: `name` or `prefix/name`.
pub fn qualified_faults(text: &str) -> Vec<String> {
    let (prefix, name) = match text.split_once('/') {
        None => (None, text),
        Some((_, name)) if name.contains('/') => {
            let prefixed = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')";
            return vec![format!("a valid label key {QUALIFIED_WORDS} {prefixed}")];
        }
        Some((prefix, name)) => (Some(prefix), name),
    };
    let of_prefix = match prefix {
        None => Vec::new(),
        Some("") => vec![EMPTY.to_owned()],
        Some(prefix) => NameForm { unit: "bytes", ..DNS_1123_SUBDOMAIN }.faults(prefix),
    };
    let empty = name.is_empty().then(|| EMPTY.to_owned());
    let of_name = empty.into_iter().chain(QUALIFIED_PART.faults(name)).map(|fault| format!("name part {fault}"));
    of_prefix.into_iter().map(|fault| format!("prefix part {fault}")).chain(of_name).collect()
}

const EMPTY: &str = "must be non-empty";

/// Returns whether a character stands for itself in a segment of a path. Source: RFC 3986, `pchar`.
pub fn is_path_character(c: char) -> bool {
    c.is_ascii_alphanumeric() || "-._~!$&'()*+,;=:@".contains(c)
}

fn unless(is_valid: bool, words: &str) -> Option<String> {
    (!is_valid).then(|| words.to_owned())
}

/// Returns whether a text of any length is a label of DNS.
fn is_dns_label(text: &str) -> bool {
    let is_end = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    text.starts_with(is_end) && text.ends_with(is_end) && text.chars().all(|c| c == '-' || is_end(c))
}

/// Returns whether a text of any length is a label of DNS with underscores.
fn is_dns_label_with_underscore(text: &str) -> bool {
    let text = text.strip_prefix('_').unwrap_or(text);
    let is_end = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    text.starts_with(is_end) && text.ends_with(is_end) && text.chars().all(|c| matches!(c, '-' | '_') || is_end(c))
}

fn is_qualified_part(text: &str) -> bool {
    let is_inner = |c: char| matches!(c, '-' | '_' | '.') || c.is_ascii_alphanumeric();
    let is_end = |c: char| c.is_ascii_alphanumeric();
    text.starts_with(is_end) && text.ends_with(is_end) && text.chars().all(is_inner)
}
