//! A [`World`] has the store and the queue of a host. Its time moves only when a test moves it.

use homeostat_sdk_testing::{Operation, World};

use super::*;

fn world() -> World<Greeter> {
    let mut world = World::of();
    world.put(&Resource::new("default", "a", Greeting { name: "World".into() }));
    world
}

fn message(world: &World<Greeter>) -> Option<String> {
    let greeting = world.get::<Greeting>(&Greeting::key("default", "a")).expect("it is there");
    greeting.status.map(|status| status.message)
}

#[test]
fn a_greeting_gets_its_message_and_then_rests() {
    let mut world = world();
    assert_eq!(world.settle(), 2, "its own status queues it once more, and then nothing changes");
    assert_eq!(message(&world).as_deref(), Some("Hello, World!"));
    assert_eq!((world.settle(), world.next_due()), (0, None));
}

#[test]
fn a_lost_answer_is_repaired_after_the_backoff() {
    let mut world = world();
    world.fail_once(Operation::UpdateStatus);
    assert_eq!((world.settle(), message(&world)), (1, None));
    assert_eq!(world.next_due(), Some(Duration::from_millis(5)));
    world.advance(Duration::from_secs(1));
    assert_eq!(message(&world).as_deref(), Some("Hello, World!"));
}

#[test]
fn a_failure_of_the_store_reaches_the_test() {
    let mut world = world();
    world.fail_once(Operation::Get);
    let failure = world.reconcile(&Greeting::key("default", "a")).expect_err("the store is away");
    assert!(failure.message().contains("a fault of the test"), "{}", failure.message());
}
