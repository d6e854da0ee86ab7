//! Amounts of resources, as `500m`, `0.5`, `1Gi` or `1e3`, and their canonical form.
//!
//! Source: the package `resource` of Kubernetes' apimachinery.

use std::cmp::Ordering;
use std::fmt;

use serde_json::Value;

/// An amount in billionths, which is the finest that Kubernetes keeps, and the notation of its suffix. Amounts in different
/// notations can be equal.
#[derive(Clone, Copy, Debug)]
pub struct Quantity {
    nanos: i128,
    notation: Notation,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Notation {
    /// `Ki`, `Mi` and so on.
    Binary,
    /// `m`, `k`, `M` and so on, and no suffix.
    Decimal,
    /// `e3`, `E-3`.
    Exponent,
}

const BINARY: [(&str, u32); 6] = [("Ki", 10), ("Mi", 20), ("Gi", 30), ("Ti", 40), ("Pi", 50), ("Ei", 60)];
const DECIMAL: [(&str, i32); 10] =
    [("n", -9), ("u", -6), ("m", -3), ("", 0), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];
/// The exponent of the unit in which amounts are kept.
const FINEST: i32 = -9;
const NANOS: i128 = 1_000_000_000;
/// Larger amounts become this one.
const LARGEST: i128 = i64::MAX as i128 * NANOS;
/// Digits that are read; further ones cannot change an amount within the bounds.
const DIGITS_MAX: usize = 40;

impl Quantity {
    /// Returns the amount that a string or a number is; `None` if it is none.
    pub fn of(value: &Value) -> Option<Self> {
        match value {
            Value::String(text) => parse(text),
            Value::Number(number) => parse(&number.to_string()),
            _ => None,
        }
    }

    /// Returns a number of whole units, in decimal notation.
    pub fn whole(number: u32) -> Self {
        Self { nanos: i128::from(number) * NANOS, notation: Notation::Decimal }
    }

    /// Returns the amount in billionths.
    pub fn nanos(self) -> i128 {
        self.nanos
    }

    /// Returns the amount, rounded up to a whole unit.
    pub fn rounded_up(self) -> Self {
        let whole = self.nanos.div_euclid(NANOS) + i128::from(self.nanos.rem_euclid(NANOS) > 0);
        Self { nanos: whole * NANOS, ..self }
    }

    /// Returns the sum, in the notation of this amount, or in the other's if this one is zero.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        let notation = if self.nanos == 0 { other.notation } else { self.notation };
        Self { nanos: self.nanos.saturating_add(other.nanos).min(LARGEST), notation }
    }

    /// Returns the difference, or zero for a larger `other`.
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        Self { nanos: self.nanos.saturating_sub(other.nanos).max(0), ..self }
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.nanos.cmp(&other.nanos)
    }
}

/// Returns the canonical text of a string or number; `None` if it is no quantity.
pub fn canonical(value: &Value) -> Option<String> {
    Quantity::of(value).map(|quantity| quantity.to_string())
}

fn parse(text: &str) -> Option<Quantity> {
    let (negative, rest) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let end = rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(rest.len());
    let (number, suffix) = rest.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    // No digits are a zero, as in Kubernetes.
    if fraction.contains('.') || number.len() > DIGITS_MAX * 2 {
        return None;
    }
    let (notation, binary, decimal) = unit(suffix)?;
    let fraction = &fraction[..fraction.len().min(DIGITS_MAX / 2)];
    let whole = whole.trim_start_matches('0');
    let nanos = if whole.len() > DIGITS_MAX / 2 {
        LARGEST
    } else {
        let digits: i128 = format!("0{whole}{fraction}").parse().ok()?;
        let scale = decimal - i32::try_from(fraction.len()).ok()? - FINEST;
        scaled(digits, binary, scale).min(LARGEST)
    };
    Some(Quantity { nanos: if negative { -nanos } else { nanos }, notation })
}

/// Returns `digits * 2^binary * 10^decimal`, rounded up.
fn scaled(digits: i128, binary: u32, decimal: i32) -> i128 {
    let Some(mut amount) = digits.checked_mul(1 << binary) else { return LARGEST };
    for _ in 0..decimal {
        match amount.checked_mul(10) {
            Some(more) if amount <= LARGEST => amount = more,
            _ => return LARGEST,
        }
    }
    for _ in decimal..0 {
        amount = amount.div_euclid(10) + i128::from(amount.rem_euclid(10) > 0);
    }
    amount
}

/// Returns the notation of a suffix, its power of two and its power of ten.
fn unit(suffix: &str) -> Option<(Notation, u32, i32)> {
    if let Some((_, power)) = BINARY.iter().find(|(name, _)| *name == suffix) {
        return Some((Notation::Binary, *power, 0));
    }
    if let Some((_, power)) = DECIMAL.iter().find(|(name, _)| *name == suffix) {
        return Some((Notation::Decimal, 0, *power));
    }
    let power = suffix.strip_prefix(['e', 'E'])?;
    Some((Notation::Exponent, 0, power.parse().ok().filter(|power| (-40..=40).contains(power))?))
}

impl fmt::Display for Quantity {
    /// Shows the canonical form.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { nanos, notation } = *self;
        let whole = nanos / NANOS;
        if nanos == 0 {
            return f.write_str("0");
        }
        if notation == Notation::Binary && nanos % NANOS == 0 && whole.abs() >= 1024 {
            let (mut amount, mut suffix) = (whole, "");
            for (name, _) in BINARY {
                if amount % 1024 != 0 {
                    break;
                }
                (amount, suffix) = (amount / 1024, name);
            }
            return write!(f, "{amount}{suffix}");
        }
        let (mut amount, mut exponent) = (nanos, FINEST);
        while amount % 1000 == 0 && exponent < 18 {
            (amount, exponent) = (amount / 1000, exponent + 3);
        }
        if notation == Notation::Exponent {
            return if exponent == 0 { write!(f, "{amount}") } else { write!(f, "{amount}e{exponent}") };
        }
        let suffix = DECIMAL.iter().find(|(_, power)| *power == exponent).map_or("", |(name, _)| name);
        write!(f, "{amount}{suffix}")
    }
}

#[cfg(test)]
mod tests;
