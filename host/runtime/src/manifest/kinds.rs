//! `spec.manages` and `spec.watches`: the kinds of a component that serves any kind.

use homeostat_component::{AssignedKinds, Changes, KindDeclaration, Mapping, Role, Watch};
use homeostat_store::Kind;
use serde::{Deserialize, Serialize};

use super::Problems;
use crate::Kinds;

/// Maximum watches of one manifest.
const WATCHES_MAX: usize = 32;

/// A kind as a manifest names it.
///
/// With `plural` and `namespaced` the controller declares the kind, as a component does in `describe`. Without them
/// the controller runs only while another declaration of the kind exists, as a `CustomResourceDefinition`.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KindWritten {
    /// `GROUP/VERSION`, or `VERSION` for the core group.
    pub api_version: String,
    /// The name of the kind.
    pub kind: String,
    /// The plural in lower case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plural: Option<String>,
    /// Whether its resources live in namespaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespaced: Option<bool>,
}

/// A watch as a manifest has it.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WatchWritten {
    /// Names the watch in `mapper.map`, in logs and in metrics: 1 to 63 bytes.
    pub name: String,
    /// The watched kind.
    pub of: KindWritten,
    /// How a change becomes keys: `owner`, `sameName`, `guest`, `{label: NAME}`, `{annotation: NAME}` or
    /// `{field: POINTER}`.
    pub mapping: Mapping,
    /// Which changes count; absent means `all`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changes: Option<Changes>,
    /// The relation to the controller; absent means `tertiary`, which it only reads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
}

/// The checked kinds of a manifest.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WrittenKinds {
    manages: Option<KindWritten>,
    watches: Option<Vec<WatchWritten>>,
}

/// The kinds of a manifest, all of them declared.
pub(crate) struct ResolvedKinds {
    pub(crate) assigned: AssignedKinds,
    /// The kinds that other declarations must keep: the controller ends with them.
    pub(crate) required: Vec<Kind>,
}

impl KindWritten {
    fn kind(&self) -> Kind {
        let (group, version) = self.api_version.split_once('/').unwrap_or(("", &self.api_version));
        Kind::new(group, version, &self.kind)
    }

    fn check(&self, field: &'static str, problems: &mut Problems) {
        if self.plural.is_some() != self.namespaced.is_some() {
            let reason = "must have both `plural` and `namespaced`, which declare the kind, or none of them";
            problems.push(field, reason.to_owned());
        }
    }

    /// Returns the declaration of the kind.
    ///
    /// # Errors
    /// The kind, if neither the manifest nor anything else declares it.
    fn resolve(&self, kinds: &Kinds, required: &mut Vec<Kind>) -> Result<KindDeclaration, Kind> {
        let kind = self.kind();
        if let (Some(plural), Some(namespaced)) = (self.plural.clone(), self.namespaced) {
            return Ok(KindDeclaration { kind, plural, namespaced, keys_only: false, schema: None });
        }
        let Some(info) = kinds.of(&kind).filter(|info| info.kind == kind) else { return Err(kind) };
        required.push(kind.clone());
        let (plural, namespaced, keys_only) = (info.plural, info.namespaced, info.keys_only);
        Ok(KindDeclaration { kind, plural, namespaced, keys_only, schema: None })
    }
}

impl WrittenKinds {
    /// Resolves the kinds against those that are declared now.
    ///
    /// # Errors
    /// The first kind that nothing declares in this version.
    pub(crate) fn resolve(&self, kinds: &Kinds) -> Result<ResolvedKinds, Kind> {
        let mut required = Vec::new();
        let manages = self.manages.as_ref().map(|written| written.resolve(kinds, &mut required)).transpose()?;
        let mut watch = |written: &WatchWritten| {
            let WatchWritten { name, of, mapping, changes, role } = written;
            let (changes, role) = (changes.unwrap_or(Changes::All), role.unwrap_or(Role::Tertiary));
            let of = of.resolve(kinds, &mut required)?;
            Ok(Watch { name: name.clone(), of, mapping: mapping.clone(), changes, role })
        };
        let watches = self.watches.as_ref().map(|watches| watches.iter().map(&mut watch).collect()).transpose()?;
        Ok(ResolvedKinds { assigned: AssignedKinds { manages, watches }, required })
    }
}

/// Checks `spec.manages` and `spec.watches`. The component checks the rest when its code is loaded.
pub(super) fn check(
    manages: Option<&KindWritten>,
    watches: Option<&Vec<WatchWritten>>,
    problems: &mut Problems,
) -> WrittenKinds {
    if let Some(manages) = manages {
        manages.check("spec.manages", problems);
    }
    for watch in watches.into_iter().flatten() {
        watch.of.check("spec.watches", problems);
    }
    if watches.is_some_and(|watches| watches.len() > WATCHES_MAX) {
        problems.push("spec.watches", format!("must have at most {WATCHES_MAX} watches"));
    }
    WrittenKinds { manages: manages.cloned(), watches: watches.cloned() }
}

#[cfg(test)]
mod tests;
