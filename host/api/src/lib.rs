//! What a running host serves: resources in the Kubernetes dialect, its own controllers, queues, events and logs, metrics and health.
//!
//! A request goes through five places: [`serve()`] accepts a connection, `traffic` bounds it, and `unread` takes in what nobody read of a
//! body; `access` checks who may ask, and `limits` what that may take, of the `room` that there is for all; `router` finds the handler, `path`
//! and `params` (both pure) say what is meant, and a handler asks the [`Host`](homeostat_runtime::Host).
//! Every refusal becomes a Kubernetes `Status` document in one place, `status`.
//!
//! What is spoken of the dialect, and what is refused with the reason, stands in `docs/kubernetes.md`. `negotiate` says in which form an answer
//! is wanted; `list`, `table`, `watch`, `openapi`, `discovery`, `scale` and `events` each make one.
//!
//! What other machines reach is served in TLS (`tls`) and to those who have a token (`tokens`); plain HTTP on loopback addresses and sockets
//! in private folders alone. Absent on purpose: rules about who may do what to which resource, beside reading and writing, and any
//! rule about resources themselves; the store and the runtime have those.

mod access;
mod address;
mod backup;
mod body;
mod check;
mod client;
mod collection;
mod controllers;
mod discovery;
mod dress;
mod duplicates;
mod error;
mod events;
mod fresh;
mod health;
mod keys;
mod limits;
mod lines;
mod list;
mod listen;
mod metrics;
mod negotiate;
mod openapi;
mod options;
mod params;
mod path;
mod protobuf;
mod records;
mod request;
mod resources;
mod room;
mod router;
mod scale;
mod scrape;
mod secret;
mod serve;
mod shutdown;
mod state;
mod status;
mod table;
mod tls;
mod tokens;
mod traffic;
mod unread;
mod watch;

pub use address::{Address, BadAddress};
pub use check::Check;
pub use error::Error;
pub use metrics::Metrics;
pub use options::Options;
pub use secret::{BadFile, read as read_private};
pub use serve::{Handle, ServerBackend, serve};
pub use tls::{Certificate, SelfSignedCertificate, validity};

#[cfg(test)]
mod tests;
