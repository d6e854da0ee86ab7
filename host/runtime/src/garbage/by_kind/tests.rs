use std::sync::Arc;

use async_trait::async_trait;
use homeostat_fixtures::{create, delete, demo, demo_key, demo_kind, memory_store, until_gone};
use homeostat_store::schema::Schemas;
use homeostat_store::{
    Key, Page, Query, Request, Resource, Result, Revision, Store, StorePart, StoreStatus, Watch, WriteResponse,
};
use homeostat_testing::soon;
use serde_json::{Value, json};

use super::*;

/// A store whose kinds have no common order.
struct UnorderedStore(Arc<dyn Store>);

#[async_trait]
impl Store for UnorderedStore {
    async fn get(&self, key: &Key) -> Result<Arc<Resource>> {
        self.0.get(key).await
    }

    async fn list(&self, query: &Query) -> Result<Page> {
        self.0.list(query).await
    }

    async fn submit(&self, request: Request) -> Result<WriteResponse> {
        self.0.submit(request).await
    }

    fn schemas(&self) -> Option<&Schemas> {
        self.0.schemas()
    }

    async fn watch(&self, scope: Scope, from: Revision) -> Result<Watch> {
        assert_ne!(scope, Scope::Everything, "it has no such order");
        self.0.watch(scope, from).await
    }

    async fn revision(&self, scope: &Scope) -> Result<Revision> {
        assert_ne!(*scope, Scope::Everything, "it has no such order");
        self.0.revision(scope).await
    }

    fn status(&self) -> Vec<StoreStatus> {
        self.0.status().into_iter().map(|status| StoreStatus { orders_all_kinds: false, ..status }).collect()
    }

    async fn close(&self) {
        self.0.close().await;
    }

    async fn kinds(&self) -> Result<Vec<Kind>> {
        self.0.kinds().await
    }
}

fn owned(kind: &str, name: &str, owner: &Resource) -> Value {
    let mut document = demo(kind, name, json!({}));
    let owner_kind = owner.key().kind();
    document["metadata"]["ownerReferences"] = json!([{
        "apiVersion": owner_kind.api_version(), "kind": owner_kind.name, "name": owner.key().name(), "uid": owner.uid(),
    }]);
    document
}

#[tokio::test(start_paused = true)]
async fn garbage_of_every_kind_is_collected_where_kinds_have_no_common_order() {
    let store = Arc::new(UnorderedStore(memory_store()));
    let end = CancellationToken::new();
    let root = create(&*store, demo("Root", "root", json!({}))).await;
    create(&*store, owned("Leaf", "leaf", &root)).await;
    let collector =
        tokio::spawn(super::super::run(Stores::One(store.clone()), Arc::default(), Arc::default(), end.clone()));
    delete(&*store, demo_key("Root", "root")).await;
    soon(until_gone_in(&store, "Leaf", "leaf")).await;
    // Kinds that come later.
    let root = create(&*store, demo("Later", "root", json!({}))).await;
    create(&*store, owned("Latest", "leaf", &root)).await;
    delete(&*store, demo_key("Later", "root")).await;
    soon(until_gone_in(&store, "Latest", "leaf")).await;
    end.cancel();
    soon(collector).await.unwrap();
}

async fn until_gone_in(store: &UnorderedStore, kind: &str, name: &str) {
    until_gone(&*store.0, &demo_key(kind, name)).await;
}

#[tokio::test(start_paused = true)]
async fn the_collectors_end_with_the_store() {
    let store = Arc::new(UnorderedStore(memory_store()));
    create(&*store, demo("Root", "root", json!({}))).await;
    let collector = tokio::spawn(super::super::run(
        Stores::One(store.clone()),
        Arc::default(),
        Arc::default(),
        CancellationToken::new(),
    ));
    tokio::time::sleep(KINDS_EVERY).await;
    store.close().await;
    soon(collector).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn no_more_kinds_than_the_bound_are_followed() {
    let store: Arc<dyn Store> = Arc::new(UnorderedStore(memory_store()));
    let part = StorePart { name: "far".into(), store: store.clone() };
    let stores = Stores::One(store);
    let place = Place::new(part, &stores, Arc::default(), None);
    let mut collectors = KindCollectors { place, followed: HashMap::new(), tasks: JoinSet::new(), was_full: false };
    let kinds = |count: usize| -> HashMap<KindId, Kind> {
        (0..count).map(|at| demo_kind(&format!("Kind{at}"))).map(|kind| (id_of(&kind), kind)).collect()
    };
    let end = CancellationToken::new();
    collectors.follow_only(kinds(KINDS_MAX + 1), &end);
    assert_eq!((collectors.followed.len(), collectors.was_full), (KINDS_MAX, true));
    // Kinds that are gone make room.
    collectors.follow_only(kinds(2), &end);
    assert_eq!(collectors.followed.len(), 2);
    end.cancel();
    while collectors.tasks.join_next().await.is_some() {}
}
