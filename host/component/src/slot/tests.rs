use super::Slot;
use crate::engine::{Engine, EngineOptions};
use crate::fixture;
use crate::grants::Grants;

#[tokio::test]
async fn who_took_a_component_keeps_it_through_a_swap() {
    let engine = Engine::new(EngineOptions { instances_max: 1, ..EngineOptions::default() }).unwrap();
    let first = engine.load(fixture::good(), &Grants::default()).await.unwrap();
    let second = engine.load(fixture::guest("global.get $spec", "unreachable"), &Grants::default()).await.unwrap();
    let slot = Slot::new(first.clone());
    let taken = slot.current();
    assert_eq!((taken.generation, slot.swap(second.clone())), (1, 2));
    assert_eq!(taken.component.digest(), first.digest());
    assert_eq!(slot.current().component.digest(), second.digest());
    assert_eq!(slot.swap(first), 3);
}
