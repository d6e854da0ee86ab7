//! The clock and the randomness of a store, as a trait, so that simulations can supply their own.

use std::time::SystemTime;

use uuid::Uuid;

/// Clock, uids and random suffixes for the decisions of a store.
pub trait ClockAndIds: Send + Sync + 'static {
    /// Returns the time of day, for `creationTimestamp`, `deletionTimestamp` and the age of history. It may
    /// go back.
    fn now(&self) -> SystemTime;

    /// Returns a uid that was never returned before, for a new resource or a new store.
    fn uid(&self) -> String;

    /// Returns the five characters at the end of a generated name: lower-case letters and digits.
    fn suffix(&self) -> String;
}

/// The clock and the randomness of the operating system.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClockAndIds;

/// Characters of generated names: no vowels, so that no words appear.
const SUFFIX_ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

impl ClockAndIds for SystemClockAndIds {
    fn now(&self) -> SystemTime {
        SystemTime::now()
    }

    fn uid(&self) -> String {
        Uuid::new_v4().to_string()
    }

    fn suffix(&self) -> String {
        // The last five bytes are random; modulo 27 is uneven by less than a tenth.
        let bytes = Uuid::new_v4().into_bytes();
        bytes[11..].iter().map(|byte| char::from(SUFFIX_ALPHABET[usize::from(*byte) % SUFFIX_ALPHABET.len()])).collect()
    }
}
