use std::time::Duration;

use homeostat_fleet::{Epoch, Identity, Record, Version};

use super::record::{LeaseRecord, RecordContent, content};

fn of(headers: &[(&str, &'static str)], payload: &str) -> RecordContent {
    let header = |name: &str| headers.iter().find(|(own, _)| *own == name).map(|(_, value)| *value);
    content(41, header, payload.as_bytes())
}

const FORMAT: (&str, &str) = ("Homeostat-Format", "1");

#[test]
fn a_record_without_an_epoch_has_the_sequence_of_the_fence_behind_it() {
    let record = LeaseRecord {
        holder_identity: Some("a_1".to_owned()),
        lease_duration_seconds: 15,
        acquire_time: String::new(),
        renew_time: String::new(),
        lease_transitions: 3,
        preferred_holder: None,
        epoch: None,
        description: None,
    };
    let mut expected = Record {
        version: Version(41),
        holder: Some(Identity::new("a_1")),
        epoch: Epoch(42),
        length: Duration::from_secs(15),
        preferred_holder: None,
        transitions: 3,
        description: None,
    };
    assert_eq!(of(&[FORMAT], &record.encode()), RecordContent::Present(expected.clone()));
    let renewed = LeaseRecord { epoch: Some(7), ..record };
    expected.epoch = Epoch(7);
    assert_eq!(of(&[FORMAT], &renewed.encode()), RecordContent::Present(expected));
}

#[test]
fn a_record_of_another_format_or_program_is_left_alone() {
    let long = format!(r#"{{"leaseDurationSeconds":1,"holderIdentity":"{}"}}"#, "x".repeat(513));
    for (format, payload) in [
        ("2", r#"{"leaseDurationSeconds":15}"#),
        ("1", "free"),
        ("1", "{}"),
        ("1", r#"{"leaseDurationSeconds":-1}"#),
        ("1", long.as_str()),
    ] {
        let found = of(&[("Homeostat-Format", format)], payload);
        assert!(matches!(found, RecordContent::Unreadable(_)), "{payload}: {found:?}");
    }
    assert!(matches!(of(&[], r#"{"leaseDurationSeconds":15}"#), RecordContent::Unreadable(_)));
}

#[test]
fn the_mark_of_a_deletion_is_no_record() {
    for mark in [("KV-Operation", "DEL"), ("KV-Operation", "PURGE"), ("Nats-Marker-Reason", "MaxAge")] {
        assert_eq!(of(&[mark, FORMAT], ""), RecordContent::Absent, "{mark:?}");
    }
}
