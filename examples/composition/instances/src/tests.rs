use homeostat_sdk_testing::World;

use super::*;

/// The kind of the resources of an instance here.
#[derive(Resource, Serialize, Deserialize)]
#[resource(group = "demo.homeostat.dev", version = "v1", status = Value, schema = "disabled")]
struct Greeting {
    name: String,
}

/// Returns a world whose instances have two greetings. The second needs the status of the first.
fn world() -> World<Instances> {
    let greeting = |name: &str, text: &str| {
        json!({
            "apiVersion": Greeting::API_VERSION, "kind": Greeting::NAME, "metadata": {"name": name}, "spec": {"name": text},
        })
    };
    let resources = json!([
        {"id": "first", "template": greeting("${name}-first", "Ada")},
        {"id": "second", "template": greeting("${name}-second", "told: ${resources.first.status.message}")},
    ]);
    let mut world = World::with_config(&[("resources", &resources.to_string())]);
    world.declare::<Greeting>();
    world.put(&instance());
    world.settle();
    world
}

fn instance() -> Resource<Instance> {
    Resource::new("default", "a", Instance {})
}

fn greeting(world: &World<Instances>, name: &str) -> Option<Resource<Greeting>> {
    world.get(&Greeting::key("default", name))
}

/// Returns the message of the condition `Ready`.
fn message(world: &World<Instances>) -> String {
    let found = world.get::<Instance>(&instance().key()).expect("it is there");
    found.status.expect("it has a status")["conditions"][0]["message"].as_str().expect("it has a message").to_owned()
}

#[test]
fn a_resource_waits_for_the_status_of_an_earlier_one() {
    let mut world = world();
    assert_eq!(message(&world), "second waits for resources.first.status.message");
    let mut first = greeting(&world, "a-first").expect("it needs no other resource");
    assert_eq!(first.metadata.controller().map(|owner| owner.name.as_str()), Some("a"));
    assert!(greeting(&world, "a-second").is_none());

    first.status = Some(json!({"message": "Hello, Ada!"}));
    world.put(&first);
    world.settle();
    assert_eq!(message(&world), "all resources are applied");
    assert_eq!(greeting(&world, "a-second").expect("its value is there").spec.name, "told: Hello, Ada!");
}

#[test]
fn the_resources_of_an_instance_end_with_it() {
    let mut world = world();
    world.delete(&instance().key());
    world.settle();
    assert!(greeting(&world, "a-first").is_none());
}

#[test]
fn malformed_templates_are_a_failure_that_names_the_setting() {
    let mut world = World::<Instances>::with_config(&[("resources", "{")]);
    world.put(&instance());
    let failure = world.reconcile(&instance().key()).expect_err("they are malformed");
    assert!(failure.message().starts_with("the setting resources: "), "{}", failure.message());
}
