//! The names of the messages that expressions make for patches.

/// The name of an operation of a JSON patch.
pub(crate) const JSON_PATCH: &str = "JSONPatch";

/// The name of a resource that is applied. Its parts are named by their paths, as `Object.spec`.
pub(crate) const OBJECT: &str = "Object";

/// The cost of a message, beside its fields. Source: cel-go.
pub(crate) const MESSAGE_COST: u64 = 40;
