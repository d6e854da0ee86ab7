use std::collections::BTreeSet;
use std::time::Duration;

use super::{BucketFacts, Facts, ServerVersion, SettingProblem, Severity, setting_problems};

/// A server and a bucket without a problem.
fn sound() -> Facts {
    Facts {
        version: "2.15.2".into(),
        api_level: 5,
        payload_bytes_max: 2 << 20,
        encrypted: true,
        local: false,
        bucket: BucketFacts {
            replicas: 3,
            in_memory: true,
            history: Some(1),
            age_max: None,
            bytes_max: None,
            messages_max: None,
            discards_old: false,
            value_bytes_max: None,
            duplicate_window: Duration::from_secs(10),
            has_ttl: true,
            has_atomic: true,
            persists_late: false,
            acknowledges: true,
            copies_another: false,
            sealed: false,
            keeps_values: true,
            has_subjects: true,
        },
    }
}

fn of(facts: &Facts, accept: &[&str]) -> Vec<SettingProblem> {
    setting_problems(facts, true, &accept.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>())
}

fn changed(change: impl FnOnce(&mut Facts)) -> Facts {
    let mut facts = sound();
    change(&mut facts);
    facts
}

#[test]
fn a_sound_server_has_no_finding() {
    assert_eq!(of(&sound(), &[]), []);
}

#[test]
fn each_setting_that_loses_data_is_refused_whatever_is_accepted() {
    type Change = fn(&mut Facts);
    let table: [(&str, Change); 15] = [
        ("version", |it| it.version = "2.11.9".into()),
        ("version", |it| it.version = "?".into()),
        ("api-level", |it| it.api_level = 1),
        ("no-ttl", |it| it.bucket.has_ttl = false),
        ("no-atomic", |it| it.bucket.has_atomic = false),
        ("max-age", |it| it.bucket.age_max = Some(Duration::from_secs(60))),
        ("discard-old", |it| (it.bucket.discards_old, it.bucket.bytes_max) = (true, Some(1 << 30))),
        ("discard-old", |it| (it.bucket.discards_old, it.bucket.messages_max) = (true, Some(1000))),
        ("persist-async", |it| it.bucket.persists_late = true),
        ("no-ack", |it| it.bucket.acknowledges = false),
        ("mirror", |it| it.bucket.copies_another = true),
        ("sealed", |it| it.bucket.sealed = true),
        ("retention", |it| it.bucket.keeps_values = false),
        ("subjects", |it| it.bucket.has_subjects = false),
        ("max-msg-size", |it| it.bucket.value_bytes_max = Some(1000)),
    ];
    for (name, change) in table {
        let facts = changed(change);
        for accept in [&[][..], &[name][..]] {
            let found = of(&facts, accept);
            let names: Vec<_> = found.iter().map(|problem| (problem.name, problem.severity)).collect();
            assert_eq!(names, [(name, Severity::Refused)], "accepted: {accept:?}");
        }
    }
}

#[test]
fn each_setting_that_may_lose_data_is_told_until_it_is_accepted() {
    type Change = fn(&mut Facts);
    let table: [(&str, Change); 9] = [
        ("replicas", |it| it.bucket.replicas = 1),
        ("replicas", |it| it.bucket.replicas = 2),
        ("sync-interval", |it| it.bucket.in_memory = false),
        ("max-payload", |it| it.payload_bytes_max = 1 << 20),
        ("max-payload", |it| it.bucket.value_bytes_max = Some(100_000)),
        ("history", |it| it.bucket.history = Some(64)),
        ("history", |it| it.bucket.history = None),
        ("duplicate-window", |it| it.bucket.duplicate_window = Duration::from_secs(121)),
        ("no-tls", |it| it.encrypted = false),
    ];
    for (name, change) in table {
        let facts = changed(change);
        let names: Vec<_> = of(&facts, &[]).iter().map(|problem| (problem.name, problem.severity)).collect();
        assert_eq!(names, [(name, Severity::Warned)]);
        assert_eq!(of(&facts, &[name]), [], "{name}");
    }
}

#[test]
fn a_server_that_forgets_keys_is_refused_until_that_is_accepted() {
    for (version, is_refused) in [
        ("2.12.6", false),
        ("2.12.7", true),
        ("2.12.10", true),
        ("v2.12.8-RC.1", true),
        ("2.12.11", false),
        ("2.14.0", false),
    ] {
        let on_disk = changed(|it| {
            it.version = version.into();
            it.bucket.in_memory = false;
        });
        let refused = |accept: &[&str]| of(&on_disk, accept).iter().any(|it| it.severity == Severity::Refused);
        assert_eq!(refused(&[]), is_refused, "{version}");
        assert!(!refused(&["stale-index"]), "{version}");
        assert_eq!(of(&changed(|it| it.version = version.into()), &[]), [], "memory has no index: {version}");
    }
}

#[test]
fn a_bucket_in_memory_has_to_be_asked_for() {
    let found = setting_problems(&sound(), false, &BTreeSet::from(["memory".to_owned()]));
    assert_eq!(found.iter().map(|problem| problem.name).collect::<Vec<_>>(), ["memory"]);
}

#[test]
fn refusals_come_first_and_say_what_to_do() {
    let facts = changed(|it| {
        it.bucket.replicas = 1;
        it.bucket.age_max = Some(Duration::from_secs(1));
    });
    let told: Vec<String> = of(&facts, &[]).iter().map(ToString::to_string).collect();
    assert_eq!(told[0], "max-age: resources vanish by their age; set `max_age` to 0");
    assert!(told[1].starts_with("replicas: one server has the bucket"), "{told:?}");
}

#[test]
fn versions_are_compared_by_number() {
    assert_eq!(ServerVersion::parse("2.9.10"), Some(ServerVersion(2, 9, 10)));
    assert!(ServerVersion::parse("2.9.10") < ServerVersion::parse("2.12.0"));
    for wrong in ["", "2", "2.12", "a.b.c", "2.12.x"] {
        assert_eq!(ServerVersion::parse(wrong), None, "{wrong}");
    }
}

/// The manual has a table of the names, for operators who accept a warning.
#[test]
fn the_manual_names_every_check() {
    let manual = include_str!("../../../../docs/stores.md");
    let rows = manual.lines().skip_while(|line| !line.starts_with("| name | what it means |")).skip(2);
    let rows: Vec<&str> = rows.take_while(|line| line.starts_with('|')).collect();
    let of_manual = |severity: &str| {
        let rows =
            rows.iter().filter(|row| row.split('|').nth(3).is_some_and(|cell| cell.trim().starts_with(severity)));
        let names = rows.flat_map(|row| row.split('|').nth(1).unwrap().split('`').skip(1).step_by(2));
        names.collect::<BTreeSet<_>>()
    };
    let bad = BucketFacts {
        replicas: 2,
        in_memory: false,
        history: None,
        age_max: Some(Duration::from_secs(60)),
        bytes_max: Some(1 << 30),
        messages_max: None,
        discards_old: true,
        value_bytes_max: Some(1000),
        duplicate_window: Duration::from_secs(600),
        has_ttl: false,
        has_atomic: false,
        persists_late: true,
        acknowledges: false,
        copies_another: true,
        sealed: true,
        keeps_values: false,
        has_subjects: false,
    };
    let of_version = |version: &str| Facts {
        version: version.into(),
        api_level: 1,
        payload_bytes_max: 1 << 20,
        encrypted: false,
        local: false,
        bucket: bad.clone(),
    };
    let small = changed(|it| it.payload_bytes_max = 1 << 20);
    let in_memory = changed(|it| it.bucket.in_memory = true);
    let all = [of_version("2.11.0"), of_version("2.12.8"), small, in_memory];
    let found: Vec<SettingProblem> =
        all.iter().flat_map(|facts| setting_problems(facts, false, &BTreeSet::new())).collect();
    for (severity, word) in [(Severity::Refused, "refused"), (Severity::Warned, "warning")] {
        let names: BTreeSet<_> =
            found.iter().filter(|problem| problem.severity == severity).map(|problem| problem.name).collect();
        assert_eq!(of_manual(word), names, "{word}");
    }
}
