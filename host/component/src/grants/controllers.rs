//! The permission of a controller to create others.

use serde::{Deserialize, Serialize};

use super::pattern::matches_glob;

/// Most controllers that one grant lets a controller create.
pub const CREATED_CONTROLLERS_MAX: u32 = 1000;

/// Permission to create controllers of some names, which run some components.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ControllerGrant {
    /// Patterns of names: `composed-*`.
    pub names: Vec<String>,
    /// The code that these controllers may run. One that matches is enough.
    pub components: Vec<ComponentPattern>,
    /// How many controllers of this grant may exist at once: 1 to [`CREATED_CONTROLLERS_MAX`].
    pub max: u32,
}

/// The source of code that a controller may name: exactly one of these.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ComponentPattern {
    /// A file, as `instance.wasm`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The digest of the code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// A pattern of artifacts: `ghcr.io/acme/*`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oci: Option<String>,
}

impl ControllerGrant {
    /// Returns whether this grant is about controllers of a name.
    pub fn covers_name(&self, name: &str) -> bool {
        self.names.iter().any(|pattern| matches_glob(pattern, name))
    }

    /// Returns whether controllers of this grant may name this source of code.
    pub fn covers_component(&self, file: Option<&str>, digest: Option<&str>, oci: Option<&str>) -> bool {
        self.components.iter().any(|pattern| pattern.covers(file, digest, oci))
    }
}

impl ComponentPattern {
    fn covers(&self, file: Option<&str>, digest: Option<&str>, oci: Option<&str>) -> bool {
        match self {
            Self { digest: Some(own), .. } => digest == Some(own),
            Self { file: Some(own), .. } => file == Some(own),
            Self { oci: Some(pattern), .. } => oci.is_some_and(|reference| matches_glob(pattern, reference)),
            Self { file: None, digest: None, oci: None } => false,
        }
    }

    /// Returns how many sources the pattern names.
    fn sources(&self) -> usize {
        let Self { file, digest, oci } = self;
        [file, digest, oci].into_iter().filter(|source| source.is_some()).count()
    }
}

/// Returns the problems of a grant. Each begins with `path`.
pub(super) fn problems(path: &str, grant: &ControllerGrant) -> Vec<String> {
    let ControllerGrant { names, components, max } = grant;
    let mut problems = Vec::new();
    for (field, is_empty) in [("names", names.is_empty()), ("components", components.is_empty())] {
        if is_empty {
            problems.push(format!("{path}.{field}: must not be empty, or nothing is granted"));
        }
    }
    for (at, pattern) in components.iter().enumerate().filter(|(_, pattern)| pattern.sources() != 1) {
        let count = pattern.sources();
        problems.push(format!(
            "{path}.components[{at}]: must have exactly one of `file`, `digest` and `oci`, and has {count}"
        ));
    }
    if !(1..=CREATED_CONTROLLERS_MAX).contains(max) {
        problems.push(format!("{path}.max: must be 1 to {CREATED_CONTROLLERS_MAX}"));
    }
    problems
}
