//! Versioned names of interfaces, and their compatibility.

/// An interface and its version: `wasi:io/poll@0.2.6`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InterfaceName<'a> {
    /// Package and interface: `wasi:io/poll`.
    pub(crate) interface: &'a str,
    /// `0.2.6`; empty without a version.
    pub(crate) version: &'a str,
}

impl<'a> InterfaceName<'a> {
    pub(crate) fn parse(name: &'a str) -> Self {
        let (interface, version) = name.split_once('@').unwrap_or((name, ""));
        Self { interface, version }
    }

    /// Returns the package: `wasi:io`.
    pub(crate) fn package(self) -> &'a str {
        self.interface.split('/').next().unwrap_or(self.interface)
    }

    /// Returns whether one can replace the other: the same interface in compatible versions.
    pub(crate) fn is_compatible(self, other: Self) -> bool {
        self.interface == other.interface && track(self.version) == track(other.version)
    }
}

/// Returns the part of a version that compatible versions share: up to its first number that is not zero. The
/// whole version for drafts.
fn track(version: &str) -> &str {
    if version.contains('-') {
        return version;
    }
    let plain = version.split('+').next().unwrap_or(version);
    let mut end = 0;
    for number in plain.split('.') {
        end += number.len();
        if number != "0" {
            return &plain[..end];
        }
        end += 1;
    }
    plain
}

#[cfg(test)]
mod tests;
