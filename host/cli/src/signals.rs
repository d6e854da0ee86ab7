//! Handles signals: the first one starts an orderly shutdown, the second one ends the process at once.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::terminal::Screen;

/// A signal that stops the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StopSignal {
    /// The terminal was closed.
    Hangup,
    /// Control-C.
    Interrupt,
    /// Sent by service managers.
    Terminate,
}

impl StopSignal {
    /// Returns the exit code of a process that the signal ended: 128 plus its number.
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Hangup => 129,
            Self::Interrupt => 130,
            Self::Terminate => 143,
        }
    }
}

/// The signals that stop the process. While handlers are installed, the system does not end the process
/// itself.
pub(crate) struct Signals {
    hangup: Signal,
    interrupt: Signal,
    terminate: Signal,
}

/// Makes writes beyond the limit on the size of files fail (`ulimit -f`, systemd's `LimitFSIZE=`). Without a
/// handler, the signal would end the process.
///
/// # Errors
/// When the handler cannot be installed.
pub(crate) fn survive_file_size_limit() -> io::Result<()> {
    // The stream can be dropped: the handler stays installed.
    signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw())).map(drop)
}

impl Signals {
    /// Installs the handlers.
    ///
    /// # Errors
    /// When a handler cannot be installed.
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

    /// Ends the process at the next signal, after restoring the terminal.
    pub(crate) fn end_at_next(mut self, screen: Screen) {
        tokio::spawn(async move {
            let ending = self.next().await;
            screen.close();
            std::process::exit(ending.code().into());
        });
    }
}
