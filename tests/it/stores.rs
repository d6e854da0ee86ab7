//! Stores whose resources a server keeps, against the real servers, and hosts with several stores.

mod cluster_moves;
mod clusters;
mod contents;
mod faults;
mod garbage;
pub(crate) mod hosts;
mod kubernetes;
mod kubernetes_leases;
mod kubernetes_suite;
mod lease_host;
mod mixed;
mod moves;
mod nats;
mod nats_faults;
mod nats_fences;
mod nats_foreign;
mod nats_identity;
mod nats_lanes;
mod nats_leases;
mod nats_metadata;
mod nats_suite;
mod random;
mod restored;
mod roles;
mod routing;
mod unused_kinds;
