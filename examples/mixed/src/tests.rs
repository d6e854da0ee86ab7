use homeostat_sdk_testing::World;

use super::*;

fn site() -> Resource<Site> {
    Resource::new("default", "shop", Site { image: "shop:1".into(), replicas: 2, health: None })
}

fn deployed(world: &World<Sites>) -> Resource<Deployment> {
    world.get(&Deployment::key("default", "shop")).expect("it is deployed")
}

fn theme(world: &World<Sites>) -> Value {
    deployed(world).spec.template["spec"]["containers"][0]["env"][0]["value"].clone()
}

#[test]
fn a_site_runs_as_a_deployment_with_its_settings() {
    let mut world = World::of();
    world.put(&Resource::new("default", "shop", Settings([("theme".to_owned(), "dark".to_owned())].into())));
    world.put(&site());
    world.settle();
    assert_eq!((deployed(&world).spec.replicas, theme(&world)), (2, "dark".into()));
}

#[test]
fn a_change_of_the_settings_reaches_the_deployment() {
    let mut world = World::of();
    world.put(&site());
    world.settle();
    assert_eq!(theme(&world), "plain");
    world.put(&Resource::new("default", "shop", Settings([("theme".to_owned(), "light".to_owned())].into())));
    world.settle();
    assert_eq!(theme(&world), "light");
}

#[test]
fn the_ready_replicas_of_the_deployment_are_those_of_the_site() {
    let mut world = World::of();
    world.put(&site());
    world.settle();
    let mut deployment = deployed(&world);
    deployment.status = Some(DeploymentStatus { ready_replicas: 2 });
    world.put(&deployment);
    world.settle();
    let site = world.get::<Site>(&Site::key("default", "shop")).expect("it is there");
    assert_eq!(site.status.map(|status| status.ready), Some(2));
}
