//! Our side: the queue alone, the loop of a whole host, the layers of one reconcile, and the store with its API.

pub(crate) mod beside;
pub(crate) mod host;
pub(crate) mod loops;
pub(crate) mod queue;
pub(crate) mod served;
pub(crate) mod store;
pub(crate) mod tax;
