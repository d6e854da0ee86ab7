//! What is taken away from a controller at once, whatever becomes of the definition that says so. Pure.

use std::collections::BTreeMap;

use homeostat_component::{Digest, Grants, Limits};

use crate::Definition;
use crate::manifest::ValidSpec;

/// The grants of a definition that is wanted, and to what it gives them.
///
/// A definition that changes nothing but grants takes away at once, also where it cannot be put in or is only tried on some keys: what runs keeps those of its
/// grants that the new ones have too. One that changes code, settings or limits as well is another version, whose grants are its own: what it
/// no longer needs, the version that runs may need still.
pub(super) struct DesiredGrants {
    digest: Digest,
    limits: Limits,
    config: BTreeMap<String, String>,
    grants: Grants,
}

impl DesiredGrants {
    pub(super) fn of(Definition { component, grants, limits, config, .. }: &Definition) -> Self {
        let digest = component.digest().clone();
        Self { digest, limits: limits.clone(), config: config.clone(), grants: grants.clone() }
    }

    /// Returns what a specification says; `None` where it does not name its code by a digest.
    pub(super) fn said(ValidSpec { digest, grants, limits, config, .. }: ValidSpec) -> Option<Self> {
        Some(Self { digest: digest?, limits, config, grants })
    }

    /// Takes from a definition that runs what is no longer granted to it.
    pub(super) fn reduce(&self, running: &mut Definition) {
        let Definition { component, limits, config, .. } = &running;
        if *component.digest() == self.digest && *limits == self.limits && *config == self.config {
            running.grants = running.grants.limited_to(&self.grants);
        }
    }
}
