//! Semantic versions. Source: Kubernetes' library of versions, and semver.org.

use std::cmp::Ordering;

/// A semantic version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Version {
    numbers: [u64; 3],
    /// The identifiers behind the first `-`.
    prerelease: Vec<String>,
}

impl Version {
    /// Parses a version. A lenient one can begin with `v`, leave out numbers, and have zeros in front of them.
    pub(crate) fn parse(text: &str, is_lenient: bool) -> Option<Self> {
        let text = if is_lenient { text.strip_prefix('v').unwrap_or(text) } else { text };
        let (text, build) = text.split_once('+').map_or((text, None), |(text, build)| (text, Some(build)));
        let (core, prerelease) = text.split_once('-').map_or((text, None), |(core, rest)| (core, Some(rest)));
        let is_identifier =
            |part: &str| !part.is_empty() && part.chars().all(|c| c == '-' || c.is_ascii_alphanumeric());
        let has_zero_in_front = |part: &str| part.len() > 1 && part.starts_with('0');
        let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        if !build.is_none_or(|build| build.split('.').all(is_identifier)) {
            return None;
        }
        let mut numbers = [0; 3];
        let parts: Vec<&str> = core.split('.').collect();
        if parts.len() > 3 || (parts.len() < 3 && !is_lenient) {
            return None;
        }
        for (number, part) in numbers.iter_mut().zip(parts) {
            if !is_number(part) || (has_zero_in_front(part) && !is_lenient) {
                return None;
            }
            *number = part.parse().ok()?;
        }
        let prerelease: Vec<String> =
            prerelease.map(|text| text.split('.').map(str::to_owned).collect()).unwrap_or_default();
        let is_valid = |part: &String| is_identifier(part) && !(is_number(part) && has_zero_in_front(part));
        prerelease.iter().all(is_valid).then_some(Self { numbers, prerelease })
    }

    pub(crate) fn order(&self, other: &Self) -> Ordering {
        let identifiers = || {
            for (left, right) in self.prerelease.iter().zip(&other.prerelease) {
                let order = match (left.parse::<u64>(), right.parse::<u64>()) {
                    (Ok(left), Ok(right)) => left.cmp(&right),
                    (Ok(_), Err(_)) => Ordering::Less,
                    (Err(_), Ok(_)) => Ordering::Greater,
                    (Err(_), Err(_)) => left.cmp(right),
                };
                if order.is_ne() {
                    return order;
                }
            }
            self.prerelease.len().cmp(&other.prerelease.len())
        };
        self.numbers.cmp(&other.numbers).then_with(|| match (self.prerelease.is_empty(), other.prerelease.is_empty()) {
            (true, true) => Ordering::Equal,
            (true, false) => Ordering::Greater,
            (false, true) => Ordering::Less,
            (false, false) => identifiers(),
        })
    }

    pub(crate) fn number(&self, at: usize) -> i64 {
        i64::try_from(self.numbers[at]).unwrap_or(i64::MAX)
    }
}
