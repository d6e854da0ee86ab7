//! The meaning of a consumer's messages: a list, its end, changes, or that something was lost.
//!
//! A consumer numbers its deliveries, so a gap shows. Its heartbeats name the last delivery and the last
//! sequence of the bucket that it has passed: everything up to there was delivered, or is about other kinds.
//!
//! A list has ended when nothing is pending, and the leader of the bucket has no value between the last delivery and
//! the sequence at the start: a consumer can be on a replica that lags behind the leader. To count to the number at the start, or to wait for the last
//! sequence at the start, is not enough: a bucket keeps the last value alone, so a value that is overwritten
//! meanwhile leaves its place, and comes later. The number of pending values in a delivery is not enough
//! either: while the server replaces a value, it counts neither the old nor the new one. So the server is
//! asked again after such a delivery.
//!
//! Source: nats-server 2.15.2, `decStreamPending` and `processStreamSignal` in `server/consumer.go`.
//!
//! Pure: one machine per consumer, which ends with its consumer.

#[cfg(test)]
mod tests;

/// The state of one consumer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ConsumerMachine {
    mode: Mode,
    /// The number of the last delivery.
    delivered: u64,
    /// The sequence up to which everything was delivered.
    through: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// Delivers the last value of each subject. The list shows `base` or later; if `exactly`, then no later
    /// value. It ends with the delivery `last`, once that is known.
    Listing { base: u64, exactly: bool, last: Option<u64> },
    /// Delivers changes.
    Following,
}

/// The place of a delivery, from its reply subject.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Delivery {
    /// Its number, from 1, without gaps.
    pub(crate) consumer: u64,
    /// The sequence of the value.
    pub(crate) sequence: u64,
    /// Values that the consumer had not delivered then.
    pub(crate) pending: u64,
}

/// The meaning of a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DeliveryKind {
    /// A value of the list.
    Listed,
    /// A change.
    Changed,
}

/// Why a consumer is of no use any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConsumerLoss {
    /// A delivery is missing.
    Delivery,
    /// The sequences went back: the bucket is another one.
    Order,
    /// The list would show a later state than it has to.
    Later,
}

impl ConsumerMachine {
    /// Starts a list of the last values. `base` is the last sequence of the bucket before the consumer was
    /// made. With `exactly` the list has to show `base` itself.
    pub(crate) fn listing(base: u64, exactly: bool) -> Self {
        Self { mode: Mode::Listing { base, exactly, last: None }, delivered: 0, through: 0 }
    }

    /// Starts with the changes after a sequence.
    pub(crate) fn following(after: u64) -> Self {
        Self { mode: Mode::Following, delivered: 0, through: after }
    }

    /// Returns whether the list goes on.
    pub(crate) fn is_listing(&self) -> bool {
        matches!(self.mode, Mode::Listing { .. })
    }

    /// Returns the sequence up to which everything was delivered.
    pub(crate) fn through(&self) -> u64 {
        self.through
    }

    /// Takes a delivery.
    ///
    /// # Errors
    /// The consumer is lost.
    pub(crate) fn delivery(&mut self, delivery: Delivery) -> Result<DeliveryKind, ConsumerLoss> {
        let Delivery { consumer, sequence, pending: _ } = delivery;
        if consumer != self.delivered + 1 {
            return Err(ConsumerLoss::Delivery);
        }
        if sequence <= self.through {
            return Err(ConsumerLoss::Order);
        }
        self.delivered = consumer;
        self.through = sequence;
        match self.mode {
            Mode::Following => Ok(DeliveryKind::Changed),
            Mode::Listing { base, exactly: true, .. } if sequence > base => Err(ConsumerLoss::Later),
            Mode::Listing { .. } => Ok(DeliveryKind::Listed),
        }
    }

    /// Takes the number of values that the server has not delivered yet, with the number of its last
    /// delivery, as it says when it is asked. That delivery may still be on its way.
    ///
    /// # Errors
    /// The consumer is lost.
    pub(crate) fn pending(&mut self, consumer: u64, pending: u64) -> Result<(), ConsumerLoss> {
        if consumer < self.delivered {
            return Err(ConsumerLoss::Order);
        }
        if let Mode::Listing { last, .. } = &mut self.mode
            && pending == 0
        {
            *last = Some(consumer);
        }
        Ok(())
    }

    /// Returns whether the consumer has delivered every value of the list that its replica has.
    pub(crate) fn is_delivered(&self) -> bool {
        matches!(self.mode, Mode::Listing { last: Some(last), .. } if last == self.delivered)
    }

    /// Returns whether the replica of the consumer can lack a value that the list has to show.
    pub(crate) fn may_lack_values(&self) -> bool {
        matches!(self.mode, Mode::Listing { base, .. } if self.through < base)
    }

    /// Returns the sequence that the list shows, if it has ended with the last delivery. `next` is the leader's first
    /// value after that delivery. If it belongs to the list, then the replica of the consumer lags, and the list goes on.
    pub(crate) fn end_of_list(&mut self, next: Option<u64>) -> Option<u64> {
        let Mode::Listing { base, last, .. } = &mut self.mode else { return None };
        if *last != Some(self.delivered) {
            return None;
        }
        if next.is_some_and(|next| next <= *base) {
            *last = None;
            return None;
        }
        self.through = self.through.max(*base);
        self.mode = Mode::Following;
        Some(self.through)
    }

    /// Takes a heartbeat, with the number of the last delivery and the last sequence that the consumer has
    /// passed. Returns the sequence up to which everything was delivered, if it is news.
    ///
    /// # Errors
    /// The consumer is lost.
    pub(crate) fn heartbeat(&mut self, consumer: u64, sequence: u64) -> Result<Option<u64>, ConsumerLoss> {
        if consumer != self.delivered {
            return Err(if consumer > self.delivered { ConsumerLoss::Delivery } else { ConsumerLoss::Order });
        }
        Ok(self.passed(sequence))
    }

    /// Takes that there is no value between the last delivery and a sequence, which the bucket has reached.
    /// Returns the sequence up to which everything was delivered, if it is news.
    pub(crate) fn passed(&mut self, sequence: u64) -> Option<u64> {
        if self.is_listing() || sequence <= self.through {
            return None;
        }
        self.through = sequence;
        Some(sequence)
    }
}

/// Reads the reply subject of a delivery: `$JS.ACK.STREAM.CONSUMER.TIMES.SEQUENCE.NUMBER.TIME.PENDING`, or
/// the longer form with a domain and the hash of an account before the stream, and a token at the end.
///
/// Source: ADR-15 of NATS.
pub(crate) fn delivery_of(reply: &str) -> Option<Delivery> {
    let tokens: Vec<&str> = reply.strip_prefix("$JS.ACK.")?.split('.').collect();
    let numbers = match tokens.len() {
        7 => &tokens[2..],
        9.. => &tokens[4..],
        _ => return None,
    };
    let number = |at: usize| numbers.get(at)?.parse::<u64>().ok();
    Some(Delivery { sequence: number(1)?, consumer: number(2)?, pending: number(4)? })
}
