use std::time::SystemTime;

use homeostat_fleet::{Epoch, LeaseName};
use serde_json::json;

use super::*;
use crate::fleet::HostDescription;
use crate::fleet::roster::HeldLease;

const LENGTH: Duration = Duration::from_secs(15);
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(60 * 60);

fn moment(now: Duration) -> Moment {
    Moment { now, time: SystemTime::UNIX_EPOCH + now }
}

fn host(name: &str, renewed: Duration) -> SharingHost {
    SharingHost {
        identity: Identity::new(&format!("{name}_1")),
        is_draining: false,
        leases: Vec::new(),
        description: HostDescription { version: Some("0.1.0".to_owned()), ..HostDescription::default() },
        renewed: Some(renewed),
    }
}

fn lease(number: u32, epoch: u64, since: Duration) -> HeldLease {
    let name = LeaseName::new("web", number, 256).unwrap();
    HeldLease { name, millicores: Some(100 + number), term: Some((Epoch(epoch), since)) }
}

/// The hosts as host `a` sees them, long after its start.
fn view(hosts: Vec<SharingHost>) -> FleetView {
    FleetView { hosts, this: Identity::new("a_1"), released: BTreeSet::new(), complete_at: Duration::ZERO }
}

/// The stored resources.
#[derive(Default)]
struct HostTable(BTreeMap<String, KnownHost>);

impl HostTable {
    /// Carries a plan out. Returns the number of its steps, and when to look again.
    fn look(&mut self, view: &FleetView, now: Duration) -> (usize, Option<Duration>) {
        let Plan { steps, next } = plan(&self.0, view, &moment(now));
        for step in &steps {
            match step.clone() {
                Step::Write { name, status } => {
                    let written = Some(now);
                    let host = KnownHost { uid: String::new(), revision: Revision::ZERO, status, written };
                    self.0.insert(name, host);
                }
                Step::Delete { name } => drop(self.0.remove(&name).unwrap()),
            }
        }
        (steps.len(), next)
    }

    fn status(&self, name: &str) -> &Value {
        &self.0[name].status
    }

    /// Returns the state of a host, and status and reason of its condition.
    fn ready(&self, name: &str) -> [&str; 3] {
        let status = self.status(name);
        let ready = &status["conditions"][0];
        [&status["state"], &ready["status"], &ready["reason"]].map(|text| text.as_str().unwrap())
    }

    /// Forgets what this run has written, as a restart does.
    fn restart(&mut self) {
        self.0.values_mut().for_each(|host| host.written = None);
    }
}

#[test]
fn a_host_is_written_with_what_it_tells_and_what_it_holds() {
    let (mut stored, now) = (HostTable::default(), Duration::from_secs(100));
    let (b, since) = (host("b", now - Duration::from_secs(3)), Duration::from_secs(40));
    let b = SharingHost { leases: vec![lease(1, 7, since), lease(0, 8, since)], ..b };
    assert_eq!(stored.look(&view(vec![host("a", now), b]), now), (2, None));
    let time = |seconds: u64| format!("1970-01-01T00:{:02}:{:02}Z", seconds / 60, seconds % 60);
    let leases = [("web/0-of-256", 8), ("web/1-of-256", 7)]
        .map(|(name, epoch)| json!({"name": name, "epoch": epoch, "since": time(40)}));
    let ready = json!({
        "type": "Ready", "status": "True", "reason": "Active", "message": "", "lastTransitionTime": time(100),
    });
    let expected = json!({
        "identity": "b_1", "isThis": false, "state": "Active", "version": "0.1.0", "load": "0.20", "leases": leases,
        "leaseCount": 2, "heartbeat": time(97), "conditions": [ready],
    });
    assert_eq!(stored.status("b"), &expected);
    assert_eq!(stored.status("a")["isThis"], true);
}

#[test]
fn a_heartbeat_a_load_and_a_term_alone_are_written_once_a_minute() {
    let (mut stored, mut writes) = (HostTable::default(), 0);
    for second in 0..600 {
        let now = Duration::from_secs(second);
        let term = HeldLease { millicores: Some(second as u32), ..lease(0, second, now) };
        let b = SharingHost { leases: vec![term], ..host("b", now) };
        writes += stored.look(&view(vec![host("a", now), b]), now).0;
    }
    assert_eq!(writes, 20);
    // A host without a lease of its own has no heartbeat.
    let alone = || view(vec![SharingHost { renewed: None, ..host("a", Duration::ZERO) }]);
    let mut stored = HostTable::default();
    assert_eq!(stored.look(&alone(), Duration::ZERO), (1, None));
    assert_eq!(stored.look(&alone(), HOUR), (0, None));
}

#[test]
fn a_change_of_leases_or_state_is_written_at_once() {
    let (mut stored, now) = (HostTable::default(), Duration::from_secs(100));
    let with = |leases: Vec<HeldLease>, is_draining| {
        view(vec![host("a", now), SharingHost { leases, is_draining, ..host("b", now) }])
    };
    stored.look(&with(vec![lease(0, 1, now)], false), now);
    assert_eq!(stored.look(&with(vec![lease(0, 1, now)], false), now).0, 0);
    assert_eq!(stored.look(&with(vec![lease(1, 1, now)], false), now).0, 1);
    assert_eq!(stored.look(&with(vec![lease(1, 1, now)], true), now).0, 1);
    assert_eq!(stored.ready("b"), ["Draining", "True", "Draining"]);
    assert_eq!(stored.look(&with(Vec::new(), true), now).0, 1);
}

#[test]
fn a_term_keeps_its_beginning_over_a_restart_of_the_host_that_writes_it() {
    let (mut stored, now) = (HostTable::default(), Duration::from_secs(100));
    let with = |epoch, since| view(vec![SharingHost { leases: vec![lease(0, epoch, since)], ..host("a", now) }]);
    stored.look(&with(1, now), now);
    stored.restart();
    stored.look(&with(1, now + MINUTE), now + MINUTE);
    let since = |stored: &HostTable| stored.status("a")["leases"][0]["since"].as_str().unwrap().to_owned();
    assert_eq!(since(&stored), "1970-01-01T00:01:40Z");
    stored.look(&with(2, now + MINUTE), now + 2 * MINUTE);
    assert_eq!(since(&stored), "1970-01-01T00:02:40Z");
}

#[test]
fn a_host_that_is_gone_is_shown_for_an_hour() {
    let now = Duration::from_secs(100);
    for (is_released, reason) in [(true, "LeaseReleased"), (false, "LeaseExpired")] {
        let mut stored = HostTable::default();
        let b = SharingHost { leases: vec![lease(0, 1, now)], ..host("b", now) };
        stored.look(&view(vec![host("a", now), b]), now);
        let released: BTreeSet<String> = is_released.then(|| "b".to_owned()).into_iter().collect();
        let left = |now| FleetView { released: released.clone(), ..view(vec![host("a", now)]) };
        assert_eq!(stored.look(&left(now), now), (1, Some(HOUR)));
        assert_eq!(stored.ready("b"), ["Gone", "False", reason]);
        let shown = stored.status("b");
        assert_eq!(
            (&shown["version"], &shown["leases"], &shown["leaseCount"]),
            (&json!("0.1.0"), &json!([]), &json!(0))
        );
        assert_eq!((&shown["load"], &shown["heartbeat"]), (&Value::Null, &json!("1970-01-01T00:01:40Z")));
        stored.restart();
        let later = now + HOUR - MINUTE;
        assert_eq!(stored.look(&left(now), later).1, Some(MINUTE));
        assert!(stored.0.contains_key("b"));
        stored.look(&left(now), now + HOUR);
        assert!(!stored.0.contains_key("b"));
        // A host that comes back is a host again.
        stored.look(&view(vec![host("a", now), host("b", now)]), now + HOUR);
        assert_eq!(stored.ready("b"), ["Active", "True", "Active"]);
    }
}

#[test]
fn a_host_that_a_restarted_host_has_not_seen_yet_is_not_gone() {
    let (mut stored, now) = (HostTable::default(), Duration::from_secs(100));
    stored.look(&view(vec![host("a", now), host("b", now)]), now);
    stored.restart();
    let early = FleetView { complete_at: now + LENGTH, ..view(vec![host("a", now)]) };
    assert_eq!(stored.look(&early, now), (0, Some(LENGTH)));
    assert_eq!(stored.ready("b"), ["Active", "True", "Active"]);
    stored.look(&early, now + LENGTH);
    assert_eq!(stored.ready("b"), ["Gone", "False", "LeaseExpired"]);
}

/// A host that got another name, or runs on a copy of the store of another one.
#[test]
fn the_former_name_of_this_host_is_gone_at_once() {
    let (mut stored, now) = (HostTable::default(), Duration::from_secs(100));
    stored.look(&view(vec![host("a", now)]), now);
    stored.restart();
    let this = Identity::new("c_1");
    stored.look(&FleetView { this, complete_at: now + LENGTH, ..view(vec![host("c", now)]) }, now);
    assert_eq!((stored.ready("a")[0], &stored.status("a")["isThis"]), ("Gone", &json!(false)));
    assert_eq!(stored.status("c")["isThis"], true);
}

#[test]
fn at_most_256_leases_of_a_host_are_listed_and_all_are_counted() {
    let (mut stored, now) = (HostTable::default(), Duration::ZERO);
    let db = |number| HeldLease { name: LeaseName::new("db", number, 100).unwrap(), ..lease(number, 1, now) };
    let leases = (0..256).map(|number| lease(number, 1, now)).chain((0..100).map(db)).collect();
    stored.look(&view(vec![SharingHost { leases, ..host("a", now) }]), now);
    let status = stored.status("a");
    assert_eq!((status["leases"].as_array().unwrap().len(), &status["leaseCount"]), (256, &json!(356)));
}

#[test]
fn at_most_1024_hosts_have_a_resource_and_those_that_are_gone_give_way() {
    let (mut stored, mut now) = (HostTable::default(), Duration::from_secs(100));
    let some = |from: usize, count: usize| {
        let others = (from..from + count).map(|number| host(&format!("h{number:04}"), Duration::ZERO));
        view(others.chain([host("z", Duration::ZERO)]).collect())
    };
    let of_z = |view: FleetView| FleetView { this: Identity::new("z_1"), ..view };
    stored.look(&of_z(some(0, 2000)), now);
    assert!(stored.0.len() == HOSTS_MAX && stored.0.contains_key("z") && stored.0.contains_key("h1022"));
    // Ten others instead: all the former ones are gone, and the bound still holds.
    now += MINUTE;
    stored.look(&of_z(some(5000, 10)), now);
    stored.look(&of_z(some(5000, 10)), now);
    assert_eq!(stored.0.len(), HOSTS_MAX);
    let gone = stored.0.values().filter(|host| document::is_gone(&host.status)).count();
    assert_eq!(gone, HOSTS_MAX - 11);
}

#[test]
fn of_two_runs_with_one_name_the_later_one_is_shown() {
    let (mut stored, now) = (HostTable::default(), Duration::from_secs(100));
    let run =
        |number: u32, renewed| SharingHost { identity: Identity::new(&format!("b_{number}")), ..host("b", renewed) };
    stored.look(&view(vec![host("a", now), run(1, now), run(2, now - LENGTH), run(3, Duration::ZERO)]), now);
    assert_eq!(stored.status("b")["identity"], "b_1");
}

#[test]
fn a_holder_whose_name_no_resource_can_have_has_none() {
    let (mut stored, now) = (HostTable::default(), Duration::ZERO);
    let names = ["b", "b.c-1", "", "-b", "b-", "B", "b..c", "b/c", "b c", "\u{e9}"];
    stored.look(&view(names.map(|name| host(name, now)).into()), now);
    assert_eq!(Vec::from_iter(stored.0.keys()), ["b", "b.c-1"]);
    assert!(!is_resource_name(&"x".repeat(254)) && is_resource_name(&"x".repeat(253)));
}
