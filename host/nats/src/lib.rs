//! Resources that live in a bucket of NATS JetStream, and messages of other programs for feeders.
//!
//! [`Bucket`] is the bucket without a cache; [`NatsStore`] is the store of a host. Any number of hosts can
//! share a bucket: each write is decided by `homeostat_store::semantics` on the state that the host knows,
//! and the server stores it only if this state is still the last one.
//!
//! Read in this order: [`settings`], `subject`, `codec`, `write` and `write::attempt`, `follow` and
//! `follow::machine`, then `state` and `bucket`.
//!
//! Deliberately absent: the key-value module and the ordered consumer of the client library. The first loses
//! the TTL of a key that is created over a marker, and both hide a bucket that was replaced. This crate opens
//! no files, but the client reads those that [`settings::Tls`] names.

mod bucket;
mod checks;
mod codec;
mod connection;
mod errors;
mod fenced_writes;
mod follow;
mod foreign;
mod lease;
mod messages;
mod pattern;
mod protocol;
mod read;
mod refused_writes;
pub mod settings;
mod state;
mod subject;
mod watermarks;
mod write;

use std::sync::Arc;

use homeostat_store::Result;
use homeostat_store::cached::{CachedStore, Options};
use homeostat_store::schema::Schemas;

pub use self::bucket::Bucket;
pub use self::checks::{SettingProblem, Severity};
pub use self::messages::{
    Acknowledgement, MessageClient, MessageOrigin, MessageReceipt, MessageStream, ReceivedMessage,
};
pub use self::settings::BucketSettings;

/// The store of a host: a [`Bucket`] behind a cache.
pub type NatsStore = CachedStore;

/// Opens the store of a bucket, and returns at once: the first calls wait for the servers. `schemas`
/// validates what is written.
///
/// # Errors
/// `Invalid` for the settings ([`BucketSettings::check`]).
///
/// # Panics
/// When called outside of a tokio runtime with time.
pub fn open(settings: BucketSettings, schemas: Schemas, cache: Options) -> Result<NatsStore> {
    let bucket = Bucket::new(settings, schemas, Arc::clone(&cache.clock))?.used_before(cache.accepted.is_some());
    Ok(CachedStore::start(Arc::new(bucket), cache))
}
