//! Shares and factors in their written form: `10%`, `0.5%`; `2x`, `1.5x`.

use std::fmt;
use std::str::FromStr;

use crate::quantity::as_text;

/// A share of a whole, in hundredths of a percent: from none to all.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Share(u16);

/// A ratio of two numbers, in hundredths.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Factor(u32);

impl Share {
    /// Nothing.
    pub const NONE: Self = Self(0);
    /// Everything.
    pub const ALL: Self = Self(100 * 100);

    /// Returns a share in percent, at most 100 %.
    pub(crate) const fn percent(percent: u16) -> Self {
        let hundredths = percent.saturating_mul(100);
        if hundredths > Self::ALL.0 { Self::ALL } else { Self(hundredths) }
    }

    /// Returns the share in ten-thousandths.
    pub fn of_ten_thousand(self) -> u16 {
        self.0
    }

    /// Returns the rest of the whole.
    pub(crate) const fn others(self) -> Self {
        Self(Self::ALL.0.saturating_sub(self.0))
    }

    /// Returns the share as a number from 0 to 1.
    pub fn fraction(self) -> f64 {
        f64::from(self.0) / f64::from(Self::ALL.0)
    }
}

impl Factor {
    /// Returns a whole factor.
    pub(crate) const fn times(times: u32) -> Self {
        Self(times.saturating_mul(100))
    }

    /// Returns a factor in hundredths.
    pub(crate) const fn hundredths(hundredths: u32) -> Self {
        Self(hundredths)
    }

    /// Returns the factor as a number.
    pub fn number(self) -> f64 {
        f64::from(self.0) / 100.0
    }
}

impl FromStr for Share {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = text.strip_suffix('%').and_then(hundredths);
        let number = number.ok_or_else(|| format!("`{text}` is not a share; write it as 10% or 0.5%"))?;
        let share = u16::try_from(number).ok().map(Self).filter(|share| *share <= Self::ALL);
        share.ok_or_else(|| format!("`{text}` is out of bounds: a share is from 0% to 100%"))
    }
}

impl FromStr for Factor {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let factor = text.strip_suffix('x').and_then(hundredths).map(Self);
        factor.ok_or_else(|| format!("`{text}` is not a factor; write it as 2x or 1.5x"))
    }
}

/// Parses a decimal number with at most two digits after the point.
fn hundredths(text: &str) -> Option<u32> {
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    let is_number = |digits: &str| !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
    if !is_number(whole) || !is_number(part) || part.len() > 2 {
        return None;
    }
    let part: u32 = format!("{part:0<2}").parse().ok()?;
    whole.parse::<u32>().ok()?.checked_mul(100)?.checked_add(part)
}

/// Writes hundredths without trailing zeros.
fn write(f: &mut fmt::Formatter<'_>, hundredths: u32, unit: char) -> fmt::Result {
    let (whole, part) = (hundredths / 100, hundredths % 100);
    match part {
        0 => write!(f, "{whole}{unit}"),
        part if part % 10 == 0 => write!(f, "{whole}.{}{unit}", part / 10),
        part => write!(f, "{whole}.{part:02}{unit}"),
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write(f, self.0.into(), '%')
    }
}

impl fmt::Display for Factor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write(f, self.0, 'x')
    }
}

as_text!(Share, "a share as 10% or 0.5%");
as_text!(Factor, "a factor as 2x or 1.5x");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_and_factors_survive_printing_and_parsing() {
        for text in ["0%", "10%", "0.5%", "0.25%", "99.99%", "100%", "1.05%"] {
            assert_eq!(text.parse::<Share>().unwrap().to_string(), text);
        }
        for text in ["", "%", "10", "10 %", "100.01%", "-1%", "1.%", ".5%", "0.125%", "700%", "1e1%", "+1%"] {
            assert!(text.parse::<Share>().is_err(), "{text}");
        }
        let bare = serde_json::from_str::<Share>("30").unwrap_err().to_string();
        assert!(bare.contains("`30` is not a share; write it as 10%"), "{bare}");
        assert!("110%".parse::<Share>().unwrap_err().contains("from 0% to 100%"));
        for text in ["1x", "2x", "1.5x", "10.25x"] {
            assert_eq!(text.parse::<Factor>().unwrap().to_string(), text);
        }
        for text in ["", "x", "2", "-2x", "2X", "99999999999x"] {
            assert!(text.parse::<Factor>().is_err(), "{text}");
        }
    }
}
