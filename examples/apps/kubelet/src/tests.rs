use homeostat_sdk_testing::World;

use super::*;
use api::{Container, Phase};

fn world(image: &str) -> World<Kubelet> {
    world_with(image, &[("startup", "2s")])
}

fn world_with(image: &str, config: &[(&str, &str)]) -> World<Kubelet> {
    let mut world = World::with_config(config);
    let containers = vec![Container { name: "web".into(), image: image.into() }];
    world.put(&Resource::new("default", "a", Pod { containers, ..Pod::default() }));
    world.settle();
    world
}

fn phase(world: &World<Kubelet>) -> Option<Phase> {
    let pod = world.get::<Pod>(&Pod::key("default", "a"))?;
    Some(pod.status.expect("it has a status").phase)
}

#[test]
fn a_pod_runs_after_the_startup_time() {
    let mut world = world("web:1");
    assert_eq!(phase(&world), Some(Phase::Pending));
    world.advance(Duration::from_secs(1));
    assert_eq!(phase(&world), Some(Phase::Pending));
    world.advance(Duration::from_secs(1));
    assert_eq!(phase(&world), Some(Phase::Running));
    let started = |event: &&homeostat_sdk_testing::RecordedEvent| event.reason == "Started";
    assert_eq!(world.take_events().iter().filter(started).count(), 1);
}

#[test]
fn a_pod_with_a_bad_image_never_runs() {
    let mut world = world("bad:1");
    world.advance(Duration::from_secs(60));
    assert_eq!(phase(&world), Some(Phase::Pending));
}

#[test]
fn a_pod_waits_for_its_node_where_a_scheduler_gives_one() {
    let mut world = world_with("web:1", &[("unscheduled", "false")]);
    let mut pod = world.get::<Pod>(&Pod::key("default", "a")).expect("it is there");
    assert!(pod.status.is_none() && pod.metadata.finalizers.is_empty(), "another program has to bind it first");
    pod.spec.node_name = "one".into();
    world.put(&pod);
    world.settle();
    let pod = world.get::<Pod>(&Pod::key("default", "a")).expect("it is there");
    assert!(pod.status.is_some() && pod.metadata.finalizers.is_empty());
}

#[test]
fn a_deleted_pod_stays_until_the_node_has_stopped_it() {
    let mut world = world("web:1");
    world.delete(&Pod::key("default", "a"));
    assert!(phase(&world).is_some(), "its finalizer keeps it");
    world.settle();
    assert_eq!(phase(&world), None);
}
