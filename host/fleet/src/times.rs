//! The times of a lease, and the rule that keeps two holders apart.

#[cfg(test)]
mod tests;

use std::time::Duration;

/// The most by which the rate of a clock may differ from true time, in percent.
pub const DRIFT_PERCENT: u32 = 1;

/// The longest lease. A host that reads a longer one in a record waits this long.
pub const LENGTH_MAX: Duration = Duration::from_secs(60 * 60);

/// The times of a lease.
///
/// The names and defaults are those of client-go's leader election: `LeaseDuration` 15 s, `RenewDeadline` 10
/// s and `RetryPeriod` 2 s.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Times {
    /// Other hosts take the lease when its record has not changed for this time.
    pub length: Duration,
    /// The holder stops this time after it sent the last acknowledged renewal.
    pub renew_deadline: Duration,
    /// The time between two renewals, and between two looks of a host that waits.
    pub retry_period: Duration,
    /// A request without an answer counts as lost after this time.
    pub request_timeout: Duration,
    /// The longest time for which a write can be on its way to the store when its sender has stopped.
    pub in_flight_max: Duration,
}

/// A mistake in the times of a lease.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TimesError {
    /// Another host could begin before the holder has stopped.
    #[error(
        "the renew deadline {deadline:?} is too long: with a length of {length:?}, clocks that differ and writes on \
             their way leave {max:?}"
    )]
    Deadline {
        /// The deadline.
        deadline: Duration,
        /// The length of the lease.
        length: Duration,
        /// The longest deadline for this length.
        max: Duration,
    },
    /// One lost renewal would end the lease.
    #[error(
        "the renew deadline {deadline:?} has no room for two renewals: a retry period of {period:?} and a request \
             timeout of {timeout:?} need {min:?}"
    )]
    Period {
        /// The deadline.
        deadline: Duration,
        /// The retry period.
        period: Duration,
        /// The timeout of a request.
        timeout: Duration,
        /// The shortest deadline for these.
        min: Duration,
    },
    /// The lease is longer than [`LENGTH_MAX`].
    #[error("the length {0:?} is above an hour")]
    Length(Duration),
}

impl Default for Times {
    fn default() -> Self {
        Self::of_length(Self::LENGTH_DEFAULT)
    }
}

impl Times {
    /// The default length. Source: client-go.
    pub const LENGTH_DEFAULT: Duration = Duration::from_secs(15);

    /// The longest timeout of a request, and the longest wait after one without an answer, for long leases.
    const ANSWER_WAIT_MAX: Duration = Duration::from_secs(10);

    const LOAD_WINDOW_MAX: Duration = Duration::from_secs(60);

    /// Returns times in the proportions of the defaults for a lease of this length. A request of a long lease waits no
    /// longer for its answer than that of a lease of 50 s.
    pub fn of_length(length: Duration) -> Self {
        let part = |fifteenths: u32| length * fifteenths / 15;
        Self {
            length,
            renew_deadline: part(10),
            retry_period: part(2),
            request_timeout: part(3).min(Self::ANSWER_WAIT_MAX),
            in_flight_max: part(4),
        }
    }

    /// Returns the longest renew deadline that keeps two holders apart.
    ///
    /// The holder's clock may be slow and the other host's clock fast. So the holder stops, in true time, at
    /// most `deadline / 0.99` after the renewal was sent. Its last write arrives `in_flight_max` later.
    /// Another host begins at least `length / 1.01` after that renewal.
    pub fn renew_deadline_max(&self) -> Duration {
        let earliest = self.length * 100 / (100 + DRIFT_PERCENT);
        earliest.saturating_sub(self.in_flight_max) * (100 - DRIFT_PERCENT) / 100
    }

    /// Returns the wait after a request without an answer.
    pub fn error_wait(&self) -> Duration {
        (self.retry_period / 2).min(Self::ANSWER_WAIT_MAX)
    }

    /// Returns how long members and holders stay the same before a lease moves: 30 s with the defaults.
    pub fn settle_time(&self) -> Duration {
        self.length * 2
    }

    /// Returns the time over which the load of a lease is measured: a minute with the defaults and with longer leases.
    pub fn load_window(&self) -> Duration {
        (self.length * 4).min(Self::LOAD_WINDOW_MAX)
    }

    /// Returns the time between the end of a term and the moment at which another host may begin.
    pub fn margin(&self) -> Duration {
        self.length.saturating_sub(self.renew_deadline)
    }

    /// Checks that two holders are kept apart, and that one lost renewal does not end a term.
    ///
    /// # Errors
    /// [`TimesError`] names the first mistake.
    pub fn check(&self) -> Result<(), TimesError> {
        let Self { length, renew_deadline: deadline, retry_period: period, request_timeout: timeout, .. } = *self;
        if length > LENGTH_MAX {
            return Err(TimesError::Length(length));
        }
        let max = self.renew_deadline_max();
        if deadline > max {
            return Err(TimesError::Deadline { deadline, length, max });
        }
        // A renewal that is lost, a look at the record, and the renewal after it.
        let min = period * 5 / 4 + timeout + period;
        if period.is_zero() || timeout.is_zero() || deadline < min {
            return Err(TimesError::Period { deadline, period, timeout, min });
        }
        Ok(())
    }
}
