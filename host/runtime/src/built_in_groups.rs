//! Which of Kubernetes' built-in kinds a host serves.

use std::collections::BTreeSet;
use std::str::FromStr;

use homeostat_builtin::BuiltInKind;

/// The name of the core group, which is empty in an `apiVersion`.
const CORE: &str = "core";

/// The API groups whose built-in kinds are served.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum BuiltInGroups {
    /// All of them.
    All,
    /// These groups; none if it is empty.
    Only(BTreeSet<String>),
    /// None. Kinds of components and definitions may have their names.
    #[default]
    None,
}

impl BuiltInGroups {
    /// Returns the kinds of the groups.
    pub(crate) fn kinds(&self) -> impl Iterator<Item = &'static BuiltInKind> + '_ {
        homeostat_builtin::kinds().iter().filter(|kind| match self {
            Self::All => true,
            Self::Only(groups) => groups.contains(&kind.group),
            Self::None => false,
        })
    }
}

impl FromStr for BuiltInGroups {
    type Err = String;

    /// Parses `all`, `none`, or groups with commas between them, as `core,apps,batch`.
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "all" => return Ok(Self::All),
            "none" => return Ok(Self::None),
            _ => {}
        }
        let known: BTreeSet<&str> = homeostat_builtin::kinds().iter().map(|kind| kind.group.as_str()).collect();
        let group = |name: &str| {
            let group = if name == CORE { "" } else { name };
            if known.contains(group) {
                return Ok(group.to_owned());
            }
            let known: Vec<&str> = known.iter().map(|group| if group.is_empty() { CORE } else { group }).collect();
            Err(format!("there is no built-in group `{name}`: use all, none, or some of {}", known.join(", ")))
        };
        text.split(',').map(str::trim).map(group).collect::<Result<_, _>>().map(Self::Only)
    }
}

#[cfg(test)]
mod tests;
