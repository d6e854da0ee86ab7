use homeostat_sdk_testing::World;

use super::*;

fn composition(of_field: &str) -> Resource<Composition> {
    let fields = Map::from_iter([("greeting".to_owned(), of_field.into())]);
    let (kind, plural) = ("Welcome".to_owned(), "welcomes".to_owned());
    let watches = vec![json!({ "name": "banners" })];
    let (resources, grants) = (Vec::new(), json!([]));
    Resource::new("", "welcome", Composition { kind, plural, fields, resources, watches, grants })
}

fn ready(world: &World<Composer>) -> String {
    let found = world.get::<Composition>(&Composition::key("", "welcome")).expect("it is there");
    let conditions = found.status.expect("it has a status").conditions;
    conditions.get("Ready").expect("it has the condition").reason.clone()
}

#[test]
fn a_composition_makes_a_kind_and_a_controller_for_it() {
    let mut world = World::of();
    world.declare::<CustomResourceDefinition>();
    world.declare::<Controller>();
    world.put(&composition("string"));
    world.settle();
    let definition = CustomResourceDefinition::key("", "welcomes.composed.homeostat.dev");
    let definition = world.get::<CustomResourceDefinition>(&definition).expect("it is defined");
    assert_eq!(definition.spec.0["names"]["kind"], "Welcome");
    let controller = world.get::<Controller>(&Controller::key("", "composed-welcomes")).expect("it is there");
    assert_eq!(controller.spec.0["manages"]["kind"], "Welcome");
    assert_eq!(controller.spec.0["watches"], json!([{ "name": "banners" }]));
    assert_eq!(ready(&world), "Starting");
}

#[test]
fn a_field_of_an_unknown_type_is_refused() {
    let mut world = World::of();
    world.put(&composition("text"));
    world.settle();
    assert_eq!(ready(&world), "Invalid");
}
