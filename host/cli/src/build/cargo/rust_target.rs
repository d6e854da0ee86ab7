//! The target that a guest in Rust is compiled for.

use serde::Deserialize;

/// A target of Rust that makes guests. `Cargo.toml` can name it under `[package.metadata.homeostat]`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub(crate) enum Target {
    /// Without a system. Cargo writes a core module, of which the build makes a component.
    #[default]
    #[serde(rename = "wasm32-unknown-unknown")]
    Unknown,
    /// With WASI 0.2 below the standard library. Cargo writes a component.
    #[serde(rename = "wasm32-wasip2")]
    Wasip2,
}

/// The part of `[package.metadata]` that is this program's.
#[derive(Debug, Default, Deserialize)]
pub(super) struct PackageMetadata {
    #[serde(default)]
    homeostat: Settings,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    #[serde(default)]
    target: Target,
}

impl PackageMetadata {
    /// Reads the metadata of a package, `null` if it has none.
    ///
    /// # Errors
    /// There is no such setting, or no such target.
    pub(super) fn parse(metadata: &serde_json::Value) -> serde_json::Result<Self> {
        Option::<Self>::deserialize(metadata).map(Option::unwrap_or_default)
    }

    pub(super) fn target(&self) -> Target {
        self.homeostat.target
    }
}

impl Target {
    /// Returns Rust's name of the target.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Unknown => "wasm32-unknown-unknown",
            Self::Wasip2 => "wasm32-wasip2",
        }
    }

    /// Returns what to do if a guest does not build because the target lacks something. `None` if the output does not
    /// blame the target.
    pub(super) fn hint(self, output: &str) -> Option<String> {
        let blamed = self == Self::Unknown && output.contains(self.name());
        blamed.then(|| {
            format!(
                "hint: guests are compiled for {}, which has no system. If a crate needs one, add this to the Cargo.toml of the guest:\n\n    [package.metadata.homeostat]\n    target = \"{}\"\n",
                self.name(),
                Self::Wasip2.name()
            )
        })
    }
}

#[cfg(test)]
mod tests;
