//! Grants that are revoked at once, even if the definition that revokes them is not installed. Pure.

use std::collections::BTreeMap;

use homeostat_component::{Digest, Grants, Limits};

use crate::Definition;
use crate::manifest::ValidSpec;

/// The grants of the desired definition, and the version that they apply to.
///
/// A definition that changes nothing but grants revokes at once, even if it cannot be installed or has only
/// some keys: the current version keeps only grants that the new definition has too. A definition that also
/// changes code, limits or configuration is another version with its own grants: the current version may
/// still need a grant that it drops.
pub(crate) struct DesiredGrants {
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

    /// Reads a checked spec. Returns `None` if it does not name its code by digest.
    pub(crate) fn said(ValidSpec { digest, grants, limits, config, .. }: ValidSpec) -> Option<Self> {
        Some(Self { digest: digest?, limits, config, grants })
    }

    /// Revokes the grants that a running definition no longer has.
    pub(crate) fn reduce(&self, running: &mut Definition) {
        let Definition { component, limits, config, .. } = &running;
        if *component.digest() == self.digest && *limits == self.limits && *config == self.config {
            running.grants = running.grants.limited_to(&self.grants);
        }
    }
}
