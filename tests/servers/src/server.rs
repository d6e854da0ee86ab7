//! A server that can be killed, frozen, and started again with the same data on the same ports.

use std::path::{Path, PathBuf};
use std::process::Command;

use homeostat_testing::eventually_built;
use parking_lot::Mutex;

use super::process::{Log, Process};

/// A real server as a process. It is killed when this is dropped, and when the test process ends.
pub struct Server {
    name: String,
    program: PathBuf,
    arguments: Vec<String>,
    /// Removed if the test process ends first.
    folder: PathBuf,
    log: Log,
    process: Mutex<Option<Process>>,
    is_ready: Box<dyn Fn() -> bool + Send + Sync>,
}

impl Server {
    /// Describes a server without starting it. `name` is that of its log file in `folder`. `is_ready` asks the
    /// server itself.
    pub(super) fn new(
        name: &str,
        program: PathBuf,
        arguments: Vec<String>,
        folder: &Path,
        is_ready: impl Fn() -> bool + Send + Sync + 'static,
    ) -> Self {
        let log = Log::new(folder.join(format!("{name}.log")));
        let (name, folder) = (name.to_owned(), folder.to_owned());
        Self { name, program, arguments, folder, log, process: Mutex::new(None), is_ready: Box::new(is_ready) }
    }

    /// Starts the server on the data that it has, and waits until it answers.
    ///
    /// # Panics
    /// When it runs already, or ends instead. The message has the end of its log.
    pub fn start(&self) {
        self.spawn();
        self.wait_until_ready();
    }

    /// Starts the server without waiting.
    ///
    /// # Panics
    /// When it runs already.
    pub fn spawn(&self) {
        let mut process = self.process.lock();
        assert!(process.is_none(), "{} runs already", self.name);
        let mut command = Command::new(&self.program);
        // No setting of the machine's user applies.
        command.args(&self.arguments).current_dir(&self.folder).env_clear().env("HOME", &self.folder);
        *process = Some(Process::start(command, self.log.path(), &self.folder));
    }

    /// Waits until the server answers.
    ///
    /// # Panics
    /// When it ends instead, or does not answer within five minutes. The message has the end of its log.
    pub fn wait_until_ready(&self) {
        eventually_built(&format!("{} to answer", self.name), || {
            assert!(self.is_running(), "{} ended; it said:\n{}", self.name, self.end_of_log());
            (self.is_ready)().then_some(())
        });
    }

    /// Kills the server with SIGKILL, and waits for its end. Connections are refused from then on.
    ///
    /// # Panics
    /// When it does not run.
    pub fn kill(&self) {
        let process = self.process.lock().take();
        drop(process.unwrap_or_else(|| panic!("{} does not run", self.name)));
    }

    /// Stops the server with SIGSTOP, and returns when it stands still: its connections stay open, new ones are
    /// accepted by the kernel, and no request is answered.
    ///
    /// # Panics
    /// When it does not run.
    pub fn freeze(&self) {
        self.with(Process::freeze);
    }

    /// Lets a frozen server go on.
    ///
    /// # Panics
    /// When it does not run.
    pub fn thaw(&self) {
        self.with(Process::thaw);
    }

    fn with(&self, act: impl FnOnce(&Process)) {
        let process = self.process.lock();
        act(process.as_ref().unwrap_or_else(|| panic!("{} does not run", self.name)));
    }

    /// Returns whether the process exists. A frozen one does.
    pub fn is_running(&self) -> bool {
        self.process.lock().as_mut().is_some_and(Process::is_running)
    }

    /// Returns the ID of the process.
    ///
    /// # Panics
    /// When it does not run.
    pub fn id(&self) -> u32 {
        let process = self.process.lock();
        process.as_ref().unwrap_or_else(|| panic!("{} does not run", self.name)).id()
    }

    /// Returns the last lines that it has said.
    pub(super) fn end_of_log(&self) -> String {
        self.log.end()
    }

    /// Returns what all runs of the server have said.
    pub fn log(&self) -> String {
        self.log.text()
    }
}
