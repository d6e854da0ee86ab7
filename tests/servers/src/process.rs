//! One run of a server, which ends with this process at the latest.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use homeostat_testing::eventually_blocking;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

/// Waits for a line, or for the end of the process that holds the other end of its input. In the second case it
/// kills the server with the ID `$0` and removes the folder `$1`. A frozen server is killed too. The server has a
/// second to die, so that it does not write to the folder again.
///
/// `PR_SET_PDEATHSIG` is no alternative: the kernel sends that signal as soon as the thread ends that started the
/// server, and a server that tests share outlives the test that needed it first.
const GUARD: &str = r#"
    trap '' HUP INT TERM
    read -r line && exit
    kill -9 "$0"
    tries=0
    while kill -0 "$0" 2>/dev/null && [ "$tries" -lt 20 ]; do tries=$((tries + 1)); sleep 0.05; done
    rm -rf "$1"
"#;

/// A running server. It is killed when this is dropped, and when the test process ends in any way.
pub(super) struct Process {
    child: Child,
    guard: Child,
}

impl Process {
    /// Starts a server. Its output goes to the end of the file `log`. If the test process ends first, `folder` is
    /// removed.
    pub(super) fn start(mut command: Command, log: &Path, folder: &Path) -> Self {
        let output = File::options().create(true).append(true).open(log).expect("files can be written");
        let both = output.try_clone().expect("files can be shared");
        command.stdin(Stdio::null()).stdout(output).stderr(both);
        let child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let mut guard = Command::new("sh");
        guard.args(["-c", GUARD, &child.id().to_string()]).arg(folder);
        guard.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        Self { child, guard: guard.spawn().expect("a shell starts") }
    }

    /// Returns whether it has not ended by itself.
    pub(super) fn is_running(&mut self) -> bool {
        self.child.try_wait().expect("it is our child").is_none()
    }

    /// Returns its ID.
    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Stops the process as SIGSTOP does: its sockets stay open, and it answers nothing. Returns when it stands
    /// still.
    pub(super) fn freeze(&self) {
        self.signal(Signal::STOP);
        eventually_blocking("the server to stop", || {
            let id = WaitId::Pid(Pid::from_child(&self.child));
            waitid(id, WaitIdOptions::STOPPED | WaitIdOptions::NOHANG).expect("it is our child")
        });
    }

    /// Lets a frozen process go on.
    pub(super) fn thaw(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("it is our child");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already.
        drop(self.child.kill());
        drop(self.child.wait());
        // After this line the guard ends, and kills nobody.
        if let Some(input) = &mut self.guard.stdin {
            drop(input.write_all(b"over\n"));
        }
        drop(self.guard.wait());
    }
}

/// The output of all runs of a server, in a file.
pub(super) struct Log(PathBuf);

impl Log {
    pub(super) fn new(path: PathBuf) -> Self {
        Self(path)
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    pub(super) fn text(&self) -> String {
        fs::read(&self.0).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
    }

    /// Returns the last lines.
    pub(super) fn end(&self) -> String {
        let text = self.text();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(40)..].join("\n")
    }
}

#[cfg(test)]
mod tests;
