use std::sync::Arc;

use serde_json::{Value, json};

use super::{Check, checks};
use crate::fixture::pod_key;
use crate::memory::MemoryStore;
use crate::{Change, Event, EventType, Options, Precondition, Resource, Store, Write};

async fn create(store: &MemoryStore, name: &str, owner: Option<&Resource>) -> Arc<Resource> {
    let reference =
        |owner: &Resource| json!([{"apiVersion": "v1", "kind": "Pod", "name": owner.key().name(), "uid": owner.uid()}]);
    let owners = owner.map_or(Value::Null, reference);
    let metadata = json!({"name": name, "namespace": "default", "ownerReferences": owners});
    let document = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata});
    store.write(Write::Create { document }).await.expect("well formed").resource
}

fn modified(resource: &Arc<Resource>, previous: &Arc<Resource>) -> Event {
    let (resource, previous, kind) = (Arc::clone(resource), Some(Arc::clone(previous)), EventType::Modified);
    Event { kind, revision: resource.revision(), resource, previous }
}

#[tokio::test]
async fn a_changed_resource_is_looked_at_only_when_it_matters() {
    let store = MemoryStore::new(Options::default());
    let root = create(&store, "root", None).await;
    let leaf = create(&store, "leaf", Some(&root)).await;
    let patch = |patch| Write::Patch {
        key: pod_key("leaf"),
        change: Change::Merge(patch),
        precondition: Precondition::default(),
    };
    let spec = store.write(patch(json!({"spec": 1}))).await.expect("well formed").resource;
    assert_eq!(checks(&modified(&spec, &leaf)), []);
    let freed = store.write(patch(json!({"metadata": {"ownerReferences": null}}))).await.expect("well formed").resource;
    let [owner] = spec.owners() else { panic!("it has one owner") };
    let waiting = Check::WaitingOwner { owner: owner.clone(), namespace: "default".to_owned() };
    assert_eq!(checks(&modified(&freed, &spec)), [Check::Resource(pod_key("leaf")), waiting]);
}

#[tokio::test]
async fn the_dependents_of_a_resource_that_was_replaced_are_looked_at() {
    let (store, other) = (MemoryStore::new(Options::default()), MemoryStore::new(Options::default()));
    let (before, after) = (create(&store, "root", None).await, create(&other, "root", None).await);
    assert_eq!(checks(&modified(&after, &before)), [Check::DependentsOf(before.uid().to_owned())]);
}
