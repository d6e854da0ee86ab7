//! Our side: the queue alone, the loop of a whole host, and the layers of one reconcile.

pub(crate) mod beside;
pub(crate) mod host;
pub(crate) mod loops;
pub(crate) mod queue;
pub(crate) mod tax;
