//! The time that a pod may take for its end.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use homeostat_store::schema::VersionSchema;
use homeostat_store::semantics::{Decision, Validation, WriteContext, decide};
use homeostat_store::{Change, Key, Kind, Precondition, Propagation, Resource, Revision, Write};
use serde_json::{Value, json};

/// A store of one pod.
struct World {
    pod: Option<Arc<Resource>>,
    now: SystemTime,
    revision: u64,
}

impl World {
    /// Creates a pod with this spec and these finalizers, whose name is `web`.
    fn with(spec: Value, finalizers: Value) -> Self {
        let mut world = Self { pod: None, now: SystemTime::UNIX_EPOCH + Duration::from_secs(1_000), revision: 0 };
        let mut document = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": { "name": "web", "namespace": "default", "finalizers": finalizers },
            "spec": { "containers": [{ "name": "web", "image": "nginx" }] },
        });
        document["spec"].as_object_mut().expect("it is one").extend(spec.as_object().expect("it is one").clone());
        world.write(Write::Create { document });
        world
    }

    fn on_a_node() -> Self {
        Self::with(json!({ "nodeName": "n1" }), json!([]))
    }

    fn write(&mut self, write: Write) {
        self.revision += 1;
        let context = WriteContext {
            now: self.now,
            uid: "1".into(),
            revision: Revision(self.revision),
            manager: "test".into(),
            version: VersionSchema { schema: crate::schema(&kind()).map(Arc::new), ..VersionSchema::default() },
            subresource: None,
            validation: Validation::Complete,
        };
        match decide(&key(), self.pod.as_ref(), write, &context).expect("the write is valid") {
            Decision::Put(pod) => self.pod = Some(pod),
            Decision::Remove(_) => self.pod = None,
            Decision::Unchanged(_) => {}
        }
    }

    fn delete(&mut self, propagation: Propagation, grace_seconds: Option<u32>) {
        self.write(Write::Delete { key: key(), precondition: Precondition::default(), propagation, grace_seconds });
    }

    fn patch(&mut self, patch: Value) {
        let change = Change::Merge(patch);
        self.write(Write::Patch { key: key(), change, precondition: Precondition::default() });
    }

    /// Returns the time of the deletion in seconds since the start of the world, and the grace period; `None` without
    /// the pod.
    fn end(&self) -> Option<(i64, u64)> {
        let metadata = &self.pod.as_ref()?.document()["metadata"];
        let due: jiff::Timestamp = metadata["deletionTimestamp"].as_str()?.parse().expect("it is a time");
        Some((due.as_second() - 1_000, metadata["deletionGracePeriodSeconds"].as_u64()?))
    }
}

fn kind() -> Kind {
    Kind::new("", "v1", "Pod")
}

fn key() -> Key {
    Key::new(kind(), "default", "web")
}

#[test]
fn a_pod_on_a_node_stays_for_its_grace_period() {
    for (spec, asked, end) in [
        (json!({ "nodeName": "n1" }), None, (30, 30)),
        (json!({ "nodeName": "n1", "terminationGracePeriodSeconds": 5 }), None, (5, 5)),
        (json!({ "nodeName": "n1" }), Some(7), (7, 7)),
        (json!({ "nodeName": "n1" }), Some(u32::MAX), (i64::from(u32::MAX), u32::MAX.into())),
    ] {
        let mut world = World::with(spec.clone(), json!([]));
        world.delete(Propagation::Background, asked);
        assert_eq!(world.end(), Some(end), "{spec}");
        assert_eq!(world.pod.as_ref().map(|pod| pod.generation()), Some(2));
        world.patch(json!({ "metadata": { "labels": { "a": "b" } } }));
        assert_eq!(world.end(), Some(end), "a write of its metadata does not end it");
        world.delete(Propagation::Background, Some(0));
        assert_eq!(world.pod, None);
    }
}

#[test]
fn a_pod_that_no_node_runs_is_deleted_at_once() {
    let mut world = World::with(json!({}), json!([]));
    world.delete(Propagation::Background, Some(30));
    assert_eq!(world.pod, None);

    for phase in ["Failed", "Succeeded"] {
        let mut world = World::on_a_node();
        world.write(Write::UpdateStatus {
            key: key(),
            status: json!({ "phase": phase }),
            precondition: Precondition::default(),
        });
        world.delete(Propagation::Background, None);
        assert_eq!(world.pod, None, "{phase}");
    }
}

#[test]
fn a_second_deletion_only_shortens_the_time() {
    let mut world = World::on_a_node();
    world.delete(Propagation::Background, None);
    world.now += Duration::from_secs(4);
    let finalizers = |world: &World| world.pod.as_ref().map(|pod| pod.finalizers().count());
    for asked in [None, Some(40), Some(30)] {
        world.delete(Propagation::Foreground, asked);
        assert_eq!((world.end(), finalizers(&world)), (Some((30, 30)), Some(0)), "{asked:?}");
    }
    world.delete(Propagation::Foreground, Some(10));
    assert_eq!((world.end(), finalizers(&world)), (Some((10, 10)), Some(1)), "its dependents come first");
    // The fourth second is over.
    world.delete(Propagation::Background, Some(3));
    assert_eq!((world.end(), finalizers(&world)), (Some((4, 1)), Some(1)), "the policy stays");
}

#[test]
fn a_finalizer_holds_a_pod_beyond_its_time() {
    let mut world = World::with(json!({ "nodeName": "n1" }), json!(["example.com/held"]));
    world.delete(Propagation::Background, None);
    world.delete(Propagation::Background, Some(0));
    assert_eq!(world.end(), Some((0, 0)));
    world.patch(json!({ "metadata": { "finalizers": null } }));
    assert_eq!(world.pod, None);

    let mut world = World::with(json!({ "nodeName": "n1" }), json!(["example.com/held"]));
    world.delete(Propagation::Background, None);
    world.patch(json!({ "metadata": { "finalizers": null } }));
    assert_eq!(world.end(), Some((30, 30)), "the node still has to end it");
}
