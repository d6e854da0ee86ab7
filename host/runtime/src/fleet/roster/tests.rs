use std::time::Duration;

use homeostat_fleet::{Epoch, Identity, LeaseName, MILLICORES_MAX, Observation, Record, Times, Version};

use super::{HOSTS_MAX, Roster, SharingHost, rank};

const LENGTH: Duration = Duration::from_secs(15);

fn held(version: u64, holder: &str) -> Observation {
    Observation::Present(Record {
        version: Version(version),
        holder: Some(Identity::new(holder)),
        epoch: Epoch(version),
        length: LENGTH,
        preferred_holder: None,
        transitions: 0,
        description: None,
    })
}

fn shard(number: u32) -> LeaseName {
    LeaseName::new("web", number, 4).unwrap()
}

/// A roster with hosts `a` and `b`, which saw four shards of `a` at a time.
fn roster(now: Duration) -> Roster {
    let mut roster = Roster::new(&Times::default(), 1000);
    for (version, host) in [(1, "a"), (2, "b")] {
        roster.observe(now, &LeaseName::of_host(host), &held(version, &format!("{host}_1")));
    }
    for number in 0..4 {
        roster.add(&shard(number));
        roster.observe(now, &shard(number), &held(10, "a_1"));
    }
    roster
}

#[test]
fn a_host_that_does_not_renew_is_no_member() {
    let roster = roster(Duration::ZERO);
    assert_eq!(roster.members(LENGTH / 2).len(), 2);
    assert!(roster.members(LENGTH).is_empty());
    assert!(roster.placed(LENGTH).iter().all(|placed| placed.holder.is_none()));
}

#[test]
fn the_first_host_of_the_ranking_tries_a_free_lease_at_once() {
    let (mut ranks, now) = (Vec::new(), Duration::ZERO);
    for host in ["a_1", "b_1"] {
        let (roster, host) = (roster(now), Identity::new(host));
        ranks.push(rank(&roster.candidates(now, &host), &host, &shard(0)));
    }
    ranks.sort_unstable();
    assert_eq!(ranks, [0, 1]);
}

#[test]
fn a_host_with_all_leases_gives_one_to_a_host_without() {
    let (mut now, a, b) = (Duration::ZERO, Identity::new("a_1"), Identity::new("b_1"));
    let (mut of_a, mut of_b) = (roster(now), roster(now));
    let mut moved = None;
    for version in 11..60 {
        now += Duration::from_secs(2);
        for roster in [&mut of_a, &mut of_b] {
            roster.observe(now, &LeaseName::of_host("a"), &held(version, "a_1"));
            roster.observe(now, &LeaseName::of_host("b"), &held(version, "b_1"));
            (0..4).for_each(|number| roster.observe(now, &shard(number), &held(version, "a_1")));
        }
        assert_eq!(of_b.next_move(now, &b), None);
        moved = moved.or(of_a.next_move(now, &a));
    }
    assert_eq!(moved.map(|it| it.to), Some(b.clone()));
    assert!(now > Times::default().settle_time());
    assert_eq!(of_a.receiver(now, &a, &shard(0)), Some(b));
}

#[test]
fn a_host_that_does_not_take_what_it_is_offered_is_offered_nothing_for_a_while() {
    let (mut now, a, b) = (Duration::ZERO, Identity::new("a_1"), Identity::new("b_1"));
    let (mut roster, mut offers, mut version) = (roster(now), Vec::new(), 10);
    for _ in 0..600 {
        now += Duration::from_secs(2);
        version += 2;
        roster.observe(now, &LeaseName::of_host("a"), &held(version, "a_1"));
        roster.observe(now, &LeaseName::of_host("b"), &held(version, "b_1"));
        (0..4).for_each(|number| roster.observe(now, &shard(number), &held(version, "a_1")));
        if let Some(offer) = roster.next_move(now, &a) {
            assert_eq!(offer.to, b);
            let Observation::Present(record) = held(version + 1, "a_1") else { unreachable!() };
            let released = Record { holder: None, preferred_holder: Some(offer.to), ..record };
            roster.observe(now, &offer.lease, &Observation::Present(released));
            offers.push(now.as_secs() / 60);
        }
    }
    // Two, four and eight minutes after each other.
    assert_eq!(offers, [0, 2, 6, 14]);
    assert_eq!(roster.receiver(now, &a, &shard(1)), None);
}

#[test]
fn a_host_that_has_released_its_own_lease_gives_the_others_away() {
    let mut roster = roster(Duration::ZERO);
    let Observation::Present(record) = held(20, "a_1") else { unreachable!() };
    let released = Observation::Present(Record { holder: None, ..record });
    let shown = |roster: &Roster| -> Vec<(String, bool, usize)> {
        let row = |host: SharingHost| (host.identity.to_string(), host.is_draining, host.leases.len());
        roster.hosts(Duration::ZERO).into_iter().map(row).collect()
    };
    assert_eq!(shown(&roster), [("a_1".to_owned(), false, 4), ("b_1".to_owned(), false, 0)]);
    roster.observe(Duration::ZERO, &LeaseName::of_host("a"), &released);
    assert_eq!(shown(&roster), [("a_1".to_owned(), true, 4), ("b_1".to_owned(), false, 0)]);
    (0..4).for_each(|number| roster.observe(Duration::ZERO, &shard(number), &released));
    assert_eq!(shown(&roster), [("b_1".to_owned(), false, 0)]);
}

#[test]
fn a_host_that_has_released_its_own_lease_still_tells_where_it_serves() {
    let (mut roster, name) = (roster(Duration::ZERO), LeaseName::of_host("a"));
    let address = r#"{"address": "https://a:8443"}"#;
    roster.observe(Duration::ZERO, &name, &loaded(20, "a_1", address));
    let Observation::Present(record) = held(21, "a_1") else { unreachable!() };
    let released = |version| Observation::Present(Record { version: Version(version), holder: None, ..record.clone() });
    let told = |roster: &Roster| roster.last_run("a").map(|(run, told)| (run.to_string(), told.address));
    let expected = Some(("a_1".to_owned(), Some("https://a:8443".to_owned())));
    for version in [21, 22] {
        roster.observe(Duration::ZERO, &name, &released(version));
        assert_eq!(told(&roster), expected);
        assert_eq!(roster.hosts(Duration::ZERO)[0].description.address, expected.clone().unwrap().1);
    }
    roster.observe(Duration::ZERO, &name, &held(23, "a_2"));
    assert_eq!(told(&roster), Some(("a_2".to_owned(), None)));
    assert_eq!(roster.hosts(Duration::ZERO)[0].description.address, None);
    // A store may delete a record that was released, and may be emptied.
    roster.observe(Duration::ZERO, &name, &loaded(24, "a_3", address));
    roster.observe(Duration::ZERO, &name, &Observation::Absent { fence: None });
    assert_eq!(told(&roster).unwrap().0, "a_3");
    assert_eq!(roster.members(Duration::ZERO).len(), 1);
    roster.observe(Duration::ZERO, &name, &held(1, "a_4"));
    assert_eq!(told(&roster).unwrap().0, "a_4");
    assert_eq!(roster.members(Duration::ZERO).len(), 2);
}

/// The record of a lease whose holder tells its load.
fn loaded(version: u64, holder: &str, description: &str) -> Observation {
    let Observation::Present(record) = held(version, holder) else { unreachable!() };
    Observation::Present(Record { description: Some(description.into()), ..record })
}

/// Makes both hosts renew their leases for a while, and returns the lease that `a` gives away.
fn settle(roster: &mut Roster, records: &[Observation]) -> Option<LeaseName> {
    let (mut now, mut moved) = (Duration::ZERO, None);
    for version in 100..150 {
        now += Duration::from_secs(2);
        let at = |record: &Observation| {
            let Observation::Present(record) = record else { unreachable!() };
            Observation::Present(Record { version: Version(version), ..record.clone() })
        };
        roster.observe(now, &LeaseName::of_host("a"), &held(version, "a_1"));
        roster.observe(now, &LeaseName::of_host("b"), &held(version, "b_1"));
        for (number, record) in (0..).zip(records) {
            roster.observe(now, &shard(number), &at(record));
        }
        moved = moved.or(roster.next_move(now, &Identity::new("a_1")));
    }
    moved.map(|moved| moved.lease)
}

#[test]
fn a_host_with_costly_leases_gives_one_to_a_host_with_cheap_ones() {
    let with = |first: &str, second: &str| {
        [loaded(11, "a_1", first), loaded(11, "a_1", second), held(11, "b_1"), held(11, "b_1")]
    };
    let (costly, cheap) = (r#"{"cpuMillicores":400}"#, r#"{"cpuMillicores":0}"#);
    let mut known = roster(Duration::ZERO);
    (2..4).for_each(|number| known.observe(Duration::ZERO, &shard(number), &loaded(10, "b_1", cheap)));
    (2..4).for_each(|number| known.observe(Duration::ZERO, &shard(number), &loaded(11, "b_1", cheap)));
    assert!(settle(&mut known, &with(costly, costly)).is_some());
    assert_eq!(settle(&mut roster(Duration::ZERO), &with(cheap, cheap)), None);
    // Records of an earlier version have no figure: their leases count as the others.
    assert_eq!(settle(&mut roster(Duration::ZERO), &with(costly, costly)), None);
}

#[test]
fn a_lease_keeps_its_load_when_it_is_released_and_when_the_next_holder_tells_none() {
    let mut roster = roster(Duration::ZERO);
    let load = |roster: &Roster| roster.millicores(&shard(0));
    assert_eq!(load(&roster), None);
    roster.observe(Duration::ZERO, &shard(0), &loaded(20, "a_1", r#"{"cpuMillicores":350}"#));
    let Observation::Present(record) = held(21, "a_1") else { unreachable!() };
    roster.observe(Duration::ZERO, &shard(0), &Observation::Present(Record { holder: None, ..record }));
    assert_eq!(load(&roster), Some(350));
    for (version, text) in [(22, ""), (23, "{}"), (24, r#"{"cpuMillicores":-7}"#), (25, r#"{"processors":8}"#)] {
        roster.observe(Duration::ZERO, &shard(0), &loaded(version, "b_1", text));
        assert_eq!(load(&roster), Some(350), "{text}");
    }
    roster.observe(Duration::ZERO, &shard(0), &Observation::Absent { fence: None });
    assert_eq!(load(&roster), Some(350), "a person deleted the record");
    roster.observe(Duration::ZERO, &shard(0), &loaded(26, "b_1", r#"{"cpuMillicores":4294967295}"#));
    assert_eq!(load(&roster), Some(MILLICORES_MAX));
    assert_eq!(roster.placed(Duration::ZERO)[0].cost, Some(MILLICORES_MAX));
}

#[test]
fn a_host_that_replaces_the_shards_in_force_is_one_host() {
    let mut roster = roster(Duration::ZERO);
    let other = Identity::new("b_1").other(3);
    roster.observe(Duration::ZERO, &shard(0), &held(20, other.as_str()));
    let row = |host: SharingHost| (host.identity.to_string(), host.is_draining, host.leases.len());
    let rows: Vec<_> = roster.hosts(Duration::ZERO).into_iter().map(row).collect();
    assert_eq!(rows, [("a_1".to_owned(), false, 3), ("b_1".to_owned(), false, 1)]);
}

#[test]
fn an_older_record_changes_nothing() {
    let mut roster = roster(Duration::ZERO);
    roster.observe(Duration::ZERO, &shard(0), &held(9, "b_1"));
    assert_eq!(roster.placed(Duration::ZERO)[0].holder, Some(Identity::new("a_1")));
}

#[test]
fn hosts_without_end_are_not_remembered() {
    let mut roster = Roster::new(&Times::default(), 1000);
    for number in 0..3 * HOSTS_MAX as u64 {
        let name = LeaseName::of_host(&format!("h{number}"));
        roster.observe(Duration::ZERO, &name, &held(number + 1, "x_1"));
    }
    assert_eq!(roster.hosts.len(), HOSTS_MAX);
}

#[test]
fn a_term_began_when_its_first_record_was_seen() {
    let (mut roster, now) = (roster(Duration::ZERO), Duration::from_secs(9));
    let a = Identity::new("a_1");
    assert_eq!(roster.held(&shard(0), &a).term, Some((Epoch(10), Duration::ZERO)));
    let Observation::Present(record) = held(11, "a_1") else { unreachable!() };
    let renewed = Record { epoch: Epoch(10), ..record };
    roster.observe(now, &shard(0), &Observation::Present(renewed));
    assert_eq!(roster.held(&shard(0), &a).term, Some((Epoch(10), Duration::ZERO)));
    let told = roster.hosts(now).into_iter().find(|host| host.identity == a).unwrap();
    assert_eq!((told.renewed, told.leases.len()), (Some(now), 4));
    roster.observe(now, &shard(0), &held(12, "b_1"));
    assert_eq!(roster.held(&shard(0), &Identity::new("b_1")).term, Some((Epoch(12), now)));
    assert_eq!(roster.held(&shard(0), &a).term, None);
}

#[test]
fn a_host_without_a_lease_of_its_own_has_released_it() {
    let mut roster = roster(Duration::ZERO);
    assert_eq!(roster.released().count(), 0);
    let Observation::Present(record) = held(20, "a_1") else { unreachable!() };
    roster.observe(Duration::ZERO, &LeaseName::of_host("a"), &Observation::Present(Record { holder: None, ..record }));
    assert_eq!(Vec::from_iter(roster.released()), ["a"]);
}
