use homeostat_sdk_testing::World;
use serde_json::json;

use super::*;

fn set(replicas: u32) -> Resource<ReplicaSet> {
    let template =
        json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "web", "image": "web:1"}]}});
    let spec = json!({"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template});
    Resource::new("default", "web", serde_json::from_value(spec).expect("it fits the type"))
}

fn pods(world: &World<ReplicaSets>) -> Vec<Resource<Pod>> {
    world.list::<Pod>()
}

#[test]
fn a_set_has_as_many_pods_as_it_wants() {
    let mut world = World::of();
    world.put(&set(3));
    world.settle();
    assert_eq!(pods(&world).len(), 3);
    world.put(&set(1));
    world.settle();
    assert_eq!(pods(&world).len(), 1);
}

#[test]
fn a_pod_that_somebody_deletes_is_replaced() {
    let mut world = World::of();
    world.put(&set(2));
    world.settle();
    world.delete(&pods(&world)[0].key());
    world.settle();
    assert_eq!(pods(&world).len(), 2);
}

#[test]
fn a_lost_answer_leads_to_no_further_pod() {
    let mut world = World::of();
    world.put(&set(2));
    world.lose_answer_once(homeostat_sdk_testing::Operation::Create);
    world.settle();
    world.advance(Duration::from_secs(1));
    assert_eq!(pods(&world).len(), 2);
}

#[test]
fn a_pod_without_an_owner_is_adopted() {
    let mut world = World::of();
    let orphan = Pod(json!({"containers": [{"name": "web", "image": "web:1"}]}));
    world.put(&Resource::new("default", "orphan", orphan).label("app", "web"));
    world.put(&set(1));
    world.settle();
    let found = pods(&world);
    assert_eq!((found.len(), found[0].metadata.name.as_str()), (1, "orphan"));
    assert_eq!(found[0].metadata.controller().map(|owner| owner.name.as_str()), Some("web"));
}
