//! Our side: the queue alone, the loop of a whole host, the layers of one reconcile, the store with its API,
//! stores that are far away, the density of controllers in a process, swaps, and fleets.

pub(crate) mod api_server;
pub(crate) mod busy_neighbour;
pub(crate) mod crowd;
pub(crate) mod density;
pub(crate) mod first;
pub(crate) mod fleet;
pub(crate) mod fleet_host;
pub(crate) mod flight;
pub(crate) mod host;
pub(crate) mod idle;
pub(crate) mod languages;
pub(crate) mod loops;
pub(crate) mod neighbours;
pub(crate) mod queue;
pub(crate) mod store;
pub(crate) mod stores;
pub(crate) mod swap;
pub(crate) mod tax;
