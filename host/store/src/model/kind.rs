//! The type of a resource.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{Result, validate};

/// Group, version and name of a type of resources, as `apps/v1/Deployment`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kind {
    /// API group, as `apps`; empty for the core group. At most 253 bytes.
    pub group: String,
    /// API version, as `v1`. At most 63 bytes.
    pub version: String,
    /// Name in CamelCase, as `Deployment`. At most 63 bytes.
    pub name: String,
}

impl Kind {
    /// Creates a kind without checking its parts.
    pub fn new(group: impl Into<String>, version: impl Into<String>, name: impl Into<String>) -> Self {
        Self { group: group.into(), version: version.into(), name: name.into() }
    }

    /// Parses the `apiVersion` and `kind` fields of a document, as `apps/v1` and `Deployment`.
    ///
    /// # Errors
    /// `Invalid` with the path `apiVersion` or `kind` when a part is empty, too long or malformed.
    pub fn parse(api_version: &str, kind: &str) -> Result<Self> {
        let (group, version) = split(api_version);
        validate::api_version(api_version, group, version)?;
        validate::kind_name(kind)?;
        Ok(Self::new(group, version, kind))
    }

    /// Returns the `apiVersion` of documents of this kind: `apps/v1`, or `v1` for the core group.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }

    /// Returns whether this is the `apiVersion` of documents of this kind.
    pub(crate) fn has_api_version(&self, api_version: &str) -> bool {
        let (group, version) = split(api_version);
        // `/v1` is malformed.
        self.group == group && self.version == version && !api_version.starts_with('/')
    }

    /// Returns whether both are the same type; ignores the versions.
    pub fn same_type(&self, other: &Self) -> bool {
        self.group == other.group && self.name == other.name
    }
}

/// Splits the `apiVersion` of a document into the group, which may be empty, and the version.
fn split(api_version: &str) -> (&str, &str) {
    api_version.split_once('/').unwrap_or(("", api_version))
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.group.is_empty() {
            write!(f, "{}/", self.group)?;
        }
        write!(f, "{}/{}", self.version, self.name)
    }
}
