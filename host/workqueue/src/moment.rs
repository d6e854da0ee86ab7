//! A point on the queue's monotonic clock.

use std::time::Duration;

/// A point in time: nanoseconds since an origin that the owner of the queue chose.
///
/// Arithmetic saturates at [`Moment::NEVER`], 584 years after the origin, so that no delay overflows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(u64);

impl Moment {
    /// The origin.
    pub const ZERO: Moment = Moment(0);
    /// A point that no clock reaches: an entry due then never runs.
    pub const NEVER: Moment = Moment(u64::MAX);

    /// Returns the point `delay` after the origin.
    pub fn at(delay: Duration) -> Moment {
        Moment::ZERO.after(delay)
    }

    /// Returns the point `delay` after this one, at most [`Moment::NEVER`].
    pub fn after(self, delay: Duration) -> Moment {
        let nanos = delay.as_secs().saturating_mul(1_000_000_000).saturating_add(u64::from(delay.subsec_nanos()));
        Moment(self.0.saturating_add(nanos))
    }

    /// Returns the time since `earlier`; zero when that is later.
    pub fn since(self, earlier: Moment) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    pub(crate) fn nanos(self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_never_overflows() {
        assert_eq!(Moment::ZERO.after(Duration::MAX), Moment::NEVER);
        assert_eq!(Moment::NEVER.after(Duration::from_secs(1)), Moment::NEVER);
        assert_eq!(Moment::ZERO.since(Moment::NEVER), Duration::ZERO);
    }
}
