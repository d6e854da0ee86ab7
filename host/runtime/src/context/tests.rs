use homeostat_component::EngineOptions;
use homeostat_store::memory::MemoryStore;
use serde_json::json;

use super::*;
use crate::events::EventFilter;

/// A context over a store, with room for one guest.
pub(crate) fn context(store: Arc<MemoryStore>) -> Arc<Context> {
    let engine = Engine::new(EngineOptions { instances_max: 1, ..EngineOptions::default() }).unwrap();
    Arc::new(Context::new(Options::new(engine, store)).unwrap())
}

fn definition(group: &str, scope: serde_json::Value) -> Value {
    let names = json!({"kind": "Cron", "plural": "crons"});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": format!("crons.{group}")},
        "spec": {"group": group, "scope": scope, "names": names, "versions": [{"name": "v1", "served": true, "storage": true}]}
    })
}

#[tokio::test]
async fn a_definition_that_is_wrong_is_told_and_keeps_no_host_from_starting() {
    let store = Arc::new(MemoryStore::new(homeostat_store::Options::default()));
    for document in [definition("bad.dev", json!(3)), definition("good.dev", json!("Namespaced"))] {
        store.write(Write::Create { document }).await.unwrap();
    }
    let context = context(store);
    context.declare_stored().await.unwrap();
    assert!(context.kinds.serves(&Kind::new("good.dev", "v1", "Cron")));
    let told = context.events.list(&EventFilter::default());
    assert_eq!(told.len(), 1);
    assert!(told[0].message.contains("spec.scope"), "{}", told[0].message);
}
