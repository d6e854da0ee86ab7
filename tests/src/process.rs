//! The binary as a process: run to its end, or started and killed.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use crate::{eventually_blocking, homeostat};

/// What a process left behind.
#[derive(Debug)]
pub struct Output {
    /// Its exit code; `None` after a signal.
    pub code: Option<i32>,
    /// What it said on standard output.
    pub stdout: String,
    /// What it said on standard error.
    pub stderr: String,
}

/// Runs `homeostat` with these arguments to its end.
///
/// # Panics
/// When it cannot be started.
pub fn run(arguments: &[&str]) -> Output {
    let output = command().args(arguments).output().expect("the binary starts");
    Output {
        code: output.status.code(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// A host that runs as a process. It is killed when this is dropped.
pub struct Running {
    child: Child,
    socket: PathBuf,
    said: Arc<Mutex<String>>,
}

impl Running {
    /// Starts `homeostat VERB FOLDER` with a socket and data in `scratch`, and waits until it answers.
    ///
    /// # Panics
    /// When it ends instead.
    pub fn start(verb: &str, folder: &Path, scratch: &Path, more: &[&str]) -> Self {
        let socket = scratch.join("host.sock");
        let mut child = command()
            .arg(verb)
            .arg(folder)
            .args(["--listen", &format!("unix:{}", socket.display())])
            .args(["--data", &scratch.join("data").display().to_string()])
            .args(more)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        let said = Arc::<Mutex<String>>::default();
        collect(child.stdout.take().expect("it is piped"), said.clone());
        collect(child.stderr.take().expect("it is piped"), said.clone());
        let mut running = Self { child, socket, said };
        eventually_blocking("the host to answer", || {
            let ended = running.child.try_wait().expect("it is our child");
            assert!(ended.is_none(), "the host ended with {ended:?}:\n{}", running.said());
            (running.ask(&["get", "controllers", "-o", "name"]).code == Some(0)).then_some(())
        });
        running
    }

    /// Runs a command against this host.
    pub fn ask(&self, arguments: &[&str]) -> Output {
        let server = format!("unix:{}", self.socket.display());
        let mut all = arguments.to_vec();
        all.extend(["--server", &server]);
        run(&all)
    }

    /// Asks for JSON.
    ///
    /// # Panics
    /// When the command fails.
    pub fn json(&self, arguments: &[&str]) -> serde_json::Value {
        let output = self.ask(&[arguments, &["-o", "json"]].concat());
        assert_eq!(output.code, Some(0), "{arguments:?}: {}\n{}", output.stderr, self.said());
        serde_json::from_str(&output.stdout).expect("it is JSON")
    }

    /// Returns what the host said so far.
    ///
    /// # Panics
    /// When a thread that listens panicked.
    pub fn said(&self) -> String {
        self.said.lock().expect("no code panics while it holds the text").clone()
    }

    /// Waits until the host has said this.
    ///
    /// # Panics
    /// When it does not.
    pub fn until_said(&self, text: &str) {
        eventually_blocking(&format!("the host to say {text:?}; it said:\n{}", self.said()), || {
            self.said().contains(text).then_some(())
        });
    }

    /// Ends the process as `kill -9` does.
    ///
    /// # Panics
    /// When it cannot be waited for.
    pub fn kill(mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it is our child");
    }

    /// Asks the process to end (`SIGTERM`), waits for it, and returns its exit code and what it said.
    ///
    /// # Panics
    /// When it does not end.
    pub fn terminate(mut self) -> (Option<i32>, String) {
        let sent = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status().expect("kill starts");
        assert!(sent.success());
        let status = eventually_blocking("the host to end", || self.child.try_wait().expect("it is our child"));
        (status.code(), self.said())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn command() -> Command {
    let mut command = Command::new(homeostat());
    command.env_remove("HOMEOSTAT_SERVER").env("NO_COLOR", "1").env_remove("RUST_LOG");
    command
}

fn collect(mut from: impl Read + Send + 'static, into: Arc<Mutex<String>>) {
    std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(count @ 1..) = from.read(&mut buffer) {
            into.lock()
                .expect("no code panics while it holds the text")
                .push_str(&String::from_utf8_lossy(&buffer[..count]));
        }
    });
}
