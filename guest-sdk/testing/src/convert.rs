//! From the types of the contract, as guests have them, to those of the host, and back.

use std::time::Duration;

use homeostat_component as host;
use homeostat_sdk::raw::describe as described;
use homeostat_sdk::raw::types as wit;
use homeostat_store::{Key, Kind, LabelRequirement, Precondition, Selector, View};
use serde_json::Value;

pub(crate) fn kind(kind: &wit::Kind) -> Kind {
    Kind::new(&kind.group, &kind.version, &kind.name)
}

pub(crate) fn key(of: &wit::Key) -> Key {
    Key::new(kind(&of.kind), &of.namespace, &of.name)
}

pub(crate) fn to_key(key: &Key) -> wit::Key {
    let Kind { group, version, name } = key.kind().clone();
    let kind = wit::Kind { group, version, name };
    wit::Key { kind, namespace: key.namespace().to_owned(), name: key.name().to_owned() }
}

pub(crate) fn view(view: wit::View) -> View {
    match view {
        wit::View::Whole => View::Whole,
        wit::View::Metadata => View::Metadata,
        wit::View::Keys => View::Keys,
    }
}

pub(crate) fn selector(selector: &wit::Selector) -> Selector {
    use wit::LabelRequirement as Wit;
    let label = |requirement: &Wit| match requirement.clone() {
        Wit::Equals((label, value)) => LabelRequirement::Equals(label, value),
        Wit::NotEquals((label, value)) => LabelRequirement::NotEquals(label, value),
        Wit::OneOf((label, values)) => LabelRequirement::OneOf(label, values),
        Wit::NoneOf((label, values)) => LabelRequirement::NoneOf(label, values),
        Wit::Exists(label) => LabelRequirement::Exists(label),
        Wit::Absent(label) => LabelRequirement::Absent(label),
    };
    let wit::Selector { namespace, labels, fields, owner } = selector;
    let labels = labels.iter().map(label).collect();
    let (namespace, fields, owner) = (namespace.clone(), fields.clone(), owner.clone());
    Selector { namespace, labels, fields, unequal_fields: Vec::new(), owner }
}

pub(crate) fn precondition(of: &wit::Precondition) -> Result<Precondition, wit::StoreError> {
    let revision = of.revision.as_ref().map(|text| text.parse());
    let revision = revision.transpose();
    let revision =
        revision.map_err(|_| wit::StoreError::Invalid("precondition.revision: is no revision".to_owned()))?;
    Ok(Precondition { uid: of.uid.clone(), revision })
}

pub(crate) fn json(text: &str) -> Result<Value, wit::StoreError> {
    serde_json::from_str(text).map_err(|error| wit::StoreError::Invalid(format!("json: not JSON: {error}")))
}

pub(crate) fn to_resource(resource: host::ResourceData) -> wit::Resource {
    let host::ResourceData { key, uid, revision, generation, json } = resource;
    wit::Resource { key: to_key(&key), uid, revision, generation, json }
}

pub(crate) fn to_page(page: host::PageData) -> wit::Page {
    let host::PageData { items, revision, next } = page;
    wit::Page { items: items.into_iter().map(to_resource).collect(), revision, next }
}

pub(crate) fn to_error(error: host::StoreError) -> wit::StoreError {
    match error {
        host::StoreError::NotFound(text) => wit::StoreError::NotFound(text),
        host::StoreError::Conflict(text) => wit::StoreError::Conflict(text),
        host::StoreError::Owned(text) => wit::StoreError::Owned(text),
        host::StoreError::AlreadyExists(text) => wit::StoreError::AlreadyExists(text),
        host::StoreError::Forbidden(text) => wit::StoreError::Forbidden(text),
        host::StoreError::Invalid(text) => wit::StoreError::Invalid(text),
        host::StoreError::TooLarge(text) => wit::StoreError::TooLarge(text),
        host::StoreError::Unavailable(text) => wit::StoreError::Unavailable(text),
        host::StoreError::Expired(text) => wit::StoreError::Expired(text),
    }
}

pub(crate) fn outcome(outcome: wit::Outcome) -> host::Outcome {
    match outcome {
        wit::Outcome::Settled => host::Outcome::Settled,
        wit::Outcome::AgainAfter(delay) => {
            host::Outcome::AgainAfter(Duration::from_millis(delay).min(host::Outcome::DELAY_MAX))
        }
    }
}

pub(crate) fn fault(failure: wit::Failure) -> host::Fault {
    let retry = match failure.retry {
        wit::Retry::Backoff => host::Retry::Backoff,
        wit::Retry::After(delay) => host::Retry::After(Duration::from_millis(delay).min(host::Outcome::DELAY_MAX)),
        wit::Retry::Never => host::Retry::Never,
    };
    host::Fault::Failure { message: failure.message, retry }
}

pub(crate) fn spec(spec: described::ControllerSpec) -> host::ControllerSpec {
    let milliseconds = |period: Option<u64>| period.map(Duration::from_millis);
    host::ControllerSpec {
        manages: declaration(spec.manages),
        changes: changes(spec.changes),
        watches: spec.watches.into_iter().map(watch).collect(),
        poll_every: milliseconds(spec.poll_every),
        resync_every: milliseconds(spec.resync_every),
        backoff: spec.backoff.map(|backoff| host::BackoffSpec {
            base: Duration::from_millis(backoff.base),
            max: Duration::from_millis(backoff.max),
            retries_max: backoff.retries_max,
        }),
        concurrency: spec.concurrency,
        during_delay: match spec.during_delay {
            described::DuringDelay::RunNow => host::DuringDelay::RunNow,
            described::DuringDelay::Hold => host::DuringDelay::Hold,
        },
    }
}

fn watch(watch: described::Watch) -> host::Watch {
    host::Watch {
        name: watch.name,
        of: declaration(watch.of),
        mapping: match watch.mapping {
            described::Mapping::Owner => host::Mapping::Owner,
            described::Mapping::SameName => host::Mapping::SameName,
            described::Mapping::Label(label) => host::Mapping::Label(label),
            described::Mapping::Annotation(annotation) => host::Mapping::Annotation(annotation),
            described::Mapping::Field(pointer) => host::Mapping::Field(pointer),
            described::Mapping::Guest => host::Mapping::Guest,
        },
        changes: changes(watch.changes),
        role: match watch.role {
            described::Role::Secondary => host::Role::Secondary,
            described::Role::Tertiary => host::Role::Tertiary,
        },
    }
}

fn changes(changes: described::Changes) -> host::Changes {
    match changes {
        described::Changes::All => host::Changes::All,
        described::Changes::ButStatus => host::Changes::ButStatus,
    }
}

pub(crate) fn declaration(declared: described::KindDeclaration) -> host::KindDeclaration {
    let schema = declared.schema.map(|text| serde_json::from_str(&text).expect("the schema of a kind is JSON"));
    host::KindDeclaration {
        kind: kind(&declared.kind),
        plural: declared.plural,
        namespaced: declared.namespaced,
        keys_only: declared.keys_only,
        schema,
    }
}
