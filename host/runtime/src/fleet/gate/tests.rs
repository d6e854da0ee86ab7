use std::sync::Arc;
use std::time::Duration;

use homeostat_fleet::{Epoch, LeaseName};
use tokio::time::{self, Instant};

use super::{GateChanges, ShardGate};
use crate::fleet::{Fleet, FleetOptions};

const TERM: Duration = Duration::from_secs(10);

/// A gate on the paused clock of the test.
fn gate() -> (Arc<ShardGate>, Fleet) {
    let start = Instant::now();
    let clock = Arc::new(move || start.elapsed() + Duration::from_secs(1));
    let fleet = Fleet { clock, ..Fleet::new(FleetOptions::new(Some("a"), FleetOptions::LENGTH_DEFAULT)) };
    let lease = LeaseName::new("web", 0, 1).unwrap();
    (Arc::new(ShardGate::new(lease, &fleet, GateChanges::default())), fleet)
}

fn begin(gate: &ShardGate, fleet: &Fleet) {
    gate.set_until(Some((fleet.clock)() + TERM));
    gate.open(Epoch(7), None);
}

#[tokio::test(start_paused = true)]
async fn a_worker_enters_only_while_the_term_lasts() {
    let (gate, fleet) = gate();
    assert!(gate.enter().is_none() && gate.fence().is_err());
    begin(&gate, &fleet);
    assert!(gate.enter().is_some() && gate.fence().is_ok());
    // No event says that the machine has slept.
    time::advance(TERM).await;
    assert!(gate.enter().is_none() && gate.fence().is_err() && gate.epoch().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_draining_gate_lets_workers_finish_and_no_other_one_in() {
    let (gate, fleet) = gate();
    begin(&gate, &fleet);
    let pass = gate.enter().unwrap();
    gate.drain();
    assert!(gate.enter().is_none());
    assert!(gate.fence().is_ok(), "the worker inside may write");
    assert!(time::timeout(TERM / 2, gate.wait_for_quiet()).await.is_err());
    drop(pass);
    time::timeout(TERM / 2, gate.wait_for_quiet()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_loss_of_a_lease_aborts_the_workers_and_refuses_their_writes() {
    let (gate, fleet) = gate();
    begin(&gate, &fleet);
    let pass = gate.enter().unwrap();
    gate.abort();
    time::timeout(TERM, pass.lost()).await.unwrap();
    assert!(gate.fence().is_err());
    // A worker of the next term is not aborted by the former one.
    drop(pass);
    begin(&gate, &fleet);
    let pass = gate.enter().unwrap();
    assert!(time::timeout(TERM / 2, pass.lost()).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_gate_counts_the_processor_time_of_the_workers_that_have_left() {
    let (gate, fleet) = gate();
    begin(&gate, &fleet);
    let (mut one, mut other) = (gate.enter().unwrap(), gate.enter().unwrap());
    one.note(Duration::from_millis(3));
    other.note(Duration::from_millis(4));
    assert_eq!(gate.spent(), Duration::ZERO);
    drop(one);
    assert_eq!(gate.spent(), Duration::from_millis(3));
    // The sum goes on after the lease is lost: a meter takes differences.
    gate.abort();
    drop(other);
    begin(&gate, &fleet);
    drop(gate.enter().unwrap());
    assert_eq!(gate.spent(), Duration::from_millis(7));
}

#[tokio::test(start_paused = true)]
async fn a_gate_is_not_quiet_while_a_write_may_be_on_its_way() {
    let (gate, fleet) = gate();
    begin(&gate, &fleet);
    gate.mark_unanswered();
    let before = Instant::now();
    gate.wait_for_quiet().await;
    assert!(before.elapsed() >= fleet.times.in_flight_max);
}
