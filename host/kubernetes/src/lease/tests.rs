use std::time::Duration;

use homeostat_fleet::{Epoch, Identity, LeaseName, Record, Version};
use homeostat_store::Error;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::record::{LABEL, LeaseDocument, NewState, created};
use super::{kind, lease_of, record_name};

fn lease(controller: &str, shard: u32, count: u32) -> LeaseName {
    LeaseName::new(controller, shard, count).unwrap()
}

fn at(milliseconds: i64) -> Timestamp {
    Timestamp::from_millisecond(1_800_000_000_000 + milliseconds).unwrap()
}

/// Returns the document that the server makes of a written one.
fn stored(mut document: Value, version: u64) -> LeaseDocument {
    document["metadata"]["resourceVersion"] = json!(version.to_string());
    document["metadata"]["uid"] = json!("u");
    LeaseDocument::new(document).unwrap()
}

fn of_spec(spec: &Value) -> LeaseDocument {
    stored(json!({"metadata": {"name": "homeostat-web"}, "spec": spec}), 41)
}

fn held_by(holder: &Identity) -> NewState<'_> {
    NewState {
        holder: Some(holder),
        length_s: 15,
        begins_term: None,
        epoch: None,
        preferred_holder: None,
        description: None,
    }
}

#[test]
fn a_record_without_an_epoch_has_its_version_as_the_epoch_and_renewals_keep_it() {
    let (a, b) = (Identity::new("a_1"), Identity::new("b_1"));
    let begun = NewState { begins_term: Some(3), ..held_by(&a) };
    let written = created(&kind().kind, "homeostat-web", "web", begun, at(500));
    assert_eq!(written["metadata"]["labels"], json!({LABEL: "web"}));
    let spec = json!({"holderIdentity": "a_1", "leaseDurationSeconds": 15, "leaseTransitions": 3,
        "acquireTime": "2027-01-15T08:00:00.500000Z", "renewTime": "2027-01-15T08:00:00.500000Z"});
    assert_eq!(written["spec"], spec);
    let first = stored(written, 41);
    let mut expected = Record {
        version: Version(41),
        holder: Some(a.clone()),
        epoch: Epoch(41),
        length: Duration::from_secs(15),
        preferred_holder: None,
        transitions: 3,
        description: None,
    };
    assert_eq!(first.record(), Ok(expected.clone()));
    let renewed = first.replaced("web", NewState { epoch: Some(Epoch(41)), ..held_by(&a) }, at(2500));
    assert_eq!(renewed["spec"]["acquireTime"], "2027-01-15T08:00:00.500000Z");
    let renewed = stored(renewed, 45);
    expected.version = Version(45);
    assert_eq!(renewed.record(), Ok(expected));
    let released = NewState { holder: None, epoch: Some(Epoch(41)), preferred_holder: Some(&b), ..held_by(&a) };
    let released = stored(renewed.replaced("web", released, at(4500)), 46);
    let record = released.record().unwrap();
    assert_eq!((record.holder, record.epoch, record.preferred_holder), (None, Epoch(41), Some(b.clone())));
    let again = stored(released.replaced("web", NewState { begins_term: Some(4), ..held_by(&b) }, at(5000)), 50);
    let record = again.record().unwrap();
    assert_eq!((record.holder, record.epoch, record.preferred_holder), (Some(b), Epoch(50), None));
}

/// client-go keeps the annotations of the document that it replaces.
#[test]
fn the_annotations_of_an_earlier_term_say_nothing_about_that_of_another_program() {
    let (a, b) = (Identity::new("a_1"), Identity::new("b_1"));
    let state = NewState { holder: None, epoch: Some(Epoch(41)), preferred_holder: Some(&b), ..held_by(&a) };
    let mut document = created(&kind().kind, "homeostat-web", "web", state, at(0));
    document["metadata"]["annotations"]["homeostat.dev/format"] = json!("2");
    let unknown = stored(document.clone(), 44).record().unwrap_err();
    assert!(unknown.contains("format"), "{unknown}");
    document["spec"] = json!({"holderIdentity": "other", "leaseDurationSeconds": 5, "leaseTransitions": 9,
        "acquireTime": "2027-01-15T08:00:07.000000Z", "renewTime": "2027-01-15T08:00:07.000000Z"});
    let record = stored(document, 45).record().unwrap();
    assert_eq!((record.epoch, record.preferred_holder), (Epoch(45), None));
    assert_eq!((record.holder, record.length), (Some(Identity::new("other")), Duration::from_secs(5)));
}

/// client-go writes an empty holder and a length of one second.
#[test]
fn a_lease_that_client_go_released_is_free() {
    let spec = json!({"holderIdentity": "", "leaseDurationSeconds": 1, "leaseTransitions": 2,
        "acquireTime": "2027-01-15T08:00:07.000000Z", "renewTime": "2027-01-15T08:00:07.000000Z"});
    let record = of_spec(&spec).record().unwrap();
    assert_eq!((record.holder, record.transitions), (None, 2));
    assert_eq!(of_spec(&Value::Null).record().unwrap().holder, None);
    assert_eq!(of_spec(&json!({})).record().unwrap().holder, None);
}

#[test]
fn a_record_that_is_not_understood_is_refused() {
    for (spec, reason) in [
        (json!({"holderIdentity": "a"}), "no leaseDurationSeconds"),
        (json!({"holderIdentity": "x".repeat(513), "leaseDurationSeconds": 1}), "too long"),
        (json!({"holderIdentity": 7}), "invalid type"),
        (json!({"leaseTransitions": -1}), "invalid value"),
        (json!({"strategy": "OldestEmulationVersion"}), "strategy"),
        (json!("free"), "invalid type"),
    ] {
        let refused = of_spec(&spec).record().unwrap_err();
        assert!(refused.contains(reason), "{spec}: {refused}");
    }
    let mut document = created(&kind().kind, "homeostat-web", "web", held_by(&Identity::new("a_1")), at(0));
    document["metadata"]["annotations"]["homeostat.dev/epoch"] = json!("next");
    assert!(stored(document, 41).record().unwrap_err().contains("epoch"));
    for metadata in [json!({"uid": "u"}), json!({"uid": "u", "resourceVersion": "a"}), json!({"resourceVersion": "1"})]
    {
        assert!(LeaseDocument::new(json!({"metadata": metadata})).is_err(), "{metadata}");
    }
}

/// client-go compares renewals by whole seconds, and the server stores no document twice.
#[test]
fn every_write_has_the_time_of_a_later_second() {
    let a = Identity::new("a_1");
    let mut document = stored(created(&kind().kind, "homeostat-web", "web", held_by(&a), at(300)), 1);
    let mut seconds = Vec::new();
    for now in [310, 900, 4200, -5000, 4900] {
        let written = document.replaced("web", held_by(&a), at(now));
        seconds.push(written["spec"]["renewTime"].as_str().unwrap()[17..].to_owned());
        document = stored(written, 2);
    }
    assert_eq!(seconds, ["01.000000Z", "02.000000Z", "04.200000Z", "05.000000Z", "06.000000Z"]);
}

#[test]
fn a_write_keeps_what_others_wrote_into_the_document() {
    let metadata = json!({"name": "homeostat-web", "labels": {"team": "a"}, "annotations": {"note": "b"},
        "managedFields": [{}], "finalizers": ["demo.dev/hold"]});
    let document = stored(json!({"metadata": metadata, "spec": {"future": 1}}), 41);
    let written = document.replaced("web", held_by(&Identity::new("a_1")), at(0));
    assert_eq!(written["metadata"]["labels"], json!({"team": "a", LABEL: "web"}));
    assert_eq!(written["metadata"]["annotations"]["note"], "b");
    assert_eq!(written["metadata"]["finalizers"], json!(["demo.dev/hold"]));
    assert_eq!(written["spec"]["future"], 1);
    assert_eq!(written["metadata"].get("managedFields"), None);
    assert_eq!((&written["metadata"]["uid"], &written["metadata"]["resourceVersion"]), (&json!("u"), &json!("41")));
}

#[test]
fn each_lease_has_one_name_and_no_other_name_is_one() {
    for (lease, name) in [
        (lease("web", 0, 1), "homeostat-web"),
        (lease("web", 3, 16), "homeostat-web.3-of-16"),
        (lease("web-3-of-16", 0, 1), "homeostat-web-3-of-16"),
    ] {
        assert_eq!(record_name(&lease).unwrap(), name);
        assert_eq!(lease_of(name), Some(lease));
    }
    for name in [
        "web",
        "homeostat-",
        "homeostat-web.0-of-1",
        "homeostat-web.03-of-16",
        "homeostat-web.4-of-4",
        "homeostat-web.x",
        "homeostat-a.b.0-of-2",
        "homeostat-web.+3-of-16",
    ] {
        assert_eq!(lease_of(name), None, "{name}");
    }
    for controller in ["", "Web", "a.b", "a/b", &"x".repeat(64)] {
        let refused = record_name(&lease(controller, 0, 1));
        assert!(matches!(refused, Err(Error::Invalid { .. })), "{controller}");
    }
    assert_eq!(record_name(&lease(&"x".repeat(63), 255, 256)).unwrap().len(), 84);
}

#[test]
fn the_lease_of_a_host_has_a_name_of_its_own() {
    let host = |name: &str| LeaseName::new(name, 0, 1).unwrap();
    assert_eq!(record_name(&host("vm-1.host")).unwrap(), "homeostat-vm-1.host");
    for name in ["vm-1.host", "a.b.host", "web.0-of-2.host"] {
        assert_eq!(lease_of(&record_name(&host(name)).unwrap()), Some(host(name)), "{name}");
    }
    for name in ["a.b", "web.0-of-2", ".host", "A.host", "a..host"] {
        assert!(record_name(&host(name)).is_err(), "{name}");
    }
    let of_shards = LeaseName::of_shards("web");
    assert_eq!(record_name(&of_shards).unwrap(), "homeostat-web.shards");
    assert_eq!(lease_of("homeostat-web.shards"), Some(of_shards));
    assert_eq!(lease_of("homeostat-a.web.shards"), None);
    let of_rollout = LeaseName::of_rollout("web");
    assert_eq!(record_name(&of_rollout).unwrap(), "homeostat-web.rollout");
    assert_eq!(lease_of("homeostat-web.rollout"), Some(of_rollout));
    assert!(record_name(&LeaseName::new("a.host", 0, 2).unwrap()).is_err());
}
