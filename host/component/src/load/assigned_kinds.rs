//! The kinds that a manifest assigns to a component, in place of those that the component describes.

use std::sync::Arc;

use super::describe::{self, AvailableExports};
use crate::bindings::{reconciler as wit, types};
use crate::component::Component;
use crate::load_error::LoadError;
use crate::spec::{Changes, ControllerSpec, DuringDelay, KindDeclaration, Mapping, Role, Watch};

/// The kinds that a manifest assigns to a component. `None` keeps those of `describe`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AssignedKinds {
    /// The managed kind.
    pub manages: Option<KindDeclaration>,
    /// All watches of further kinds: at most 32, with different names.
    pub watches: Option<Vec<Watch>>,
}

impl Component {
    /// Returns this component with the kinds that a manifest assigns. Earlier assigned kinds do not count. All other
    /// settings stay as the component describes them. Both share the code.
    ///
    /// # Errors
    /// All problems of the assigned kinds: the same bounds hold as for `describe`.
    pub fn with_kinds(&self, assigned: AssignedKinds) -> Result<Self, LoadError> {
        let own = &self.0.spec;
        if assigned == AssignedKinds::default() {
            return Ok(Self(Arc::clone(&self.0), None));
        }
        let manages = assigned.manages.unwrap_or_else(|| own.manages.clone());
        let watches = assigned.watches.unwrap_or_else(|| own.watches.clone());
        let exports = self.exports();
        let exports = AvailableExports { mapper: exports.mapper, poller: exports.poller };
        let spec = ControllerSpec { manages, watches, ..own.clone() };
        let spec = describe::check(contract_spec(spec), exports).map_err(|reasons| LoadError { reasons })?;
        Ok(Self(Arc::clone(&self.0), Some(Arc::new(spec))))
    }
}

fn contract_spec(spec: ControllerSpec) -> wit::ControllerSpec {
    let ControllerSpec { manages, changes, watches, poll_every, resync_every, backoff, concurrency, during_delay } =
        spec;
    let millis = |period: std::time::Duration| u64::try_from(period.as_millis()).unwrap_or(u64::MAX);
    wit::ControllerSpec {
        manages: declaration(manages),
        changes: contract_changes(changes),
        watches: watches.into_iter().map(watch).collect(),
        poll_every: poll_every.map(millis),
        resync_every: resync_every.map(millis),
        backoff: backoff.map(|backoff| wit::Backoff {
            base: millis(backoff.base),
            max: millis(backoff.max),
            retries_max: backoff.retries_max,
        }),
        concurrency,
        during_delay: match during_delay {
            DuringDelay::RunNow => wit::DuringDelay::RunNow,
            DuringDelay::Hold => wit::DuringDelay::Hold,
        },
    }
}

fn declaration(
    KindDeclaration { kind, plural, namespaced, keys_only, schema }: KindDeclaration,
) -> wit::KindDeclaration {
    let kind = types::Kind { group: kind.group, version: kind.version, name: kind.name };
    let schema = schema.map(|schema| schema.to_string());
    wit::KindDeclaration { kind, plural, namespaced, keys_only, schema }
}

fn watch(Watch { name, of, mapping, changes, role }: Watch) -> wit::Watch {
    let mapping = match mapping {
        Mapping::Owner => wit::Mapping::Owner,
        Mapping::SameName => wit::Mapping::SameName,
        Mapping::Label(label) => wit::Mapping::Label(label),
        Mapping::Annotation(annotation) => wit::Mapping::Annotation(annotation),
        Mapping::Field(pointer) => wit::Mapping::Field(pointer),
        Mapping::Guest => wit::Mapping::Guest,
    };
    let role = match role {
        Role::Secondary => wit::Role::Secondary,
        Role::Tertiary => wit::Role::Tertiary,
    };
    wit::Watch { name, of: declaration(of), mapping, changes: contract_changes(changes), role }
}

fn contract_changes(changes: Changes) -> wit::Changes {
    match changes {
        Changes::All => wit::Changes::All,
        Changes::ButStatus => wit::Changes::ButStatus,
    }
}
