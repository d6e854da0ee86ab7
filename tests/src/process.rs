//! The binary as a process: run to its end, or started, queried and killed.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use homeostat_testing::{BOUND, BUILD_BOUND, eventually_built, until};

use crate::artifacts::{cache_folder, edited_folder};
use crate::homeostat;

/// The exit code and output of a process.
#[derive(Debug)]
pub struct Output {
    /// Its exit code; `None` after a signal.
    pub code: Option<i32>,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
}

/// Runs `homeostat` with these arguments to its end.
///
/// # Panics
/// When it cannot be started, or does not end within five minutes.
pub fn run(arguments: &[&str]) -> Output {
    run_with(arguments, &[])
}

/// Runs `homeostat` with these arguments and environment variables to its end.
///
/// # Panics
/// When it cannot be started, or does not end within five minutes.
pub fn run_with(arguments: &[&str], environment: &[(&str, &str)]) -> Output {
    let mut command = command();
    command.args(arguments).envs(environment.iter().copied());
    Process::start(command).wait_for_exit(&format!("homeostat {arguments:?}"))
}

/// Runs `homeostat` with these arguments and umask 0 to its end.
///
/// # Panics
/// When it cannot be started, or does not end within five minutes.
pub fn run_with_open_umask(arguments: &[&str]) -> Output {
    let mut command = open(&command());
    command.args(arguments);
    Process::start(command).wait_for_exit(&format!("homeostat {arguments:?}"))
}

/// Lines of the log of a host that a test shows when it fails.
const LOG_LINES_MAX: usize = 200;

/// A host that runs as a process. It is killed when this is dropped.
pub struct HostProcess {
    process: Process,
    server: String,
    /// The options of a client, besides the server.
    client: Vec<String>,
}

impl HostProcess {
    /// Starts `homeostat VERB FOLDER` with a socket and data in `scratch`, and waits until it answers.
    ///
    /// # Panics
    /// When it ends instead.
    pub fn start(verb: &str, folder: &Path, scratch: &Path, more: &[&str]) -> Self {
        Self::spawn(verb, folder, scratch, more).until_it_answers()
    }

    /// Starts the same with umask 0.
    ///
    /// # Panics
    /// When it ends instead.
    pub fn start_with_open_umask(verb: &str, folder: &Path, scratch: &Path, more: &[&str]) -> Self {
        Self::spawned(open(&command()), verb, &socket(scratch), folder, scratch, more).until_it_answers()
    }

    /// Starts the same on a port of 127.0.0.1 that the system chooses, for plain HTTP or for `https`.
    /// `client` has the options of a client, besides the server.
    ///
    /// # Panics
    /// When it ends instead.
    pub fn start_on_port(scheme: &str, folder: &Path, scratch: &Path, more: &[&str], client: &[&str]) -> Self {
        Self::on_port(command(), scheme, folder, scratch, more, client)
    }

    /// Starts the same for plain HTTP. What its allocator has free goes back to the system at once, so that its memory can be
    /// measured.
    ///
    /// # Panics
    /// When it ends instead.
    pub fn start_measurable(folder: &Path, scratch: &Path, more: &[&str]) -> Self {
        let mut command = command();
        command.env("MIMALLOC_PURGE_DELAY", "0");
        Self::on_port(command, "http", folder, scratch, more, &[])
    }

    fn on_port(command: Command, scheme: &str, folder: &Path, scratch: &Path, more: &[&str], client: &[&str]) -> Self {
        let listen = format!("{scheme}://127.0.0.1:0");
        let mut host = Self::spawned(command, "run", &listen, folder, scratch, more);
        let start = format!(" on {scheme}://");
        host.server = eventually_built("the host to serve", || {
            let ended = host.process.child.try_wait().expect("it is our child");
            assert!(ended.is_none(), "the host ended with {ended:?}:\n{}", host.stderr());
            let stderr = host.stderr();
            let port = stderr.split_once(&start)?.1.split_once('\n')?.0.to_owned();
            Some(format!("{scheme}://{port}"))
        });
        host.client = client.iter().map(|option| (*option).to_owned()).collect();
        host.until_it_answers()
    }

    fn until_it_answers(mut self) -> Self {
        eventually_built("the host to answer", || {
            let ended = self.process.child.try_wait().expect("it is our child");
            assert!(ended.is_none(), "the host ended with {ended:?}:\n{}", self.stderr());
            (self.ask(&["get", "controllers", "-o", "name"]).code == Some(0)).then_some(())
        });
        self
    }

    /// Starts the same without waiting.
    ///
    /// # Panics
    /// When it cannot be started.
    pub fn spawn(verb: &str, folder: &Path, scratch: &Path, more: &[&str]) -> Self {
        Self::spawned(command(), verb, &socket(scratch), folder, scratch, more)
    }

    fn spawned(mut command: Command, verb: &str, listen: &str, folder: &Path, scratch: &Path, more: &[&str]) -> Self {
        command
            .arg(verb)
            .arg(folder)
            .args(["--listen", listen])
            .args(["--data", &scratch.join("data").display().to_string()])
            .args(more);
        Self { process: Process::start(command), server: listen.to_owned(), client: Vec::new() }
    }

    /// Returns the address of the host.
    pub fn server(&self) -> &str {
        &self.server
    }

    /// Writes a kubeconfig for this host on plain HTTP into a folder, and returns its path.
    ///
    /// # Panics
    /// When it cannot be written.
    pub fn kubeconfig(&self, folder: &Path) -> PathBuf {
        let text = format!(
            "apiVersion: v1\nkind: Config\nclusters: [{{name: test, cluster: {{server: \"{}\", \
             insecure-skip-tls-verify: true}}}}]\n\
             users: [{{name: user, user: {{}}}}]\n\
             contexts: [{{name: test, context: {{cluster: test, user: user}}}}]\ncurrent-context: test\n",
            self.server
        );
        let path = folder.join("kubeconfig");
        std::fs::write(&path, text).expect("files can be written");
        path
    }

    /// Runs a command against this host.
    pub fn ask(&self, arguments: &[&str]) -> Output {
        let mut all = arguments.to_vec();
        all.extend(["--server", &self.server]);
        all.extend(self.client.iter().map(String::as_str));
        run(&all)
    }

    /// Runs a command against this host with JSON output, and parses it.
    ///
    /// # Panics
    /// When the command fails.
    pub fn json(&self, arguments: &[&str]) -> serde_json::Value {
        let output = self.ask(&[arguments, &["-o", "json"]].concat());
        assert_eq!(output.code, Some(0), "{}\n{arguments:?}: {}", self.stderr(), output.stderr);
        serde_json::from_str(&output.stdout).expect("it is JSON")
    }

    /// Reads a path of the API of a host that listens on a socket. `None` unless the answer is 200 and whole.
    ///
    /// # Panics
    /// When the host listens on a port.
    pub fn read(&self, path: &str) -> Option<serde_json::Value> {
        let socket = self.server.strip_prefix("unix:").expect("the host listens on a socket");
        let mut stream = UnixStream::connect(socket).ok()?;
        stream.set_read_timeout(Some(BOUND)).ok()?;
        // HTTP 1.0 has no chunks: the answer ends with its connection.
        write!(stream, "GET {path} HTTP/1.0\r\nHost: localhost\r\nAccept: application/json\r\n\r\n").ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        let (head, body) = answer.split_once("\r\n\r\n")?;
        if head.split(' ').nth(1) == Some("200") { serde_json::from_str(body).ok() } else { None }
    }

    /// Waits until a resource exists and has the value `wanted` at a JSON pointer.
    ///
    /// # Panics
    /// When it does not within five minutes.
    pub fn until(&self, kind: &str, name: &str, pointer: &str, wanted: &serde_json::Value) {
        eventually_built(&format!("{kind}/{name}: {pointer} = {wanted}"), || {
            let output = self.ask(&["get", kind, name, "-o", "json"]);
            let document: serde_json::Value = serde_json::from_str(&output.stdout).ok()?;
            (document.pointer(pointer) == Some(wanted)).then_some(())
        });
    }

    /// Returns the process ID.
    pub fn id(&self) -> u32 {
        self.process.child.id()
    }

    /// Returns the host's standard error so far.
    pub fn stderr(&self) -> String {
        self.process.stderr.text()
    }

    /// Waits until the host's standard error contains this text.
    ///
    /// # Panics
    /// When it does not within five minutes.
    pub fn wait_for_stderr(&self, text: &str) {
        eventually_built(&format!("the host to say {text:?}"), || self.stderr().contains(text).then_some(()));
    }

    /// Kills the process with SIGKILL.
    ///
    /// # Panics
    /// When it cannot be waited for.
    pub fn kill(mut self) {
        self.process.child.kill().expect("it runs");
        self.process.child.wait().expect("it is our child");
    }

    /// Sends a signal: `TERM`, `INT`, `HUP`.
    ///
    /// # Panics
    /// When the process is gone.
    pub fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([&format!("-{name}"), &self.id().to_string()]).status();
        assert!(sent.expect("kill starts").success(), "the host is gone; it said:\n{}", self.stderr());
    }

    /// Waits for the process to end by itself.
    ///
    /// # Panics
    /// When it does not end.
    pub fn wait_for_exit(self) -> Output {
        self.process.wait_for_exit("the host")
    }

    /// Sends SIGTERM, and waits for the process to end.
    ///
    /// # Panics
    /// When it does not end.
    pub fn terminate(self) -> Output {
        self.signal("TERM");
        self.wait_for_exit()
    }
}

/// Returns the address of a host's socket in a folder.
fn socket(scratch: &Path) -> String {
    format!("unix:{}", scratch.join("host.sock").display())
}

/// A process and its output. It is killed when this is dropped.
struct Process {
    child: Child,
    stdout: PipeReader,
    stderr: PipeReader,
}

impl Process {
    fn start(mut command: Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the binary starts");
        let stdout = PipeReader::of(child.stdout.take().expect("it is piped"));
        let stderr = PipeReader::of(child.stderr.take().expect("it is piped"));
        Self { child, stdout, stderr }
    }

    /// Waits for the process to end by itself. If it does not, kills it and panics with its output. The time
    /// limit allows for building guests.
    fn wait_for_exit(mut self, what: &str) -> Output {
        let status = until(BUILD_BOUND, || self.child.try_wait().expect("it is our child"));
        let Some(status) = status else {
            panic!("{what} does not end; it said:\n{}{}", self.stdout.text(), self.stderr.text());
        };
        Output { code: status.code(), stdout: self.stdout.all(), stderr: self.stderr.all() }
    }
}

impl Drop for Process {
    #[expect(clippy::print_stderr, reason = "the harness shows it with the test that failed")]
    fn drop(&mut self) {
        // It may have ended already.
        drop(self.child.kill());
        drop(self.child.wait());
        if std::thread::panicking() {
            eprintln!("process {} said:\n{}", self.child.id(), last_lines(&self.stderr.all(), LOG_LINES_MAX));
        }
    }
}

/// The output of a pipe so far.
pub(crate) struct PipeReader {
    text: Arc<Mutex<Vec<u8>>>,
    listening: Option<JoinHandle<()>>,
}

impl PipeReader {
    pub(crate) fn of(mut pipe: impl Read + Send + 'static) -> Self {
        let text = Arc::<Mutex<Vec<u8>>>::default();
        let into = text.clone();
        let listening = std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = pipe.read(&mut buffer) {
                into.lock().expect("no code panics while it holds the text").extend(&buffer[..count]);
            }
        });
        Self { text, listening: Some(listening) }
    }

    pub(crate) fn text(&self) -> String {
        let text = self.text.lock().expect("no code panics while it holds the text");
        String::from_utf8_lossy(&text).into_owned()
    }

    /// Waits until the other end of the pipe is closed, and returns everything.
    fn all(&mut self) -> String {
        if let Some(listening) = self.listening.take() {
            listening.join().expect("nothing panics while it listens");
        }
        self.text()
    }
}

fn last_lines(text: &str, count_max: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(count_max)..].join("\n")
}

/// The log level of hosts is that of `HOMEOSTAT_TEST_LOG`, in the words of `RUST_LOG`.
#[expect(clippy::disallowed_methods, reason = "a test has no command line of its own")]
fn command() -> Command {
    let mut command = Command::new(homeostat());
    command.env_remove("HOMEOSTAT_SERVER").env("NO_COLOR", "1").env_remove("RUST_LOG");
    if let Some(level) = std::env::var_os("HOMEOSTAT_TEST_LOG") {
        command.env("RUST_LOG", level);
    }
    // The target folder of `dev`: kept between runs, and separate from the tests' own builds.
    command.env("CARGO_TARGET_DIR", edited_folder());
    command.env("XDG_CACHE_HOME", cache_folder());
    command
}

/// Returns a command that does the same with umask 0.
fn open(inner: &Command) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", "umask 000; exec \"$0\" \"$@\""]).arg(inner.get_program());
    for (name, value) in inner.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command
}
