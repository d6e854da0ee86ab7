//! Formats of numbers and codes that programs print.
//!
//! Source: `k8s.io/kube-openapi/pkg/validation/strfmt`.

/// `00:1a:2b:3c:4d:5e`, `00-1a-2b-3c-4d-5e` or `001a.2b3c.4d5e`, of 6, 8 or 20 bytes.
pub(super) fn is_mac(text: &str) -> bool {
    let is_of = |separator: char, digits: usize, counts: [usize; 3]| {
        let parts: Vec<&str> = text.split(separator).collect();
        let is_part = |part: &&str| part.len() == digits && part.bytes().all(|byte| byte.is_ascii_hexdigit());
        counts.contains(&parts.len()) && parts.iter().all(is_part)
    };
    is_of(':', 2, [6, 8, 20]) || is_of('-', 2, [6, 8, 20]) || is_of('.', 4, [3, 4, 10])
}

/// Nine digits and a digit of control, which can be `X`; dashes and spaces do not count.
pub(super) fn is_isbn_10(text: &str) -> bool {
    let plain = without_separators(text);
    let Some((last, digits)) = plain.as_bytes().split_last().filter(|(_, digits)| digits.len() == 9) else {
        return false;
    };
    let last = if *last == b'X' { Some(10) } else { digit(*last) };
    let Some((values, last)) = values(digits).zip(last) else { return false };
    let sum: u32 = values.iter().zip(1..).map(|(value, weight)| value * weight).sum();
    (sum + 10 * last).is_multiple_of(11)
}

/// Twelve digits and a digit of control; dashes and spaces do not count.
pub(super) fn is_isbn_13(text: &str) -> bool {
    let plain = without_separators(text);
    let Some(values) = values(plain.as_bytes()).filter(|values| values.len() == 13) else { return false };
    let sum: u32 = values.iter().zip([1, 3].into_iter().cycle()).map(|(value, weight)| value * weight).sum();
    sum.is_multiple_of(10)
}

/// The number of a card, with a digit of control; other characters do not count.
pub(super) fn is_credit_card(text: &str) -> bool {
    let plain: Vec<u8> = text.bytes().filter(u8::is_ascii_digit).collect();
    let Some(values) = values(&plain) else { return false };
    let double = |value: u32| if value > 4 { 2 * value - 9 } else { 2 * value };
    let sum: u32 =
        values.iter().rev().enumerate().map(|(at, value)| if at % 2 == 1 { double(*value) } else { *value }).sum();
    is_issued(&plain) && sum.is_multiple_of(10)
}

/// Returns whether an issuer of cards gives such numbers.
fn is_issued(digits: &[u8]) -> bool {
    let first = |count: usize| str::from_utf8(&digits[..count]).ok().and_then(|text| text.parse::<u32>().ok());
    let starts = |count: usize, numbers: &[u32]| first(count).is_some_and(|number| numbers.contains(&number));
    match digits.len() {
        13 => starts(1, &[4]),
        14 => starts(2, &[36, 38]) || starts(3, &[300, 301, 302, 303, 304, 305]),
        15 => starts(2, &[34, 37]) || starts(4, &[2131, 1800]),
        16 => starts(1, &[4]) || starts(2, &[35, 51, 52, 53, 54, 55, 65]) || starts(4, &[6011]),
        _ => false,
    }
}

/// `123-45-6789`, also with spaces.
pub(super) fn is_ssn(text: &str) -> bool {
    // Kubernetes takes no other length.
    let mut rest = if text.len() == 11 { text.as_bytes() } else { return false };
    for (at, count) in [3, 2, 4].into_iter().enumerate() {
        if at > 0
            && let Some((b'-' | b' ', after)) = rest.split_first()
        {
            rest = after;
        }
        match rest.split_at_checked(count) {
            Some((digits, after)) if digits.iter().all(u8::is_ascii_digit) => rest = after,
            _ => return false,
        }
    }
    rest.is_empty()
}

/// `#1a2b3c` or `abc`.
pub(super) fn is_hex_color(text: &str) -> bool {
    let digits = text.strip_prefix('#').unwrap_or(text);
    matches!(digits.len(), 3 | 6) && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// `rgb(1, 2, 255)`.
pub(super) fn is_rgb_color(text: &str) -> bool {
    let Some(inner) = text.strip_prefix("rgb(").and_then(|rest| rest.strip_suffix(')')) else { return false };
    let is_part = |part: &str| {
        let digits = part.trim_matches(|next: char| next.is_ascii_whitespace());
        let is_plain = digits == "0" || !digits.starts_with('0');
        is_plain && digits.bytes().all(|byte| byte.is_ascii_digit()) && digits.parse::<u8>().is_ok()
    };
    inner.split(',').count() == 3 && inner.split(',').all(is_part)
}

fn without_separators(text: &str) -> String {
    text.replace(|next: char| next == '-' || next.is_ascii_whitespace(), "")
}

fn digit(byte: u8) -> Option<u32> {
    char::from(byte).to_digit(10)
}

/// Returns the values of digits; `None` if one is no digit.
fn values(digits: &[u8]) -> Option<Vec<u32>> {
    digits.iter().map(|byte| digit(*byte)).collect()
}
