//! Turns signals into an orderly end: the first asks for it, the second does not wait.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::terminal::Screen;

/// A signal that ends the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StopSignal {
    /// The terminal is gone.
    Hangup,
    /// Control-C.
    Interrupt,
    /// What service managers send.
    Terminate,
}

impl StopSignal {
    /// Returns the exit code of a process that the signal ended: 128 and its number.
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Hangup => 129,
            Self::Interrupt => 130,
            Self::Terminate => 143,
        }
    }
}

/// The signals that end the process. From the moment this exists, they no longer do so by themselves.
pub(crate) struct Signals {
    hangup: Signal,
    interrupt: Signal,
    terminate: Signal,
}

/// Lets a write beyond the bound on the size of files fail, as `ulimit -f` and systemd's `LimitFSIZE=` set it. The system would end the process
/// otherwise.
///
/// # Errors
/// When the system has no room for it.
pub(crate) fn survive_file_size_limit() -> io::Result<()> {
    // Whoever listens is of no interest: that there is a handler is, and it stays.
    signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw())).map(drop)
}

impl Signals {
    /// Takes the signals over.
    ///
    /// # Errors
    /// When the system has no room for it.
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {
            hangup: signal(SignalKind::hangup())?,
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    /// Waits for the next signal.
    ///
    /// *Cancel safety*: no signal is lost.
    pub(crate) async fn next(&mut self) -> StopSignal {
        tokio::select! {
            Some(()) = self.hangup.recv() => StopSignal::Hangup,
            Some(()) = self.interrupt.recv() => StopSignal::Interrupt,
            Some(()) = self.terminate.recv() => StopSignal::Terminate,
            else => std::future::pending().await,
        }
    }

    /// Ends the process at the next signal, whatever it is doing, with the terminal put in order.
    pub(crate) fn end_at_next(mut self, screen: Screen) {
        tokio::spawn(async move {
            let ending = self.next().await;
            screen.close();
            std::process::exit(ending.code().into());
        });
    }
}
