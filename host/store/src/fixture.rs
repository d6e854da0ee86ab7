//! Resources of the unit tests whose kind does not matter.

use serde_json::{Value, json};

use crate::{Key, Kind};

/// Returns the key of a pod in the namespace `default`.
pub(crate) fn pod_key(name: &str) -> Key {
    Key::new(Kind::new("", "v1", "Pod"), "default", name)
}

/// Returns a kind of `demo.dev/v1`.
pub(crate) fn demo_kind(name: &str) -> Kind {
    Kind::new("demo.dev", "v1", name)
}

/// Returns the key of a widget of `demo.dev/v1` in the namespace `default`.
pub(crate) fn widget_key(name: &str) -> Key {
    Key::new(demo_kind("Widget"), "default", name)
}

/// Returns the document of a widget of `demo.dev/v1` in the namespace `default`.
pub(crate) fn widget(name: &str, spec: Value) -> Value {
    let metadata = json!({"name": name, "namespace": "default"});
    json!({"apiVersion": "demo.dev/v1", "kind": "Widget", "metadata": metadata, "spec": spec})
}
