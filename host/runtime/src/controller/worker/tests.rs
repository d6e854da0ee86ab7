use std::sync::Arc;

use super::{Workers, work};
use crate::controller::Controller;
use crate::scheduler::Quantum;

/// Returns the size of the future of such a function.
fn size_of_future<F: Future>(_: impl FnOnce(Arc<Controller>, Quantum) -> F) -> usize {
    size_of::<F>()
}

#[test]
fn a_waiting_worker_holds_no_memory_for_a_reconcile() {
    let bytes = size_of_future(work);
    assert!(bytes <= 1024, "{bytes} bytes, and each controller has four workers");
}

#[test]
fn the_number_of_workers_follows_the_setting() {
    let workers = Workers::default();
    assert_eq!(workers.missing(4), 4);
    assert_eq!(workers.missing(4), 0);
    assert!(workers.leave_if_surplus(2));
    assert!(workers.leave_if_surplus(2));
    assert!(!workers.leave_if_surplus(2), "two are wanted and two run");
    assert_eq!(workers.missing(3), 1);
}
