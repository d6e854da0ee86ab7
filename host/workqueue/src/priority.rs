//! The five priority bands.

use std::fmt;

/// The priority band of a key. There are five, in order; inside each, keys are served first come, first
/// served.
///
/// The default is [`Priority::NORMAL`]. Larger is more urgent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Priority(Band);

/// An enum instead of a number, so that the compiler stores `Option<(…, Priority)>` without an extra byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Band {
    Lowest,
    Low,
    #[default]
    Normal,
    High,
    Highest,
}

impl Priority {
    /// Work that yields to all other work.
    pub const LOWEST: Priority = Priority(Band::Lowest);
    /// The first list, resync, and the requeue of every key after a swap.
    pub const LOW: Priority = Priority(Band::Low);
    /// Changes.
    pub const NORMAL: Priority = Priority(Band::Normal);
    /// Changes that a person waits for.
    pub const HIGH: Priority = Priority(Band::High);
    /// Keys that a person named; [`expedite`](crate::Queue::expedite) moves keys here.
    pub const HIGHEST: Priority = Priority(Band::Highest);
    /// All bands, lowest first.
    pub const ALL: [Priority; 5] =
        [Priority::LOWEST, Priority::LOW, Priority::NORMAL, Priority::HIGH, Priority::HIGHEST];

    /// Returns the band's number, 0 (lowest) to 4 (highest): its place in [`Priority::ALL`].
    pub fn index(self) -> usize {
        self.0 as usize
    }

    /// Returns the band's name, as it appears in listings and metric labels.
    pub fn as_str(self) -> &'static str {
        match self.0 {
            Band::Lowest => "lowest",
            Band::Low => "low",
            Band::Normal => "normal",
            Band::High => "high",
            Band::Highest => "highest",
        }
    }
}

impl fmt::Display for Priority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bands_are_ordered_and_numbered_alike() {
        for (number, band) in Priority::ALL.into_iter().enumerate() {
            assert_eq!(band.index(), number);
        }
        assert!(Priority::ALL.is_sorted());
        assert_eq!(Priority::default(), Priority::NORMAL);
        assert_eq!(Priority::HIGHEST.to_string(), "highest");
    }
}
