use homeostat_store::memory::MemoryStore;
use homeostat_store::{Key, Store, Write};
use serde_json::json;

use super::*;
use crate::context::tests::context;

/// A definition that cannot be parsed: it is reported, and nothing else is done.
async fn word(store: &MemoryStore, name: &str) -> DefinitionUpdate {
    let document = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": { "name": name }, "spec": {},
    });
    let definition = store.write(Write::Create { document }).await.unwrap().resource;
    DefinitionUpdate { revision: definition.revision(), definition, is_gone: false }
}

async fn gone(store: &MemoryStore, word: &DefinitionUpdate) -> DefinitionUpdate {
    let (precondition, propagation) = Default::default();
    let key: Key = word.definition.key().clone();
    let definition = store.write(Write::Delete { key, precondition, propagation }).await.unwrap().resource;
    DefinitionUpdate { revision: definition.revision(), definition, is_gone: true }
}

#[tokio::test]
async fn a_deleted_definition_leaves_no_state_behind() {
    let store = Arc::new(MemoryStore::new(homeostat_store::Options::default()));
    let context = context(store.clone());
    let mut followers = DefinitionTasks::default();
    let first = word(&store, "sites.example.com").await;
    followers.notify(&context, first.clone());
    let last = gone(&store, &first).await;
    followers.notify(&context, last);
    // Too late: the definition is deleted already.
    followers.notify(&context, first);
    let (name, words) = followers.tasks.join_next().await.unwrap().unwrap();
    // A new definition has the same name before the task has run.
    let second = word(&store, &name).await;
    followers.notify(&context, second);
    followers.ended(&context, name, words);
    assert_eq!((followers.words.len(), followers.tasks.len()), (1, 1));
    // A gap in the history: a new list does not contain it.
    followers.tell_gone(&HashSet::new(), Revision(9));
    let (name, words) = followers.tasks.join_next().await.unwrap().unwrap();
    followers.ended(&context, name, words);
    assert_eq!((followers.words.len(), followers.tasks.len()), (0, 0));
}
