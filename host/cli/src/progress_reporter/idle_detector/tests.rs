use homeostat_runtime::QueueCounts;
use homeostat_store::Kind;

use super::*;

fn status(state: ControllerState, counts: QueueCounts, reconciles: u64) -> ControllerStatus {
    ControllerStatus {
        name: "web".into(),
        state,
        message: None,
        digest: String::new(),
        code: homeostat_runtime::CodeStatus::default(),
        generation: 1,
        answered: None,
        manages: Kind::new("apps", "v1", "Deployment"),
        watches: Vec::new(),
        concurrency: 4,
        counts,
        reconciles,
        failures: 0,
        last_swap: None,
        leases: Vec::new(),
        feeders: Vec::new(),
    }
}

#[test]
fn a_host_is_idle_when_no_key_was_due_or_running_for_long_enough() {
    let (mut calm, start) = (IdleDetector::default(), Instant::now());
    let at = |ms| start + Duration::from_millis(ms);
    let rest = [status(ControllerState::Ready, QueueCounts { waiting: 7, ..QueueCounts::default() }, 3)];
    assert!(!calm.observe(at(0), false, &rest), "reconciles ended since the first look");
    assert!(!calm.observe(at(100), false, &rest));
    assert!(!calm.observe(at(599), false, &rest));
    assert!(calm.observe(at(600), false, &rest));
}

#[test]
fn any_activity_restarts_the_wait() {
    let none = QueueCounts::default();
    for disturbance in [
        (true, status(ControllerState::Ready, none, 3)),
        (false, status(ControllerState::Syncing, none, 3)),
        (false, status(ControllerState::Ready, QueueCounts { ready: 1, ..none }, 3)),
        (false, status(ControllerState::Ready, QueueCounts { running: 1, ..none }, 3)),
        (false, status(ControllerState::Ready, none, 4)),
    ] {
        let (mut calm, start) = (IdleDetector::default(), Instant::now());
        let at = |ms| start + Duration::from_millis(ms);
        let reconciles = disturbance.1.reconciles;
        calm.observe(at(0), false, &[status(ControllerState::Ready, none, 3)]);
        calm.observe(at(10), false, &[status(ControllerState::Ready, none, 3)]);
        assert!(!calm.observe(at(400), disturbance.0, &[disturbance.1]));
        let rest = [status(ControllerState::Ready, none, reconciles)];
        assert!(!calm.observe(at(500), false, &rest));
        assert!(!calm.observe(at(999), false, &rest));
        assert!(calm.observe(at(1000), false, &rest));
    }
}

#[test]
fn hosts_with_suspended_or_no_controllers_are_idle() {
    for controllers in
        [vec![], vec![status(ControllerState::Suspended, QueueCounts { ready: 5, ..QueueCounts::default() }, 0)]]
    {
        let (mut calm, start) = (IdleDetector::default(), Instant::now());
        calm.observe(start, false, &controllers);
        assert!(calm.observe(start + IDLE_MIN, false, &controllers));
    }
}
