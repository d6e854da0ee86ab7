//! The order of the versions of a group.

use std::cmp::Reverse;

/// A version in the order of its group; clients prefer the first.
///
/// Stable versions come before betas and betas before alphas, and greater numbers before lesser ones. Other
/// names come last, in alphabetical order. Source: the versions of a `CustomResourceDefinition` in
/// Kubernetes' documentation.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct VersionRank<'k> {
    stage: Stability,
    major: Reverse<u64>,
    minor: Reverse<u64>,
    name: &'k str,
}

#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Stability {
    Stable,
    Beta,
    Alpha,
    Other,
}

impl<'k> VersionRank<'k> {
    /// Returns the rank of the version with this name.
    pub fn of(name: &'k str) -> Self {
        let (stage, major, minor) = Self::read(name).unwrap_or((Stability::Other, 0, 0));
        Self { stage, major: Reverse(major), minor: Reverse(minor), name }
    }

    /// Returns the name of the version.
    pub fn name(&self) -> &'k str {
        self.name
    }

    /// Parses a version in Kubernetes' form: `v2`, `v1beta3`, `v1alpha1`.
    fn read(name: &str) -> Option<(Stability, u64, u64)> {
        let number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten();
        let numbers = name.strip_prefix('v')?;
        for (word, stage) in [("alpha", Stability::Alpha), ("beta", Stability::Beta)] {
            if let Some((major, minor)) = numbers.split_once(word) {
                return Some((stage, number(major)?, number(minor)?));
            }
        }
        Some((Stability::Stable, number(numbers)?, 0))
    }
}
