//! The validity period of a certificate.
//!
//! None of the libraries here reads it without verifying the certificate. So this module parses DER as far as
//! the period. Source: RFC 5280, 4.1; X.690 for lengths.

use std::ops::RangeInclusive;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

const INTEGER: u8 = 0x02;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const SEQUENCE: u8 = 0x30;
/// The tag of the version field, which certificates of version 1 do not have.
const VERSION: u8 = 0xa0;

/// Returns the validity period of a certificate in DER; `None` if it does not parse.
pub fn validity(certificate: &[u8]) -> Option<RangeInclusive<Timestamp>> {
    let (certificate, _) = take(certificate, SEQUENCE)?;
    let (signed, _) = take(certificate, SEQUENCE)?;
    let rest = take(signed, VERSION).map_or(signed, |(_, rest)| rest);
    let (_serial, rest) = take(rest, INTEGER)?;
    let (_algorithm, rest) = take(rest, SEQUENCE)?;
    let (_issuer, rest) = take(rest, SEQUENCE)?;
    let (times, _) = take(rest, SEQUENCE)?;
    let (from, rest) = time(times)?;
    let (until, _) = time(rest)?;
    Some(from..=until)
}

/// Takes one value with this tag. Returns its content and the bytes after it.
fn take(bytes: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (found, rest) = bytes.split_first()?;
    let (length, rest) = rest.split_first()?;
    if *found != tag {
        return None;
    }
    let (length, rest) = match length {
        0..=0x7f => (usize::from(*length), rest),
        0x80 | 0x85.. => return None,
        // The low bits count the bytes of the length that follow.
        0x81..=0x84 => {
            let (digits, rest) = rest.split_at_checked(usize::from(length - 0x80))?;
            (digits.iter().fold(0, |length, digit| length << 8 | usize::from(*digit)), rest)
        }
    };
    rest.split_at_checked(length)
}

/// Takes a time in either form. Returns it and the bytes after it.
fn time(bytes: &[u8]) -> Option<(Timestamp, &[u8])> {
    let (text, rest) = match take(bytes, UTC_TIME) {
        // Two-digit years are from 1950 to 2049.
        Some((text, rest)) => {
            let century = if text.first()? < &b'5' { "20" } else { "19" };
            (format!("{century}{}", str::from_utf8(text).ok()?), rest)
        }
        None => {
            let (text, rest) = take(bytes, GENERALIZED_TIME)?;
            (str::from_utf8(text).ok()?.to_owned(), rest)
        }
    };
    let time = DateTime::strptime("%Y%m%d%H%M%SZ", &text).ok()?.to_zoned(TimeZone::UTC).ok()?;
    Some((time.timestamp(), rest))
}

#[cfg(test)]
mod tests;
