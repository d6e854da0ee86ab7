//! Which host of a fleet works on what: leases, shards and their placement.
//!
//! A [`Lease`] says whether this host may work, until when, and under which epoch. [`Shards`] divide the keys
//! of a controller. [`ranking`] says which host takes a free shard. A [`LoadMeter`] measures the load of a shard, and a
//! [`Balancer`] moves shards so that the load evens out.
//!
//! Safety rests on the leases and the fences of the store alone. Placement may be wrong or late, and then
//! work waits or moves once more.
//!
//! Deliberately absent: I/O, tasks and clocks. Time and randomness are arguments; the shells that talk to a
//! store are elsewhere.

mod lease;
mod load_meter;
mod placement;
mod record;
mod shards;
#[cfg(any(test, feature = "simulation"))]
pub mod simulation;
mod times;

pub use lease::{AcquireCondition, Action, Answer, Event, Lease, Request, RequestId};
pub use load_meter::{LoadMeter, MILLICORES_MAX};
pub use placement::{Balancer, Member, Move, Placement, ranking, receiver};
pub use record::{DESCRIPTION_BYTES_MAX, Epoch, Identity, Observation, Record, Version};
pub use shards::{LeaseName, SHARDS_MAX, ShardBy, Shards, ShardsError};
pub use times::{DRIFT_PERCENT, LENGTH_MAX, Times, TimesError};
