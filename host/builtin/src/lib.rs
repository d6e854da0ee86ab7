//! Kubernetes' built-in kinds: names, schemas, defaults, rules, and their protobuf encoding.
//!
//! [`json_types`] checks documents as Kubernetes decodes them. [`kinds`] lists the kinds, [`schema`] gives the store the
//! schema of one, and [`protobuf`] converts between their JSON and their protobuf form. [`cbor`] does so for all kinds.
//! [`autoscaler`] converts autoscalers between two versions. `data` has what Kubernetes publishes; `tests/tools/kinds`
//! writes it. The definitions are inflated when the first kind is used.
//!
//! Deliberately absent: I/O, clocks and randomness.

pub mod autoscaler;
pub mod cbor;
mod data;
pub mod json_types;
mod kind;
mod message;
pub mod protobuf;
mod rules;
mod structural;

pub use kind::{BuiltInKind, definition_of, find, kinds};
pub use rules::{
    ADMISSION_VARIABLES, NODE_PORTS, SERVICE_RANGE, check_changed_event, check_conversion_webhook, check_new_event,
    requests_group, warnings,
};
pub use structural::{published, published_type, schema};

/// The rules of the cluster roles for the users of a namespace, as JSON: `admin`, `edit` and `view`, each with its list of rules.
pub const USER_ROLES: &str = include_str!("../data/roles.json");
