use std::collections::BTreeMap;

use proptest::prelude::*;

use super::{ConsumerLoss, ConsumerMachine, Delivery, DeliveryKind, delivery_of};

fn delivery(consumer: u64, sequence: u64, pending: u64) -> Delivery {
    Delivery { consumer, sequence, pending }
}

#[test]
fn a_list_ends_when_the_server_says_that_nothing_is_pending_after_the_last_delivery() {
    let mut machine = ConsumerMachine::listing(20, false);
    assert_eq!(machine.delivery(delivery(1, 4, 1)), Ok(DeliveryKind::Listed));
    assert_eq!(machine.delivery(delivery(2, 9, 0)), Ok(DeliveryKind::Listed));
    assert_eq!(pending(&mut machine, 2, 1), Ok(None), "a value moved at the moment of the delivery");
    assert_eq!(machine.delivery(delivery(3, 12, 0)), Ok(DeliveryKind::Listed));
    assert_eq!(pending(&mut machine, 3, 0), Ok(Some(20)));
    assert!(!machine.is_listing());
    assert_eq!(machine.delivery(delivery(4, 21, 0)), Ok(DeliveryKind::Changed));
}

#[test]
fn a_list_in_which_a_value_moved_shows_its_new_place() {
    let mut machine = ConsumerMachine::listing(5, false);
    assert_eq!(machine.delivery(delivery(1, 2, 1)), Ok(DeliveryKind::Listed));
    assert_eq!(machine.delivery(delivery(2, 8, 0)), Ok(DeliveryKind::Listed));
    assert_eq!(pending(&mut machine, 2, 0), Ok(Some(8)));
}

#[test]
fn an_empty_list_ends_with_what_the_server_says_is_pending() {
    assert_eq!(pending(&mut ConsumerMachine::listing(5, false), 0, 0), Ok(Some(5)));
    assert_eq!(pending(&mut ConsumerMachine::listing(5, true), 0, 0), Ok(Some(5)));
    assert_eq!(pending(&mut ConsumerMachine::listing(5, false), 0, 3), Ok(None));
}

#[test]
fn a_list_whose_last_value_vanished_ends_when_nothing_is_pending() {
    let mut machine = ConsumerMachine::listing(5, false);
    assert_eq!(machine.delivery(delivery(1, 2, 1)), Ok(DeliveryKind::Listed));
    assert_eq!(pending(&mut machine, 1, 0), Ok(Some(5)));
    assert_eq!(pending(&mut machine, 1, 0), Ok(None), "a list ends once");
}

#[test]
fn a_list_ends_with_the_deliveries_that_were_on_their_way_when_nothing_was_pending() {
    let mut machine = ConsumerMachine::listing(5, false);
    assert_eq!(machine.delivery(delivery(1, 2, 1)), Ok(DeliveryKind::Listed));
    assert_eq!(pending(&mut machine, 2, 0), Ok(None));
    assert_eq!(machine.delivery(delivery(2, 8, 3)), Ok(DeliveryKind::Listed), "others were written since");
    assert_eq!(machine.end_of_list(None), Some(8));
    assert_eq!(machine.delivery(delivery(3, 9, 2)), Ok(DeliveryKind::Changed));
}

#[test]
fn a_list_waits_for_the_values_that_its_replica_lacks() {
    let mut machine = ConsumerMachine::listing(9, false);
    assert_eq!(machine.delivery(delivery(1, 4, 0)), Ok(DeliveryKind::Listed));
    machine.pending(1, 0).expect("in order");
    assert!(machine.is_delivered() && machine.may_lack_values());
    assert_eq!(machine.end_of_list(Some(7)), None, "the leader has a value that was written before the list");
    assert!(!machine.is_delivered());
    assert_eq!(machine.delivery(delivery(2, 7, 0)), Ok(DeliveryKind::Listed));
    machine.pending(2, 0).expect("in order");
    assert_eq!(machine.end_of_list(Some(10)), Some(9), "a later value is a change");
    assert_eq!(machine.delivery(delivery(3, 10, 0)), Ok(DeliveryKind::Changed));
}

#[test]
fn a_list_of_an_exact_revision_is_lost_with_the_first_later_value() {
    let mut machine = ConsumerMachine::listing(5, true);
    assert_eq!(machine.delivery(delivery(1, 5, 1)), Ok(DeliveryKind::Listed));
    assert_eq!(machine.delivery(delivery(2, 6, 0)), Err(ConsumerLoss::Later));
    let mut machine = ConsumerMachine::listing(5, true);
    assert_eq!(machine.delivery(delivery(1, 3, 0)), Ok(DeliveryKind::Listed));
    assert_eq!(pending(&mut machine, 1, 0), Ok(Some(5)));
    assert_eq!(machine.delivery(delivery(2, 6, 0)), Ok(DeliveryKind::Changed));
}

#[test]
fn a_missing_delivery_is_noticed_by_the_next_one_and_by_a_heartbeat() {
    let mut machine = ConsumerMachine::following(10);
    assert_eq!(machine.delivery(delivery(1, 11, 0)), Ok(DeliveryKind::Changed));
    assert_eq!(machine.clone().delivery(delivery(3, 13, 0)), Err(ConsumerLoss::Delivery));
    assert_eq!(machine.heartbeat(2, 12), Err(ConsumerLoss::Delivery));
}

#[test]
fn a_bucket_that_went_back_is_noticed() {
    let mut machine = ConsumerMachine::following(10);
    assert_eq!(machine.clone().delivery(delivery(1, 10, 0)), Err(ConsumerLoss::Order));
    assert_eq!(machine.delivery(delivery(1, 11, 0)), Ok(DeliveryKind::Changed));
    assert_eq!(machine.clone().heartbeat(0, 11), Err(ConsumerLoss::Order));
    assert_eq!(pending(&mut machine, 0, 0), Err(ConsumerLoss::Order));
}

#[test]
fn a_heartbeat_tells_how_far_everything_was_delivered() {
    let mut machine = ConsumerMachine::following(10);
    assert_eq!(machine.heartbeat(0, 15), Ok(Some(15)));
    assert_eq!(machine.heartbeat(0, 15), Ok(None));
    assert_eq!(machine.heartbeat(0, 12), Ok(None), "a consumer that starts later than the bucket ends");
    assert_eq!(ConsumerMachine::listing(5, false).heartbeat(0, 15), Ok(None), "a list has not ended");
}

#[test]
fn a_sequence_without_values_before_it_is_passed_once() {
    let mut machine = ConsumerMachine::following(10);
    assert_eq!(machine.delivery(delivery(1, 11, 0)), Ok(DeliveryKind::Changed));
    assert_eq!(machine.passed(15), Some(15));
    assert_eq!(machine.passed(15), None);
    assert_eq!(machine.through(), 15);
    assert_eq!(ConsumerMachine::listing(5, false).passed(15), None, "a list has not ended");
}

#[test]
fn both_forms_of_a_reply_subject_are_read() {
    let wanted = Some(delivery(2, 6, 5));
    assert_eq!(delivery_of("$JS.ACK.KV_B.c1.1.6.2.1795340709470444950.5"), wanted);
    assert_eq!(delivery_of("$JS.ACK.hub.AB12.KV_B.c1.1.6.2.1795340709470444950.5"), wanted);
    assert_eq!(delivery_of("$JS.ACK._.AB12.KV_B.c1.1.6.2.1795340709470444950.5.random"), wanted);
    for wrong in [
        "",
        "$JS.ACK.",
        "_INBOX.a",
        "$JS.ACK.KV_B.c1.1.6.2.1795.x",
        "$JS.ACK.KV_B.c1.1.6.2.1795",
        "$JS.ACK.a.b.KV_B.c1.1.6.2.1",
    ] {
        assert_eq!(delivery_of(wrong), None, "{wrong}");
    }
}

/// Takes an answer about pending values, and the end of the list if that is one.
fn pending(machine: &mut ConsumerMachine, consumer: u64, pending: u64) -> Result<Option<u64>, ConsumerLoss> {
    machine.pending(consumer, pending)?;
    Ok(machine.end_of_list(None))
}

/// A bucket that keeps the last value of each key, and a consumer of the last values.
#[derive(Debug, Default)]
struct Bucket {
    values: BTreeMap<u64, u8>,
    last: u64,
}

impl Bucket {
    fn put(&mut self, key: u8) {
        self.values.retain(|_, other| *other != key);
        self.last += 1;
        self.values.insert(self.last, key);
    }
}

proptest! {
    /// The replica of a consumer applies the leader's writes later, and one by one.
    #[test]
    fn a_list_of_a_replica_that_lags_has_every_key_of_the_leader(
        before in prop::collection::vec(0..8_u8, 1..20),
        applied in 0..20_usize,
    ) {
        let (mut leader, mut replica) = (Bucket::default(), Bucket::default());
        before.iter().for_each(|key| leader.put(*key));
        let mut rest = before.iter().skip(applied);
        before.iter().take(applied).for_each(|key| replica.put(*key));
        let mut machine = ConsumerMachine::listing(leader.last, false);
        let (mut at, mut number, mut seen) = (0, 0, BTreeMap::new());
        let end = loop {
            if let Some((sequence, key)) = replica.values.range(at + 1..).next() {
                (at, number) = (*sequence, number + 1);
                let pending = replica.values.range(at + 1..).count() as u64;
                machine.delivery(delivery(number, at, pending)).expect("in order");
                seen.insert(*key, at);
            }
            machine.pending(number, replica.values.range(at + 1..).count() as u64).expect("in order");
            if let Some(end) = machine.end_of_list(leader.values.range(at + 1..).next().map(|(sequence, _)| *sequence)) {
                break end;
            }
            rest.next().into_iter().for_each(|key| replica.put(*key));
        };
        prop_assert_eq!(end, leader.last);
        let expected: BTreeMap<u8, u64> = leader.values.iter().map(|(sequence, key)| (*key, *sequence)).collect();
        prop_assert_eq!(seen, expected);
    }

    /// With any writes between the deliveries, a list has every key, and shows no later state than its end.
    #[test]
    fn a_list_has_every_key_and_changes_bring_the_rest(
        before in prop::collection::vec(0..8_u8, 0..12),
        between in prop::collection::vec(prop::collection::vec(0..8_u8, 0..4), 0..30),
    ) {
        let mut bucket = Bucket::default();
        before.iter().for_each(|key| bucket.put(*key));
        let mut machine = ConsumerMachine::listing(bucket.last, false);
        let (mut at, mut number, mut seen, mut ended) = (0, 0, BTreeMap::new(), None);
        let mut writes = between.into_iter();
        if bucket.values.is_empty() {
            ended = pending(&mut machine, 0, 0).expect("in order");
        }
        loop {
            let next = bucket.values.range(at + 1..).next().map(|(sequence, key)| (*sequence, *key));
            if let Some((sequence, key)) = next {
                at = sequence;
                number += 1;
                let pending = bucket.values.range(at + 1..).count() as u64;
                machine.delivery(delivery(number, sequence, pending)).expect("in order");
                seen.insert(key, sequence);
            }
            let left = bucket.values.range(at + 1..).count() as u64;
            if let Some(revision) = pending(&mut machine, number, left).expect("in order") {
                prop_assert!(revision >= at);
                let listed: Vec<u8> = seen.keys().copied().collect();
                let mut wanted: Vec<u8> = bucket.values.values().copied().collect();
                wanted.sort_unstable();
                prop_assert_eq!(listed, wanted);
                ended = Some(revision);
            }
            match writes.next() {
                Some(keys) => keys.into_iter().for_each(|key| bucket.put(key)),
                None if next.is_none() => break,
                None => {}
            }
        }
        prop_assert!(ended.is_some());
        let wanted: BTreeMap<u8, u64> = bucket.values.iter().map(|(sequence, key)| (*key, *sequence)).collect();
        prop_assert_eq!(seen, wanted);
    }
}
