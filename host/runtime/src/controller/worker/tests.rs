use std::sync::Arc;

use super::work;
use crate::controller::Controller;
use crate::scheduler::Quantum;

/// Returns the size of the future of such a function.
fn size_of_future<F: Future>(_: impl FnOnce(Arc<Controller>, Quantum) -> F) -> usize {
    size_of::<F>()
}

#[test]
fn a_worker_that_waits_for_a_key_keeps_no_memory_for_a_reconcile() {
    let bytes = size_of_future(work);
    assert!(bytes <= 1024, "{bytes} bytes, and each controller has four workers");
}
