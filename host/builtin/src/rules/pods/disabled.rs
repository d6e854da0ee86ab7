//! Fields that Kubernetes drops, since it has their features off.

use serde_json::{Map, Value};

use super::CONTAINERS;

/// Removes the fields of a specification whose features are off.
pub(super) fn remove(spec: &mut Map<String, Value>) {
    for list in CONTAINERS {
        let containers = spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten();
        containers.filter_map(Value::as_object_mut).for_each(remove_stop_signal);
    }
    let volumes = spec.get_mut("volumes").and_then(Value::as_array_mut).into_iter().flatten();
    for volume in volumes {
        let sources = volume.pointer_mut("/projected/sources").and_then(Value::as_array_mut).into_iter().flatten();
        for source in sources.filter_map(Value::as_object_mut) {
            source.remove("clusterTrustBundle");
            source.remove("podCertificate");
        }
    }
}

/// Removes the signal that stops a container, and the lifecycle where it has no other field.
fn remove_stop_signal(container: &mut Map<String, Value>) {
    let Some(lifecycle) = container.get_mut("lifecycle").and_then(Value::as_object_mut) else { return };
    if lifecycle.remove("stopSignal").is_some() && lifecycle.is_empty() {
        container.remove("lifecycle");
    }
}
