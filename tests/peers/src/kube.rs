//! kube-rs, as far as it is public: its scheduler as a queue, its applier as a loop.

pub(crate) mod loops;
pub(crate) mod queue;
