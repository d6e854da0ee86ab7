use homeostat_sdk_testing::World;

use super::*;

fn tenant(namespaces: &[&str]) -> Resource<Tenant> {
    let namespaces = namespaces.iter().map(|namespace| (*namespace).to_owned()).collect();
    Resource::new("", "blue", Tenant { namespaces, pods: 20 })
}

fn pods(world: &World<Tenants>, namespace: &str) -> Option<u64> {
    world.get::<Quota>(&Quota::key(namespace, "blue")).map(|quota| quota.spec.pods)
}

#[test]
fn a_tenant_has_a_quota_in_each_namespace() {
    let mut world = World::of();
    world.put(&tenant(&["live", "test"]));
    world.settle();
    assert_eq!((pods(&world, "live"), pods(&world, "test")), (Some(20), Some(20)));
    let found = world.get::<Tenant>(&Tenant::key("", "blue")).expect("it is there");
    assert_eq!(found.status.map(|status| status.quotas), Some(2));
}

#[test]
fn a_namespace_that_the_tenant_leaves_loses_its_quota() {
    let mut world = World::of();
    world.put(&tenant(&["live", "test"]));
    world.settle();
    world.put(&tenant(&["live"]));
    world.settle();
    assert_eq!((pods(&world, "live"), pods(&world, "test")), (Some(20), None));
}

#[test]
fn a_quota_that_somebody_deletes_comes_back() {
    let mut world = World::of();
    world.put(&tenant(&["live"]));
    world.settle();
    world.delete(&Quota::key("live", "blue"));
    world.settle();
    assert_eq!(pods(&world, "live"), Some(20));
}
