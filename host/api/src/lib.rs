//! The HTTP API of a host: resources in the Kubernetes API, controllers, queues, events, logs, metrics and
//! health.
//!
//! A request passes five stages. [`serve()`] accepts the connection, `connection_timeouts` bounds it, and
//! `body_drain` drains the rest of a request body. `authentication` finds out who asks,
//! by `tokens` or `service_accounts`, and `access` authorises it, as itself or as another user (`impersonation`). `limits`
//! bounds the request, with the limiters (`limiter`) that all requests share. `router` finds the handler; `path`
//! and `params` (both pure) parse the request. The handler calls the [`Host`](homeostat_runtime::Host). Every
//! refusal becomes a Kubernetes `Status` document in one place, `status`.
//!
//! `docs/kubernetes.md` lists which parts of the Kubernetes API are served, and which are refused and why.
//! `negotiate` chooses the format of resources, and `encoder` encodes them for reads, lists and watches. `list`
//! and `watch` stream them, those of the store and those of the log of events (`events`). `openapi`, `discovery`
//! and `scale` have documents of their own.
//!
//! Other machines are served over TLS only (`tls`), and only with a token (`tokens`). Plain HTTP is served on
//! loopback addresses and on sockets in private folders.
//!
//! Questions about a controller whose leases another host holds are answered by that host: `forwarder` asks
//! it, and `merged_documents` (pure) and `merged_records` make one answer of several.
//!
//! Deliberately absent: any rule about resources themselves. The store and the runtime have those rules.

mod access;
mod address;
pub mod age;
mod authentication;
mod backup;
mod binding;
mod body;
mod body_drain;
mod caller;
mod certificate_requests;
mod check;
mod client;
mod collection;
mod connection_timeouts;
mod controllers;
mod discovery;
mod document_cache;
mod document_response;
mod duplicates;
mod encoder;
mod error;
mod event_cache;
mod event_versions;
mod event_writes;
mod events;
mod eviction;
mod field_selector;
mod forwarder;
mod health;
mod hosts;
mod impersonation;
mod inert_resources;
mod key_verbs;
mod kind_graph;
mod limiter;
mod limits;
mod list;
mod listen;
mod media_range;
mod merged_documents;
mod merged_records;
mod metrics;
mod named_document;
mod negotiate;
mod openapi;
mod options;
mod params;
mod path;
mod pod_condition;
mod pod_streams;
mod presentation;
mod private_file;
mod rbac;
mod record_stream;
mod reloading_file;
mod request;
mod resources;
mod reviews;
mod role_guard;
mod role_watch;
mod router;
mod scale;
mod selectable_fields;
mod serve;
mod service_accounts;
mod state;
mod status;
mod status_part;
mod stores;
mod table;
mod tls;
mod token_request;
mod tokens;
mod untyped;
mod warnings;
mod watch;
mod webhooks;
mod write_refusals;
mod write_warnings;
mod yaml_response;

pub use address::{Address, BadAddress};
pub use check::Check;
pub use error::Error;
pub use metrics::Metrics;
pub use options::Options;
pub use private_file::{BadFile, read as read_private};
pub use serve::{Handle, ServerBackend, serve};
pub use tls::{Certificate, SelfSignedCertificate};

#[cfg(test)]
mod tests;
