use homeostat_sdk_testing::World;

use super::*;

/// The request itself needs a network, which no world has. These tests cover the steps before it, and those of `check`
/// the steps after it.
#[test]
fn an_address_that_is_known_to_be_wrong_is_not_checked_again() {
    let mut world = World::<Uptime>::of();
    let second = Span(Duration::from_secs(1));
    let monitor = Monitor { url: "no address".into(), every: second, timeout: second, expect_status: None };
    let answer = Err(http::Error::Invalid("no address".into()));
    let mut resource = Resource::new("default", "site", monitor.clone());
    resource.status = Some(monitor.judge(1, None, &answer, Time::now()));
    world.put(&resource);
    let failure = world.reconcile(&Monitor::key("default", "site")).expect_err("its address is wrong");
    assert!(failure.message().contains("no address"), "{}", failure.message());
}

#[test]
fn a_monitor_waits_until_its_next_check() {
    let mut world = World::<Uptime>::of();
    let (second, minute) = (Span(Duration::from_secs(1)), Span(Duration::from_secs(60)));
    let monitor = Monitor { url: "http://a.example".into(), every: minute, timeout: second, expect_status: None };
    let answer = Ok((200, Duration::from_millis(3)));
    let mut resource = Resource::new("default", "site", monitor.clone());
    world.put(&resource);
    let stored = world.get::<Monitor>(&resource.key()).expect("it is there");
    let now = stored.metadata.creation_timestamp.expect("the store sets it");
    resource.status = Some(monitor.judge(1, None, &answer, now));
    world.put(&resource);
    assert_eq!(world.settle(), 1);
    let due = world.next_due().expect("it waits");
    assert!(due > Duration::from_secs(58) && due <= minute.0, "{due:?}");
}
