//! Helpers that the tests of every crate share: waits for a state, reproducible random numbers, and measurements of
//! memory.
//!
//! Deliberately absent: types of the host. So every crate can have this one as a dev-dependency, the lowest one
//! included, without a second copy of its own types in its unit tests. Keys, documents and stores are in
//! `tests/fixtures`.

mod dice;
mod memory;
mod wait;

pub use dice::Dice;
pub use memory::{alone, grows_by_at_most, with_slack};
pub use wait::{
    BOUND, BUILD_BOUND, eventually, eventually_blocking, eventually_built, eventually_equal, soon, until, within,
};
