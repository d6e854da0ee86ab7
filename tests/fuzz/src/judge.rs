//! Judges one input: in a thread, with a time limit, and with panics caught.

#[cfg(test)]
mod tests;

use std::any::Any;
use std::panic::{self, RefUnwindSafe};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::target::{Acceptance, Outcome};

/// An input hangs after so many times its time limit.
const WAIT_FACTOR: u32 = 30;
/// The stack of the thread, in bytes, as large as that of the host's threads.
const STACK_BYTES: usize = 2 << 20;

/// The verdict on an input.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The property held.
    Passed(Acceptance),
    /// The property did not hold, for this reason.
    Broken(String),
    /// The target panicked, with this message.
    Panicked(String),
    /// It exceeded its time limit twice.
    Slow(Duration),
    /// It never ended.
    Hung,
}

/// A thread that judges one input after the other.
#[derive(Debug)]
pub(crate) struct Judge {
    inputs: SyncSender<Vec<u8>>,
    verdicts: Receiver<(Verdict, Duration)>,
    time_max: Duration,
}

impl Judge {
    /// Starts a judge that runs `target` on each input, with the time limit `time_max`.
    pub(crate) fn start(
        target: impl Fn(&[u8]) -> Outcome + Send + RefUnwindSafe + 'static,
        time_max: Duration,
    ) -> Result<Self> {
        let (inputs, next) = sync_channel::<Vec<u8>>(1);
        let (sender, verdicts) = sync_channel(1);
        thread::Builder::new().stack_size(STACK_BYTES).spawn(move || {
            while let Ok(input) = next.recv() {
                let from = Instant::now();
                let verdict = judge(&target, &input);
                if sender.send((verdict, from.elapsed())).is_err() {
                    return;
                }
            }
        })?;
        Ok(Self { inputs, verdicts, time_max })
    }

    /// Judges one input. After [`Verdict::Hung`] the judge cannot be used any more.
    pub(crate) fn judge(&self, input: &[u8]) -> Verdict {
        let (verdict, time) = self.once(input);
        if time <= self.time_max || verdict == Verdict::Hung {
            return verdict;
        }
        // Once may be due to other load on the machine.
        match self.once(input) {
            (Verdict::Passed(_), again) if again > self.time_max => Verdict::Slow(again.min(time)),
            (verdict, _) => verdict,
        }
    }

    fn once(&self, input: &[u8]) -> (Verdict, Duration) {
        if self.inputs.send(input.to_vec()).is_err() {
            return (Verdict::Hung, self.time_max);
        }
        match self.verdicts.recv_timeout(self.time_max * WAIT_FACTOR) {
            Ok(verdict) => verdict,
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => (Verdict::Hung, self.time_max),
        }
    }
}

fn judge(target: &(impl Fn(&[u8]) -> Outcome + RefUnwindSafe), input: &[u8]) -> Verdict {
    match panic::catch_unwind(|| target(input)) {
        Ok(Ok(held)) => Verdict::Passed(held),
        Ok(Err(why)) => Verdict::Broken(why),
        Err(payload) => Verdict::Panicked(words(&*payload)),
    }
}

fn words(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_else(|| "without words".to_owned())
}
