use homeostat_sdk_testing::World;

use super::*;
use api::ReplicaSetStatus;

fn deployment(image: &str) -> Resource<Deployment> {
    let containers = json!([{ "name": "web", "image": image }]);
    let template = json!({ "metadata": { "labels": { "app": "web" } }, "spec": { "containers": containers } });
    let spec = json!({ "replicas": 2, "selector": { "matchLabels": { "app": "web" } }, "template": template });
    Resource::new("default", "web", serde_json::from_value(spec).expect("it fits the type"))
}

/// Reports that all pods of the sets are available, as the controller of the sets does.
fn make_available(world: &mut World<Deployments>) {
    for mut set in world.list::<ReplicaSet>() {
        let (replicas, observed_generation) = (set.spec.replicas, set.metadata.generation);
        let (ready_replicas, available_replicas) = (replicas, replicas);
        let terminating_replicas = 0;
        set.status = Some(ReplicaSetStatus {
            observed_generation,
            replicas,
            ready_replicas,
            available_replicas,
            terminating_replicas,
        });
        world.put(&set);
    }
    world.settle();
}

/// Returns the image and the size of each set.
fn sets(world: &World<Deployments>) -> BTreeMap<String, u32> {
    let sets = world.list::<ReplicaSet>().into_iter();
    let image = |set: &Resource<ReplicaSet>| {
        set.spec.template["spec"]["containers"][0]["image"].as_str().expect("it has an image").to_owned()
    };
    sets.map(|set| (image(&set), set.spec.replicas)).collect()
}

#[test]
fn a_deployment_has_a_set_of_its_template() {
    let mut world = World::of();
    world.put(&deployment("web:1"));
    world.settle();
    assert_eq!(sets(&world), [("web:1".to_owned(), 2)].into());
}

/// A set with the name exists when the deployment creates its own, and is gone when the deployment reads it.
#[test]
fn a_set_that_is_deleted_between_two_calls_is_no_collision() {
    let mut world = World::of();
    world.conflict_once(homeostat_sdk_testing::Operation::Create);
    world.put(&deployment("web:1"));
    world.settle();
    world.advance(Duration::from_secs(1));
    assert_eq!(sets(&world), [("web:1".to_owned(), 2)].into());
    let stored: Resource<Deployment> = world.list().remove(0);
    assert_eq!(stored.status.and_then(|status| status.collision_count), None);
}

#[test]
fn a_new_image_rolls_out_until_the_old_set_is_empty() {
    let mut world = World::of();
    world.put(&deployment("web:1"));
    world.settle();
    make_available(&mut world);
    world.put(&deployment("web:2"));
    world.settle();
    assert_eq!(sets(&world).get("web:1"), Some(&2), "no pod of the new set is available yet");
    for _ in 0..10 {
        make_available(&mut world);
    }
    assert_eq!(sets(&world), [("web:1".to_owned(), 0), ("web:2".to_owned(), 2)].into());
}
