//! Durations and sizes as written in manifests.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use homeostat_component::Amount;

/// A duration: `250ms`, `5s`, `10m`, `1h`, `2d`, or a sum of such parts from large to small, `1h30m`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Span(
    /// The duration.
    pub Duration,
);

const UNITS: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)];

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is not a length of time; write it as 250ms, 5s, 10m, 1h or 1h30m");
        let mut rest = text;
        let mut millis: u64 = 0;
        let mut smallest = u64::MAX;
        while !rest.is_empty() {
            let digits = rest.find(|letter: char| !letter.is_ascii_digit()).ok_or_else(wrong)?;
            let (number, tail) = rest.split_at(digits);
            let letters = tail.find(|letter: char| letter.is_ascii_digit()).unwrap_or(tail.len());
            let (unit, tail) = tail.split_at(letters);
            let unit = UNITS.iter().find(|(name, _)| *name == unit).map(|(_, millis)| *millis).ok_or_else(wrong)?;
            let number: u64 = number.parse().map_err(|_| wrong())?;
            if unit >= smallest {
                return Err(wrong());
            }
            smallest = unit;
            millis = number.checked_mul(unit).and_then(|part| millis.checked_add(part)).ok_or_else(wrong)?;
            rest = tail;
        }
        if smallest == u64::MAX { Err(wrong()) } else { Ok(Self(Duration::from_millis(millis))) }
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = u64::try_from(self.0.as_millis()).unwrap_or(u64::MAX);
        if rest == 0 {
            return f.write_str("0s");
        }
        for (name, millis) in UNITS {
            if rest >= millis {
                write!(f, "{}{name}", rest / millis)?;
                rest %= millis;
            }
        }
        Ok(())
    }
}

/// A number of bytes: `65536`, `64Ki`, `64Mi`, `4Gi`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Bytes(
    /// The number.
    pub u64,
);

const SIZES: [(&str, u64); 3] = [("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10)];

impl FromStr for Bytes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is not a size; write it as 65536, 64Ki, 64Mi or 4Gi");
        let (digits, unit) = SIZES
            .iter()
            .find_map(|(name, bytes)| text.strip_suffix(name).map(|digits| (digits, *bytes)))
            .unwrap_or((text, 1));
        let number: u64 = digits.parse().map_err(|_| wrong())?;
        number.checked_mul(unit).map(Self).ok_or_else(wrong)
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = SIZES.iter().find(|(_, bytes)| self.0 >= *bytes && self.0.is_multiple_of(*bytes));
        match unit {
            Some((name, bytes)) => write!(f, "{}{name}", self.0 / bytes),
            None => write!(f, "{}", self.0),
        }
    }
}

/// Returns an amount in the form of manifests.
pub fn written(amount: Amount) -> String {
    match amount {
        Amount::Time(duration) => Span(duration).to_string(),
        Amount::Bytes(bytes) => Bytes(bytes).to_string(),
        Amount::Count(count) => count.to_string(),
    }
}

/// Serialises a type as text, by its `FromStr` and its `Display`. A bare number is parsed as its digits, so
/// that the error for `30` names the missing unit.
macro_rules! as_text {
    ($name:ident, $expecting:literal) => {
        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Visitor;
                impl serde::de::Visitor<'_> for Visitor {
                    type Value = $name;
                    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        f.write_str($expecting)
                    }
                    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<$name, E> {
                        text.parse().map_err(E::custom)
                    }
                    fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<$name, E> {
                        number.to_string().parse().map_err(E::custom)
                    }
                }
                deserializer.deserialize_any(Visitor)
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }
    };
}

pub(crate) use as_text;

as_text!(Span, "a length of time as 250ms, 5s, 10m or 1h");
as_text!(Bytes, "a size as 65536, 64Ki or 64Mi");
