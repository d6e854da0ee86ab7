use super::*;
use crate::{CloseReport, ShutdownPhase};

impl Desk {
    fn stop(&mut self) -> CloseReport<&'static str> {
        sorted(self.state.stop(self.now))
    }
}

fn sorted(mut report: CloseReport<&'static str>) -> CloseReport<&'static str> {
    report.dropped.sort_unstable();
    report
}

/// Has a waiting, a ready, a running, a dirty and a parked key.
fn full() -> Desk {
    let mut desk = Desk::new();
    desk.add("parked");
    desk.run("parked", parked());
    desk.add("running");
    desk.add("dirty");
    desk.claim();
    desk.claim();
    desk.add("dirty");
    desk.add("ready");
    desk.add_after("waiting", 50);
    desk
}

/// Q8: a closed queue refuses every key with an error.
#[test]
fn an_add_after_close_is_refused_and_not_counted() {
    let mut desk = full();
    desk.stop();
    let counters = desk.state.counters();
    for key in ["new", "ready", "running", "dirty"] {
        assert_eq!(desk.state.add(desk.now, key, Priority::NORMAL), Err(AddError::Closed));
        assert_eq!(desk.state.add_without_event(desk.now, key, Priority::NORMAL, true), Err(AddError::Closed));
    }
    assert_eq!(desk.state.add_after(desk.now, "new", ms(5), Priority::NORMAL), Err(AddError::Closed));
    assert_eq!((desk.state.counters(), desk.at("new")), (counters, None));
}

/// Q9: a stop wakes all waiting workers and drops queued keys.
#[test]
fn stop_drops_queued_keys_lets_running_ones_finish_and_reports_both() {
    let mut desk = full();
    let report = desk.stop();
    assert_eq!(report.dropped, ["ready", "waiting"]);
    assert_eq!((report.finished, report.running), (0, vec!["running", "dirty"]));
    assert_eq!((desk.claim(), desk.state.phase()), (None, ShutdownPhase::Stopped));

    assert_eq!(desk.finish("running", Next::Done).state, None);
    assert_eq!(desk.finish("dirty", Next::Done).state, None);
    let report = desk.stop();
    assert_eq!(report, CloseReport { finished: 2, dropped: vec!["dirty", "ready", "waiting"], running: vec![] });
    assert_eq!(desk.stop(), report, "twice is harmless");
    assert_eq!(desk.state.counters().dropped, 3);
}

/// Q9: a stop wakes all waiting workers and drops queued keys.
#[test]
fn after_a_stop_every_further_run_is_dropped_and_reported() {
    for next in [after(5), Next::Again, failed()] {
        let mut desk = Desk::new();
        desk.add("a");
        desk.claim();
        desk.stop();
        assert_eq!(desk.finish("a", next).state, None);
        assert_eq!(desk.stop().dropped, ["a"]);
    }
    let mut desk = Desk::new();
    desk.add("a");
    desk.claim();
    desk.stop();
    desk.give_back("a");
    assert_eq!(desk.stop(), CloseReport { finished: 0, dropped: vec!["a"], running: vec![] });
}

/// Q10: a drain waits for ready, running and dirty keys, until its deadline.
#[test]
fn a_drain_runs_ready_and_dirty_keys_and_drops_waiting_ones() {
    let mut desk = full();
    desk.state.drain(desk.now);
    assert_eq!(desk.state.phase(), ShutdownPhase::Draining);
    assert_eq!(desk.add("running"), AddOutcome::Dirty, "a change of a running key is still taken");
    assert_eq!(desk.add("ready"), AddOutcome::Merged);
    assert_eq!(desk.state.add(desk.now, "new", Priority::NORMAL), Err(AddError::Closed));
    assert_eq!(desk.state.add_after(desk.now, "ready", ms(5), Priority::NORMAL), Err(AddError::Closed));

    desk.finish("running", Next::Done);
    desk.finish("dirty", Next::Done);
    assert_eq!(desk.run_all(), ["ready", "running", "dirty"]);
    assert_eq!(desk.state.phase(), ShutdownPhase::Stopped, "it stops by itself");
    assert_eq!(desk.stop(), CloseReport { finished: 5, dropped: vec!["waiting"], running: vec![] });
}

/// Q10: a drain waits for ready, running and dirty keys, until its deadline.
#[test]
fn a_drain_waits_for_no_delay() {
    let mut desk = Desk::new();
    for key in ["after", "failed", "again"] {
        desk.add(key);
    }
    desk.state.drain(desk.now);
    desk.run("after", after(5));
    desk.run("failed", failed());
    desk.run("again", Next::Again);
    assert_eq!(desk.state.phase(), ShutdownPhase::Draining);
    desk.run("again", Next::Done);
    assert_eq!(desk.state.phase(), ShutdownPhase::Stopped);
    assert_eq!(desk.stop().dropped, ["after", "failed"]);
}

/// Q10: a drain waits for ready, running and dirty keys, until its deadline.
#[test]
fn a_drain_of_an_idle_queue_ends_at_once() {
    let mut desk = Desk::new();
    desk.add_after("a", 5);
    desk.state.drain(desk.now);
    assert_eq!((desk.state.phase(), desk.stop().dropped), (ShutdownPhase::Stopped, vec!["a"]));
}

/// Q10: a drain waits for ready, running and dirty keys, until its deadline.
#[test]
fn the_last_key_that_is_cancelled_ends_a_drain() {
    let mut desk = Desk::new();
    desk.add("a");
    desk.add("b");
    desk.state.drain(desk.now);
    desk.state.cancel(desk.now, &"a");
    assert_eq!(desk.state.phase(), ShutdownPhase::Draining);
    desk.state.postpone(desk.now, &"b", ms(5));
    assert_eq!((desk.state.phase(), desk.stop().dropped), (ShutdownPhase::Stopped, vec!["b"]));
}

/// Q10, C4: a drain waits for ready, running and dirty keys, until its deadline; a suspended controller keeps
/// events as keys and runs none.
#[test]
fn a_suspended_queue_drains_running_keys_and_drops_the_rest() {
    let mut desk = full();
    desk.state.suspend(desk.now);
    desk.state.drain(desk.now);
    desk.finish("running", Next::Done);
    assert_eq!(desk.state.phase(), ShutdownPhase::Draining);
    desk.finish("dirty", Next::Done);
    assert_eq!(desk.state.phase(), ShutdownPhase::Stopped);
    assert_eq!(desk.stop().dropped, ["dirty", "ready", "waiting"]);
}

/// Q10, C4: keys in the bands above a suspension are still run, and suspended keys are not waited for.
#[test]
fn a_queue_that_is_suspended_below_a_band_drains_those_above() {
    let mut desk = full();
    desk.add_at("urgent", Priority::HIGHEST);
    desk.state.suspend_below(desk.now, Priority::HIGHEST);
    desk.state.drain(desk.now);
    desk.finish("running", Next::Done);
    desk.finish("dirty", Next::Done);
    assert_eq!(desk.state.phase(), ShutdownPhase::Draining);
    desk.run("urgent", Next::Done);
    assert_eq!((desk.state.phase(), desk.stop().dropped), (ShutdownPhase::Stopped, vec!["dirty", "ready", "waiting"]));

    let mut desk = Desk::new();
    desk.add_at("urgent", Priority::HIGHEST);
    desk.state.suspend_below(desk.now, Priority::HIGHEST);
    desk.state.drain(desk.now);
    desk.state.prioritize(desk.now, &"urgent", Priority::NORMAL);
    assert_eq!((desk.state.phase(), desk.stop().dropped), (ShutdownPhase::Stopped, vec!["urgent"]));
}

/// Q10: a drain waits for ready, running and dirty keys, until its deadline.
#[test]
fn stop_and_abort_end_a_drain_and_an_abort_stays_one() {
    let mut desk = full();
    desk.state.drain(desk.now);
    assert_eq!(desk.stop().dropped, ["ready", "waiting"]);
    let report = sorted(desk.state.abort(desk.now));
    assert_eq!((report.running, desk.state.phase()), (vec!["running", "dirty"], ShutdownPhase::Aborted));
    desk.stop();
    desk.state.drain(desk.now);
    assert_eq!(desk.state.phase(), ShutdownPhase::Aborted);
}

#[test]
fn a_retry_does_not_queue_runs_in_a_closed_queue() {
    let mut desk = full();
    desk.stop();
    assert_eq!(desk.state.retry(desk.now, &"running"), ChangeOutcome::Unchanged);
    desk.finish("running", Next::Done);
    assert_eq!(desk.stop().dropped, ["ready", "waiting"]);
}
