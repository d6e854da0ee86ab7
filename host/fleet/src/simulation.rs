//! Simulations of a fleet in virtual time. The leases, the shards and the placement are the real ones; the
//! store, the network, the clocks and the workers are models. The shards of a run do not change.
//!
//! Clocks differ by up to one percent in their rate, and by any amount in their time. Hosts are paused beyond
//! their leases, cut off, crashed, drained and replaced. Messages are slow, lost and delivered twice; the
//! store is restarted, and people delete records.
//!
//! Leases have different loads, which waver by a tenth. Their holders measure them, and a lease that moved has ten times
//! as much to do at first.
//!
//! A seed determines everything. The campaign `fleet` runs many of them, and prints the seed and the last trace lines of
//! a run that breaks a promise.

#![allow(clippy::unwrap_used, reason = "a simulation that cannot go on fails")]

// No crate of the host depends on those of the tests.
#[allow(dead_code, unreachable_pub, reason = "it is also a crate of its own, with other users")]
#[path = "../../../tests/testing/src/dice.rs"]
mod dice;
mod host;
mod store;
#[cfg(test)]
mod tests;
mod world;

use self::world::World;
pub use self::world::{Mutation, Outcome};

/// Runs a seed: four minutes with faults, and seven without. A mutation makes a part of the fleet wrong.
pub fn run(seed: u64, mutation: Option<Mutation>) -> Outcome {
    World::run(seed, mutation)
}
