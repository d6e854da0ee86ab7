use homeostat_fleet::LeaseName;
use homeostat_store::{Error, Key, Kind};
use proptest::prelude::*;

use super::{SubjectParts, Subjects};

fn key(group: &str, kind: &str, namespace: &str, name: &str) -> Key {
    Key::new(Kind::new(group, "v1", kind), namespace, name)
}

#[test]
fn subjects_can_be_read_by_people() {
    let subjects = Subjects::new("homeostat", "");
    let subject = |key: &Key| subjects.resource(key).expect("short");
    assert_eq!(
        subject(&key("apps", "Deployment", "default", "web-1")),
        "$KV.homeostat.r.apps.Deployment.default.web-1"
    );
    assert_eq!(subject(&key("", "Node", "", "a.b")), "$KV.homeostat.r.=.Node.=.a=2Eb");
    assert_eq!(subjects.kind(&Kind::new("demo.dev", "v1", "Widget")), "$KV.homeostat.r.demo=2Edev.Widget.>");
    let prefixed = Subjects::new("b", "team.a");
    assert_eq!(prefixed.resource(&key("", "Node", "", "x")).expect("short"), "$KV.b.team.a.r.=.Node.=.x");
    assert_eq!(prefixed.store(), "$KV.b.team.a.m.store");
    assert_eq!(prefixed.written_kind(&Kind::new("", "v1", "Pod")), "$KV.b.team.a.m.kind.=.Pod.v1");
}

#[test]
fn a_subject_that_the_store_does_not_write_has_no_key() {
    let subjects = Subjects::new("b", "");
    for subject in [
        "",
        "$KV.b.r.apps.Deployment.default",
        "$KV.b.r.apps.Deployment.default.web.more",
        "$KV.b.r.apps.Deployment..web",
        "$KV.c.r.apps.Deployment.default.web",
        "$KV.b.m.apps.Deployment.default.web",
        "$KV.b.r.apps.Deployment.default.=2e",
        "$KV.b.r.apps.Deployment.default.=61",
        "$KV.b.r.apps.Deployment.default.=2",
        "$KV.b.r.apps.Deployment.default.a=",
        "$KV.b.r.apps.Deployment.default.=FF",
        "$KV.b.r.apps.Deployment.default.é",
    ] {
        assert_eq!(subjects.address(subject), None, "{subject}");
    }
}

#[test]
fn a_key_that_is_too_long_for_a_server_is_refused() {
    let subjects = Subjects::new("b", "");
    let longest = key(&"g.".repeat(126), "Widget", &"n".repeat(253), &"a.".repeat(126));
    assert!(subjects.resource(&longest).is_ok(), "every valid name fits");
    let error = subjects.resource(&key("demo.dev", "Widget", "", &".".repeat(2000))).expect_err("too long");
    assert!(matches!(error, Error::Invalid { .. }), "{error}");
}

proptest! {
    #[test]
    fn a_subject_and_its_key_name_each_other(
        group in "[a-z.=A-F0-9]{0,12}",
        kind in "\\PC{0,8}",
        namespace in "[a-z0-9.-]{0,12}",
        name in any::<String>(),
        prefix in prop_oneof![Just(""), Just("team-a"), Just("a.b")],
    ) {
        let subjects = Subjects::new("bucket", prefix);
        let written = key(&group, &kind, &namespace, &name);
        let subject = subjects.resource(&written).expect("short");
        prop_assert!(subject.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"$._-=".contains(&byte)), "{subject}");
        let read = subjects.address(&subject).expect("its own subject");
        prop_assert!(read.is_of(&written));
        prop_assert_eq!(read.key("v1"), written);
        prop_assert!(subject.starts_with(subjects.kind(&Kind::new(group, "v2", kind)).trim_end_matches('>')));
    }

    #[test]
    fn a_subject_with_a_key_is_the_one_of_that_key(tokens in prop::collection::vec("[a-cA-C0-2=_.-]{0,6}", 4)) {
        let subjects = Subjects::new("bucket", "");
        let subject = format!("$KV.bucket.r.{}", tokens.join("."));
        if let Some(address) = subjects.address(&subject) {
            let SubjectParts { group, kind, namespace, name } = &address;
            prop_assert_eq!(subjects.resource(&key(group, kind, namespace, name)).expect("short"), subject);
        }
    }

    #[test]
    fn the_entry_of_a_kind_names_the_kind(group in "[a-z.]{0,12}", name in "[A-Za-z]{1,12}") {
        let subjects = Subjects::new("bucket", "a");
        let kind = Kind::new(group, "v1beta1", name);
        prop_assert_eq!(subjects.kind_of(&subjects.written_kind(&kind)), Some(kind));
    }
}

fn lease(controller: &str, shard: u32) -> LeaseName {
    LeaseName::new(controller, shard, 4).unwrap()
}

#[test]
fn leases_and_fences_have_subjects_that_people_can_read() {
    let subjects = Subjects::new("b", "team");
    assert_eq!(subjects.lease(&lease("web.demo", 3)).as_deref(), Ok("$KV.b.team.m.lease.web=2Edemo.3-of-4"));
    assert_eq!(subjects.fence(&lease("web", 0), 15).as_deref(), Ok("$KV.b.team.m.fence.web.0-of-4.15"));
    assert_eq!(subjects.check(&lease("web", 0)).as_deref(), Ok("$KV.b.team.m.check.web.0-of-4"));
    assert_eq!(subjects.leases(), "$KV.b.team.m.lease.>");
}

#[test]
fn the_name_of_a_hostile_controller_reaches_no_other_subject() {
    let subjects = Subjects::new("b", "");
    for name in ["*", ">", "a.b", "a b", "a\r\nPUB x 1", "=", "é", "\0", "..", "a.0-of-1"] {
        let lease = lease(name, 0);
        let subject = subjects.lease(&lease).expect("it is short");
        assert_eq!(subject.split('.').count(), 6, "{subject}");
        assert!(subject.bytes().all(|byte| byte.is_ascii_graphic() && !b"*>".contains(&byte)), "{subject}");
        assert_eq!(subjects.lease_of(&subject), Some(lease));
    }
    for refused in [String::new(), "x".repeat(4 << 10), "*".repeat(1 << 10)] {
        assert!(matches!(subjects.lease(&lease(&refused, 0)), Err(Error::Invalid { .. })), "{refused:.10}");
        assert!(subjects.fence(&lease(&refused, 0), 0).is_err());
        assert!(subjects.check(&lease(&refused, 0)).is_err());
    }
    for subject in ["$KV.b.m.lease.a", "$KV.b.m.lease.a.0-of-04", "$KV.b.m.lease.a.b.0-of-4", "$KV.c.m.lease.a.0-of-4"]
    {
        assert_eq!(subjects.lease_of(subject), None, "{subject}");
    }
}
