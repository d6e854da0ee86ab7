use homeostat_fixtures::memory_store;
use homeostat_store::definition::INDEXED_LABELS;
use homeostat_store::memory::MemoryStore;
use homeostat_store::{EventType, Precondition, Propagation, Store, Write};
use serde_json::json;

use super::*;
use crate::context::tests::context;

const NAME: &str = "sites.example.com";

fn event(kind: EventType, resource: &Arc<Resource>) -> Event {
    Event { kind, resource: Arc::clone(resource), previous: None, revision: resource.revision() }
}

/// Creates a definition that cannot be parsed: it is reported, and nothing else is done.
async fn create(store: &MemoryStore) -> Arc<Resource> {
    let names = json!({ "kind": "Site", "listKind": "SiteList", "plural": "sites", "singular": "site" });
    let document = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": NAME, "annotations": { INDEXED_LABELS: "no label" } },
        "spec": {
            "group": "example.com", "scope": "Cluster", "names": names, "versions": [{
                "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": { "type": "object" } },
            }],
        },
    });
    store.write(Write::Create { document }).await.unwrap().resource
}

async fn delete(store: &MemoryStore, definition: &Resource) -> Arc<Resource> {
    let (precondition, propagation) = (Precondition::default(), Propagation::Background);
    store
        .write(Write::Delete { key: definition.key().clone(), precondition, propagation, grace_seconds: None })
        .await
        .unwrap()
        .resource
}

#[tokio::test]
async fn a_deleted_definition_leaves_no_state_behind() {
    let store = memory_store();
    let reconciler = DefinitionReconciler { context: context(store.clone()), known: Mutex::default() };
    let name = Arc::<str>::from(NAME);
    let newest = || reconciler.known.lock()[NAME].newest.borrow().revision();
    let first = create(&store).await;
    reconciler.items(&event(EventType::Added, &first));
    let last = delete(&store, &first).await;
    reconciler.items(&event(EventType::Deleted, &last));
    // Too late: the definition is deleted already.
    reconciler.items(&event(EventType::Added, &first));
    assert_eq!(newest(), last.revision());
    // A new definition has the same name before the reconcile has run.
    let second = create(&store).await;
    reconciler.items(&event(EventType::Added, &second));
    assert_eq!(reconciler.reconcile(&name).await, Ok(Next::Done));
    assert_eq!(newest(), second.revision());
    // A gap in the history: the deletion was not watched.
    delete(&store, &second).await;
    assert_eq!(reconciler.tracked(), std::slice::from_ref(&name));
    assert_eq!(reconciler.reconcile(&name).await, Ok(Next::Done));
    assert!(reconciler.known.lock().is_empty());
    assert_eq!(reconciler.reconcile(&name).await, Ok(Next::Done));
}
