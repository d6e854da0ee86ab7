//! Resources of the unit tests whose kind does not matter.

use crate::{Key, Kind};

/// Returns the key of a pod in the namespace `default`.
pub(crate) fn pod_key(name: &str) -> Key {
    Key::new(Kind::new("", "v1", "Pod"), "default", name)
}
