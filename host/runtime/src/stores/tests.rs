use homeostat_fixtures::memory_store;
use homeostat_store::routes::{Routes, Rule};
use homeostat_store::{Key, View};
use serde_json::json;

use super::*;

/// Returns a host's own store and the store `bus` with the kinds of `far.dev`.
pub(crate) fn two(home: Arc<dyn Store>, bus: Arc<dyn Store>) -> Stores {
    let rule = Rule { pattern: "far.dev/*".parse().unwrap(), store: "bus".into(), view: View::Whole };
    let others = vec![StorePart { name: "bus".into(), store: bus }];
    Stores::Routed(Arc::new(RoutedStore::new(home, others, Routes::new(vec![rule]).unwrap()).unwrap()))
}

fn far() -> Kind {
    Kind::new("far.dev", "v1", "Widget")
}

fn near() -> Kind {
    Kind::new("near.dev", "v1", "Widget")
}

#[tokio::test]
async fn a_kind_is_ready_as_long_as_its_own_store_is() {
    let bus = memory_store();
    let stores = two(memory_store(), bus.clone());
    assert_eq!(stores.readiness([&near(), &far()]), Some(StoresReadiness::Ready));
    bus.close().await;
    assert_eq!(stores.readiness([&near()]), Some(StoresReadiness::Ready));
    let waiting = stores.readiness([&near(), &far()]).unwrap();
    assert!(matches!(&waiting, StoresReadiness::Waiting { reason: "StoreAway", .. }), "{waiting:?}");
    assert_eq!(Stores::One(bus).readiness([&far()]), None);
}

#[tokio::test]
async fn a_store_that_validates_here_has_kinds_that_this_host_defines() {
    let stores = two(memory_store(), memory_store());
    assert!(!stores.defines(&far()) && !stores.defines(&near()));
    assert!(stores.is_far(&far()) && !stores.is_far(&near()));
    let whole = stores.whole();
    let document =
        json!({"apiVersion": "far.dev/v1", "kind": "Widget", "metadata": {"name": "a", "namespace": "default"}});
    let created = homeostat_fixtures::create(&*whole, document);
    let key = Key::new(far(), "default", "a");
    assert_eq!(created.await.key(), &key);
    assert!(stores.parts()[1].store.get(&key).await.is_ok());
}
