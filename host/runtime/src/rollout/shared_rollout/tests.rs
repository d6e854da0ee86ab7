use proptest::prelude::*;

use super::*;

const TWO: &str = "2222";

fn step(version: &'static str, phase: RolloutPhase, percent: u16) -> SharedStep<'static> {
    let share = Share::percent(percent);
    let salt = (phase == RolloutPhase::Canary).then_some(113);
    SharedStep { version, attempt: "a1", phase, share, salt, paused: false, reason: None }
}

fn written(step: SharedStep<'_>) -> SeenRollout {
    SeenRollout::Written(SharedRollout::after(&SeenRollout::Absent, step))
}

/// A host that has carried out a step of version two.
fn own(share: Option<u16>, leads: bool) -> OwnRollout<'static> {
    let (share, salt) = (share.map(Share::percent), share.map(|_| 113));
    OwnRollout { version: TWO, wanted: "a1", followed: Some("a1"), is_retry: false, share, salt, leads }
}

/// A host that was away.
fn late() -> OwnRollout<'static> {
    OwnRollout { followed: None, ..own(None, true) }
}

#[test]
fn the_record_of_a_rollout_is_read_as_it_was_written() {
    let reason = Some("it \"trapped\"\n");
    for phase in [RolloutPhase::Listing, RolloutPhase::Shadow, RolloutPhase::Canary, RolloutPhase::RolledBack] {
        for paused in [false, true] {
            let mut seen = SeenRollout::Absent;
            for version in ["1111", TWO, "1111"] {
                let step = SharedStep { paused, reason, ..step(version, phase, 10) };
                seen = SeenRollout::Written(SharedRollout::after(&seen, step));
                let SeenRollout::Written(rollout) = &seen else { panic!("it is written") };
                assert_eq!(SeenRollout::read(&rollout.text()), seen);
            }
        }
    }
}

#[test]
fn a_record_of_a_later_version_of_the_host_is_not_understood() {
    let text = SharedRollout::after(&SeenRollout::Absent, step(TWO, RolloutPhase::Canary, 10)).text();
    assert!(matches!(SeenRollout::read(&text), SeenRollout::Written(_)));
    let others = [
        text.replace("\"format\":1", "\"format\":2"),
        text.replace("{\"", "{\"more\":1,\""),
        text.replace("canary", "frozen"),
        text.replace("10%", "110%"),
        text.replace(TWO, "x"),
        text.replace(TWO, &"2".repeat(DIGITS + 1)),
        text.replace("\"phase\"", "\"phases\""),
        format!("{text}{}", " ".repeat(DESCRIPTION_BYTES_MAX)),
        String::new(),
        "[]".to_owned(),
    ];
    for other in others {
        assert_eq!(SeenRollout::read(&other), SeenRollout::Unreadable, "{other}");
    }
    assert!(matches!(course(&SeenRollout::Unreadable, &own(Some(10), true)), Course::Wait(_)));
}

#[test]
fn a_record_remembers_a_bounded_number_of_versions_that_were_rolled_back() {
    let versions: Vec<String> = (0..20).map(|number| format!("{number:0DIGITS$x}")).collect();
    let mut seen = SeenRollout::Absent;
    for version in &versions {
        let reason = "\u{1}".repeat(5000);
        let rolled_back =
            SharedStep { version, attempt: version, reason: Some(&reason), ..step(TWO, RolloutPhase::RolledBack, 0) };
        let rollout = SharedRollout::after(&seen, rolled_back);
        let text = rollout.text();
        assert!(text.len() <= DESCRIPTION_BYTES_MAX, "{}", text.len());
        seen = SeenRollout::read(&text);
        assert!(seen.of(version).is_some_and(|read| read.is_same(&rollout)), "{text}");
    }
    let ends = |version: &str| matches!(course(&seen, &OwnRollout { version, ..late() }), Course::Follow(_));
    let known = versions.iter().filter(|version| ends(version)).count();
    assert_eq!(known, 1 + PAST_MAX);
}

#[test]
fn a_host_carries_out_the_step_of_the_record_before_it_decides_one() {
    let seen = written(step(TWO, RolloutPhase::Canary, 50));
    for own in [own(None, true), own(Some(10), true), own(Some(10), false), late()] {
        assert!(matches!(course(&seen, &own), Course::Follow(rollout) if rollout.share == Share::percent(50)));
    }
    let other_deal = OwnRollout { salt: Some(7), ..own(Some(50), true) };
    assert!(matches!(course(&seen, &other_deal), Course::Follow(_)));
    assert_eq!(course(&seen, &own(Some(50), true)), Course::Lead);
    assert!(matches!(course(&seen, &own(Some(50), false)), Course::Wait(_)));
}

#[test]
fn the_host_with_the_first_lease_begins_a_rollout_and_no_other_one() {
    for seen in [SeenRollout::Absent, written(step("1111", RolloutPhase::Complete, 100))] {
        assert_eq!(course(&seen, &late()), Course::Lead);
        assert!(matches!(course(&seen, &OwnRollout { leads: false, ..late() }), Course::Wait(_)));
    }
    assert!(matches!(course(&SeenRollout::Unknown, &late()), Course::Wait(_)));
}

#[test]
fn a_version_that_has_ended_is_not_tried_again_without_a_person() {
    for phase in [RolloutPhase::Complete, RolloutPhase::RolledBack] {
        let seen = written(step(TWO, phase, 0));
        // A host with another spec that was away knows of no end.
        for own in [own(Some(50), true), late(), OwnRollout { wanted: "b2", ..late() }] {
            assert!(matches!(course(&seen, &own), Course::Follow(rollout) if rollout.phase == phase));
        }
    }
    let seen = written(step(TWO, RolloutPhase::RolledBack, 0));
    let person = OwnRollout { wanted: "b2", is_retry: true, leads: false, ..late() };
    assert_eq!(course(&seen, &person), Course::Retry);
    // The same attempt on the next host is no other one.
    assert!(matches!(course(&seen, &OwnRollout { wanted: "a1", ..person }), Course::Follow(_)));
}

#[test]
fn a_version_that_another_one_replaced_is_rolled_back_where_it_has_keys() {
    let replaced = written(step(TWO, RolloutPhase::Canary, 50));
    let seen = SeenRollout::Written(SharedRollout::after(&replaced, step("3333", RolloutPhase::Canary, 10)));
    let ended = course(&seen, &own(Some(50), true));
    assert!(matches!(&ended, Course::Follow(rollout) if rollout.phase == RolloutPhase::RolledBack), "{ended:?}");
    assert_eq!(course(&seen, &OwnRollout { wanted: "b2", is_retry: true, ..late() }), Course::Retry);
    let promoted = written(step(TWO, RolloutPhase::Complete, 100));
    let seen = SeenRollout::Written(SharedRollout::after(&promoted, step("3333", RolloutPhase::Complete, 100)));
    assert_eq!(course(&seen, &late()), Course::Lead, "a version that had all keys before is rolled out again");
}

#[test]
fn the_name_of_a_version_follows_from_what_a_rollout_replaces() {
    let spec = json!({
        "component": {"file": "a.wasm", "digest": "sha256:1"}, "config": {"x": "1"}, "limits": {}, "concurrency": 2,
    });
    let with = |pointer: &str, value: Value| {
        let mut other = spec.clone();
        *other.pointer_mut(pointer).unwrap() = value;
        version_id(&other)
    };
    assert_eq!(version_id(&spec).len(), DIGITS);
    assert_eq!(
        with("/component/file", json!("b.wasm")),
        version_id(&spec),
        "where the code comes from is no difference"
    );
    assert_eq!(with("/concurrency", json!(3)), version_id(&spec));
    for (pointer, value) in
        [("/component/digest", json!("sha256:2")), ("/config/x", json!("2")), ("/limits", json!({"cpu": "1s"}))]
    {
        assert_ne!(with(pointer, value), version_id(&spec), "{pointer}");
    }
}

proptest! {
    #[test]
    fn any_text_is_read_as_a_record_or_not_understood(text in ".{0,200}") {
        let seen = SeenRollout::read(&text);
        prop_assert!(seen == SeenRollout::Unreadable);
    }

    #[test]
    fn a_reason_of_any_characters_fits_into_the_record(reason in "(?s).{0,2000}") {
        let step = SharedStep { reason: Some(&reason), ..step(TWO, RolloutPhase::RolledBack, 0) };
        let rollout = SharedRollout::after(&SeenRollout::Absent, step);
        let text = rollout.text();
        prop_assert!(text.len() <= DESCRIPTION_BYTES_MAX);
        let SeenRollout::Written(read) = SeenRollout::read(&text) else { panic!("{text}") };
        prop_assert!(read.is_same(&rollout) && reason.starts_with(&read.reason.unwrap()));
    }
}
