//! What a running host serves: resources in the Kubernetes dialect, its own controllers, queues, events and logs, metrics and health.
//!
//! A request goes through four places: [`serve()`] accepts a connection and bounds it, `router` checks who may ask at all and
//! finds the handler, `path` and `params` (both pure) say what is meant, and a handler asks the [`Host`](homeostat_runtime::Host).
//! Every refusal becomes a Kubernetes `Status` document in one place, `status`.
//!
//! What is spoken of the dialect, and what is refused with the reason, stands in `docs/kubernetes.md`. `negotiate` says in which form an answer
//! is wanted; `table`, `watch`, `openapi`, `discovery`, `scale` and `events` each make one.
//!
//! Absent on purpose: authentication. That is why only loopback addresses and sockets in private folders are served. Absent
//! too: any rule about resources; the store and the runtime have them.

mod address;
mod backup;
mod controllers;
mod discovery;
mod events;
mod health;
mod listen;
mod metrics;
mod negotiate;
mod openapi;
mod params;
mod path;
mod records;
mod resources;
mod router;
mod scale;
mod serve;
mod status;
mod table;
mod watch;

pub use address::{Address, BadAddress};
pub use health::Check;
pub use metrics::Metrics;
pub use serve::{Error, Handle, Options, Served, serve};

#[cfg(test)]
mod tests;
