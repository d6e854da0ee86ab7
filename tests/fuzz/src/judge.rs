//! What comes of one input: in a thread of its own, under a clock, with panics caught.

use std::any::Any;
use std::panic;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::target::{Held, Target};

/// What one input may take, in time.
const TIME_MAX: Duration = Duration::from_secs(1);
/// When nobody waits for an answer any more.
const WAIT_MAX: Duration = Duration::from_secs(30);
/// The stack under a target, in bytes: as much as the threads have that readers run on in a host.
const STACK_BYTES: usize = 2 << 20;

/// What came of an input.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The law held.
    Held(Held),
    /// The law did not hold, for this reason.
    Broken(String),
    /// It panicked, with these words.
    Panicked(String),
    /// It took longer than [`TIME_MAX`], twice.
    Slow(Duration),
    /// It never ended.
    Hung,
}

/// A thread that judges inputs one after the other.
#[derive(Debug)]
pub(crate) struct Judge {
    inputs: SyncSender<Vec<u8>>,
    verdicts: Receiver<(Verdict, Duration)>,
}

impl Judge {
    /// Starts a judge. From then on no panic of the process is written to standard error.
    pub(crate) fn start(target: Target) -> Result<Self> {
        // The engine under the store panics on some damage, which the store turns into errors.
        panic::set_hook(Box::new(|_| {}));
        let (inputs, next) = sync_channel::<Vec<u8>>(1);
        let (sender, verdicts) = sync_channel(1);
        thread::Builder::new().stack_size(STACK_BYTES).spawn(move || {
            while let Ok(input) = next.recv() {
                let from = Instant::now();
                let verdict = judge(target, &input);
                if sender.send((verdict, from.elapsed())).is_err() {
                    return;
                }
            }
        })?;
        Ok(Self { inputs, verdicts })
    }

    /// Judges one input. After [`Verdict::Hung`] the judge is of no more use.
    pub(crate) fn judge(&self, input: &[u8]) -> Verdict {
        let (verdict, time) = self.once(input);
        if time <= TIME_MAX || verdict == Verdict::Hung {
            return verdict;
        }
        // A machine that was busy with something else is no finding.
        match self.once(input) {
            (Verdict::Held(_), again) if again > TIME_MAX => Verdict::Slow(again.min(time)),
            (verdict, _) => verdict,
        }
    }

    fn once(&self, input: &[u8]) -> (Verdict, Duration) {
        if self.inputs.send(input.to_vec()).is_err() {
            return (Verdict::Hung, WAIT_MAX);
        }
        match self.verdicts.recv_timeout(WAIT_MAX) {
            Ok(verdict) => verdict,
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => (Verdict::Hung, WAIT_MAX),
        }
    }
}

fn judge(target: Target, input: &[u8]) -> Verdict {
    match panic::catch_unwind(|| target.judge(input)) {
        Ok(Ok(held)) => Verdict::Held(held),
        Ok(Err(why)) => Verdict::Broken(why),
        Err(payload) => Verdict::Panicked(words(&*payload)),
    }
}

fn words(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_else(|| "without words".to_owned())
}
