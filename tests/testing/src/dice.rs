//! A seeded pseudo-random generator. Source: splitmix64, by Steele, Lea and Flood, 2014.

/// A stream of numbers. The same seed gives the same numbers.
#[derive(Debug, Clone)]
pub struct Dice(u64);

impl Dice {
    /// Starts the stream of a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Starts one of the streams of a seed: that of a cycle, or of an input.
    pub fn stream(seed: u64, stream: u64) -> Self {
        Self(Self::new(seed).number() ^ stream.wrapping_mul(0xA24B_AED4_963E_E407))
    }

    /// Returns the next number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number from 0 to below `bound`; 0 when `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.number() % bound.max(1)
    }

    /// Returns a number from 0 to below `bound`, to index with; 0 when `bound` is 0.
    pub fn index(&mut self, bound: usize) -> usize {
        usize::try_from(self.below(bound as u64)).unwrap_or(0)
    }

    /// Returns one of several items; `None` if there are none.
    pub fn one<'a, T>(&mut self, of: &'a [T]) -> Option<&'a T> {
        of.get(self.index(of.len()))
    }

    /// Returns true in `cases` of a hundred cases.
    pub fn percent(&mut self, cases: u64) -> bool {
        self.below(100) < cases
    }
}
