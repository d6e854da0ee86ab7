//! The names of the built-in kinds.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use homeostat_store::Kind;
use serde::Deserialize;

/// A built-in kind, as the real server's discovery lists it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BuiltInKind {
    /// The API group; empty for the core group.
    pub group: String,
    /// The stored version.
    pub version: String,
    /// The name, as `Deployment`.
    #[serde(rename = "kind")]
    pub name: String,
    /// The plural in URLs.
    pub plural: String,
    /// The singular.
    pub singular: String,
    /// Shorter names, as `deploy`.
    #[serde(default)]
    pub short_names: Vec<String>,
    /// Categories, as `all`.
    #[serde(default)]
    pub categories: Vec<String>,
    /// Whether its resources live in namespaces.
    pub namespaced: bool,
    /// The subresources of the real server, as `status`.
    #[serde(default)]
    pub subresources: Vec<String>,
    /// The name of its definition.
    pub definition: String,
}

impl BuiltInKind {
    /// Returns group, version and name.
    pub fn kind(&self) -> Kind {
        Kind::new(&self.group, &self.version, &self.name)
    }

    /// Returns what clients that use the kind are warned of; `None` if it is not deprecated.
    pub fn deprecation(&self) -> Option<&'static str> {
        let is_endpoints = self.group.is_empty() && self.name == "Endpoints";
        is_endpoints.then_some("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice")
    }

    /// Returns whether the real server serves this subresource.
    pub fn has(&self, subresource: &str) -> bool {
        self.subresources.iter().any(|part| part == subresource)
    }
}

#[derive(Deserialize)]
struct Names {
    kinds: Vec<BuiltInKind>,
    messages: BTreeMap<String, String>,
}

fn names() -> &'static Names {
    static NAMES: OnceLock<Names> = OnceLock::new();
    NAMES.get_or_init(|| serde_json::from_str(include_str!("../data/kinds.json")).expect("the data is JSON"))
}

/// Returns all built-in kinds.
pub fn kinds() -> &'static [BuiltInKind] {
    &names().kinds
}

/// Returns a built-in kind; `None` for another one, and for another version.
pub fn find(kind: &Kind) -> Option<&'static BuiltInKind> {
    kinds().iter().find(|known| known.name == kind.name && known.group == kind.group && known.version == kind.version)
}

/// Returns the name of the definition of a stored kind, or of the body of a request or an answer.
pub fn definition_of(kind: &Kind) -> Option<&'static str> {
    let stored = || find(kind).map(|known| known.definition.as_str());
    let version = || match kind.group.as_str() {
        "" => format!("{} {}", kind.version, kind.name),
        group => format!("{group}/{} {}", kind.version, kind.name),
    };
    stored().or_else(|| names().messages.get(&version()).map(String::as_str))
}
