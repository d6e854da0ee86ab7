//! Random numbers from the host. In a replay, they are the recorded ones.
//!
//! A `HashMap` of the standard library needs none of them. On the target `wasm32-unknown-unknown` its order is the same in
//! each call.

/// Returns a random number.
///
/// ```no_run
/// let port = 20_000 + homeostat_sdk::random::number() % 10_000;
/// ```
#[must_use]
pub fn number() -> u64 {
    #[cfg(target_family = "wasm")]
    return wasip2::random::random::get_random_u64();
    #[cfg(not(target_family = "wasm"))]
    return native();
}

/// Returns random bytes.
#[must_use]
pub fn bytes(length: usize) -> Vec<u8> {
    let numbers = std::iter::repeat_with(number).flat_map(u64::to_le_bytes);
    numbers.take(length).collect()
}

/// Returns the keys of a new hash table, which the standard library draws at random.
#[cfg(not(target_family = "wasm"))]
fn native() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(0)
}

#[cfg(test)]
mod tests;
