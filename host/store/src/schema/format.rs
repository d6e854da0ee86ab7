//! The supported values of `format`. Others are ignored, as in Kubernetes.

mod codes;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use homeostat_cel::names::{DNS_1123_LABEL, DNS_1123_SUBDOMAIN};
use serde_json::Value;

use super::ValueType;

/// A supported format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    Int32,
    Int64,
    Float,
    Date,
    DateTime,
    /// A time with microseconds. Only built-in kinds have it.
    MicroTime,
    Byte,
    Duration,
    Ipv4,
    Ipv6,
    /// With the version that its digits name; `None` for any.
    Uuid(Option<u8>),
    Mac,
    Isbn,
    Isbn10,
    Isbn13,
    CreditCard,
    Ssn,
    HexColor,
    RgbColor,
    BsonObjectId,
    ShortName,
    LongName,
    /// Numbers of 64 bits, which all numbers are.
    Double,
    Email,
    Hostname,
    Cidr,
    Uri,
    /// Not checked; the value is never shown.
    Password,
}

/// Returns whether a format validates the values of a type, whose name is empty for any type. Source:
/// `GetUnrecognizedFormats` of Kubernetes.
pub(crate) fn is_known_format(name: &str, of_type: &str) -> bool {
    match of_type {
        "integer" => matches!(Format::named(name), Some(Format::Int32 | Format::Int64)),
        "number" => matches!(Format::named(name), Some(Format::Float | Format::Double)),
        "" | "string" => Format::named(name).is_some_and(|format| format.is_of_texts() && format != Format::MicroTime),
        _ => false,
    }
}

const NAMES: [(Format, &str); 31] = [
    (Format::Int32, "int32"),
    (Format::Int64, "int64"),
    (Format::Float, "float"),
    (Format::Double, "double"),
    (Format::Date, "date"),
    (Format::DateTime, "date-time"),
    (Format::MicroTime, "x-homeostat-micro-time"),
    (Format::Byte, "byte"),
    (Format::Duration, "duration"),
    (Format::Ipv4, "ipv4"),
    (Format::Ipv6, "ipv6"),
    (Format::Uuid(None), "uuid"),
    (Format::Uuid(Some(3)), "uuid3"),
    (Format::Uuid(Some(4)), "uuid4"),
    (Format::Uuid(Some(5)), "uuid5"),
    (Format::Mac, "mac"),
    (Format::Isbn, "isbn"),
    (Format::Isbn10, "isbn10"),
    (Format::Isbn13, "isbn13"),
    (Format::CreditCard, "creditcard"),
    (Format::Ssn, "ssn"),
    (Format::HexColor, "hexcolor"),
    (Format::RgbColor, "rgbcolor"),
    (Format::BsonObjectId, "bsonobjectid"),
    (Format::ShortName, "k8s-short-name"),
    (Format::LongName, "k8s-long-name"),
    (Format::Email, "email"),
    (Format::Hostname, "hostname"),
    (Format::Cidr, "cidr"),
    (Format::Uri, "uri"),
    (Format::Password, "password"),
];

impl Format {
    /// Returns the format of that name, if it is supported. Dashes do not count, except in formats of numbers.
    pub(super) fn named(name: &str) -> Option<Self> {
        let letters = |text: &str| text.replace('-', "");
        let wanted = letters(name);
        let found = NAMES.iter().find(|(_, known)| letters(known) == wanted);
        found.filter(|(format, known)| format.is_of_texts() || name == *known).map(|(format, _)| *format)
    }

    /// Returns the name of the format.
    pub(super) fn name(self) -> &'static str {
        NAMES.iter().find(|(format, _)| *format == self).map_or("", |(_, name)| name)
    }

    fn is_of_texts(self) -> bool {
        !matches!(self, Self::Int32 | Self::Int64 | Self::Float | Self::Double)
    }

    /// Returns whether values of a type can have this format; `None` for any type. Others ignore it. Source:
    /// `StripUnsupportedFormatsPostProcessorForVersion` of Kubernetes.
    pub(super) fn suits(self, of_type: Option<ValueType>) -> bool {
        match self {
            Self::Int32 | Self::Int64 => of_type == Some(ValueType::Integer),
            Self::Float | Self::Double => of_type == Some(ValueType::Number),
            _ => matches!(of_type, None | Some(ValueType::String | ValueType::IntegerOrString)),
        }
    }

    /// Returns whether a value has this format. A format applies to values of certain types only; all other
    /// values pass.
    pub(super) fn holds(self, value: &Value) -> bool {
        match (self, value) {
            (Self::Int32, Value::Number(number)) => {
                number.as_f64().is_some_and(|number| (f64::from(i32::MIN)..=f64::from(i32::MAX)).contains(&number))
            }
            // Floats are not exact in this range; only integers are checked exactly.
            (Self::Int64, Value::Number(number)) => {
                number.as_i64().is_some()
                    || number.is_f64() && number.as_f64().is_some_and(|number| number.abs() < 2f64.powi(63))
            }
            (Self::Float, Value::Number(number)) => {
                number.as_f64().is_some_and(|number| number.abs() <= f64::from(f32::MAX))
            }
            (_, Value::String(text)) => self.holds_text(text),
            _ => true,
        }
    }

    fn holds_text(self, text: &str) -> bool {
        match self {
            Self::Int32 | Self::Int64 | Self::Float | Self::Double | Self::Password => true,
            Self::Date => is_date(text),
            Self::DateTime | Self::MicroTime => is_date_time(text),
            Self::Byte => is_base64(text),
            Self::Duration => is_duration(text),
            Self::Ipv4 => text.parse::<Ipv4Addr>().is_ok(),
            Self::Ipv6 => text.parse::<Ipv6Addr>().is_ok(),
            Self::Uuid(version) => is_uuid(text, version),
            Self::Mac => codes::is_mac(text),
            Self::Isbn => codes::is_isbn_10(text) || codes::is_isbn_13(text),
            Self::Isbn10 => codes::is_isbn_10(text),
            Self::Isbn13 => codes::is_isbn_13(text),
            Self::CreditCard => codes::is_credit_card(text),
            Self::Ssn => codes::is_ssn(text),
            Self::HexColor => codes::is_hex_color(text),
            Self::RgbColor => codes::is_rgb_color(text),
            Self::BsonObjectId => text.len() == 24 && text.bytes().all(|byte| byte.is_ascii_hexdigit()),
            Self::ShortName => DNS_1123_LABEL.fits(text),
            Self::LongName => DNS_1123_SUBDOMAIN.fits(text),
            Self::Email => is_email(text),
            Self::Hostname => is_hostname(text),
            Self::Cidr => is_cidr(text),
            Self::Uri => is_uri(text),
        }
    }
}

/// `10.0.0.0/8`.
fn is_cidr(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else { return false };
    let bits_max = match address.parse::<IpAddr>() {
        Ok(IpAddr::V4(_)) => 32,
        Ok(IpAddr::V6(_)) => 128,
        Err(_) => return false,
    };
    bits.parse::<u8>().is_ok_and(|bits| bits <= bits_max)
}

/// `2026-01-31`.
fn is_date(text: &str) -> bool {
    let shape = text
        .bytes()
        .enumerate()
        .all(|(at, byte)| if matches!(at, 4 | 7) { byte == b'-' } else { byte.is_ascii_digit() });
    shape && text.len() == 10 && text.parse::<jiff::civil::Date>().is_ok()
}

/// `2026-01-31T12:00:00.5+01:00`, by RFC 3339.
fn is_date_time(text: &str) -> bool {
    let (Some(date), Some(separator)) = (text.get(..10), text.get(10..11)) else { return false };
    let has_seconds = text.get(11..19).is_some_and(|time| {
        time.bytes()
            .enumerate()
            .all(|(at, byte)| if matches!(at, 2 | 5) { byte == b':' } else { byte.is_ascii_digit() })
    });
    is_date(date) && matches!(separator, "T" | "t" | " ") && has_seconds && text.parse::<jiff::Timestamp>().is_ok()
}

/// Base64 of RFC 4648, padded. Line breaks are allowed.
fn is_base64(text: &str) -> bool {
    let mut padding = 0;
    let mut count = 0;
    for byte in text.bytes().filter(|byte| !matches!(byte, b'\r' | b'\n')) {
        count += 1;
        match byte {
            b'=' => padding += 1,
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'+' | b'/' if padding == 0 => {}
            _ => return false,
        }
    }
    count % 4 == 0 && padding <= 2
}

/// `1h30m`, `-1.5s`, and with words `3 days`.
fn is_duration(text: &str) -> bool {
    const UNITS: [&str; 27] = [
        "ns", "us", "µs", "μs", "ms", "s", "m", "h", "d", "w", "nano", "micro", "milli", "sec", "secs", "second",
        "seconds", "min", "mins", "minute", "minutes", "hour", "hours", "day", "days", "week", "weeks",
    ];
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    if rest == "0" {
        return true;
    }
    let mut parts = 0;
    while !rest.is_empty() {
        let unit_at = rest.find(|next: char| !next.is_ascii_digit() && next != '.').unwrap_or(rest.len());
        let (number, after) = rest.split_at(unit_at);
        let after = after.trim_start_matches(' ');
        let end = after.find(|next: char| next.is_ascii_digit() || next == ' ').unwrap_or(after.len());
        let (unit, after) = after.split_at(end);
        let numeric = number.bytes().any(|byte| byte.is_ascii_digit()) && number.matches('.').count() <= 1;
        if !numeric || !UNITS.contains(&unit) {
            return false;
        }
        rest = after.trim_start_matches(' ');
        parts += 1;
    }
    parts > 0
}

/// 32 hexadecimal digits, with or without the four dashes, and with the digits of a version.
fn is_uuid(text: &str, version: Option<u8>) -> bool {
    let mut digits = 0;
    for byte in text.bytes() {
        match byte {
            b'-' if matches!(digits, 8 | 12 | 16 | 20) => {}
            _ if byte.is_ascii_hexdigit() => digits += 1,
            _ => return false,
        }
    }
    let plain: Vec<u8> = text.bytes().filter(|byte| *byte != b'-').collect();
    let is_of_variant = |byte: &u8| matches!(byte.to_ascii_lowercase(), b'8' | b'9' | b'a' | b'b');
    let is_of_version = match version {
        None => true,
        Some(3) => plain.get(12) == Some(&b'3'),
        Some(version) => plain.get(12) == Some(&(b'0' + version)) && plain.get(16).is_some_and(is_of_variant),
    };
    digits == 32 && text.len() <= 36 && !text.contains("--") && is_of_version
}

fn is_email(text: &str) -> bool {
    let Some((local, domain)) = text.rsplit_once('@') else { return false };
    let plain = |text: &str| !text.is_empty() && !text.chars().any(|next| next.is_whitespace() || next.is_control());
    plain(local) && !local.contains('@') && plain(domain) && !domain.starts_with('.') && !domain.ends_with('.')
}

/// Labels of letters, digits and dashes, by RFC 1123.
fn is_hostname(text: &str) -> bool {
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    text.len() <= 253 && text.strip_suffix('.').unwrap_or(text).split('.').all(is_label)
}

/// `scheme:rest`, or a path from the root.
fn is_uri(text: &str) -> bool {
    if text.chars().any(|next| next.is_control() || next == ' ') {
        return false;
    }
    if text.starts_with('/') {
        return true;
    }
    let Some((scheme, rest)) = text.split_once(':') else { return false };
    scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'))
        && !rest.is_empty()
}

#[cfg(test)]
mod tests;
