//! client-go's leader election, as a process, and two of them against a host without a cluster.

use std::process::Stdio;
use std::time::{Duration, SystemTime};

use homeostat_testing::{eventually_blocking, soon};
use homeostat_tests::{HostProcess, elector};
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

/// An elector of client-go, as a process.
pub(crate) struct Elector {
    lines: Lines<BufReader<ChildStdout>>,
    input: ChildStdin,
    process: Child,
    /// When it held the lease.
    from: Option<SystemTime>,
}

/// The settings of client-go: shorter times than its defaults.
const ELECTION: [&str; 6] = ["--lease-duration", "4s", "--renew-deadline", "2500ms", "--retry-period", "500ms"];

impl Elector {
    /// Starts an elector with these further arguments for its client.
    pub(crate) fn start(server: &str, client: &[&str], namespace: &str, name: &str, identity: &str) -> Self {
        let mut command = Command::new(elector());
        command.args(["--server", server]).args(client);
        command.args(["--namespace", namespace, "--name", name, "--identity", identity]).args(ELECTION);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
        // Another test process may build it right now.
        let mut process = eventually_blocking("the elector to start", || match command.spawn() {
            Err(error) if error.kind() == std::io::ErrorKind::ExecutableFileBusy => None,
            process => Some(process.unwrap()),
        });
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        Self { lines, input: process.stdin.take().unwrap(), process, from: None }
    }

    /// Waits for an event, and returns its line and its time.
    pub(crate) async fn until(&mut self, event: &str) -> (Value, SystemTime) {
        loop {
            let line = soon(self.lines.next_line()).await.unwrap().expect("the elector goes on");
            let line: Value = serde_json::from_str(&line).unwrap();
            let at = SystemTime::UNIX_EPOCH + Duration::from_nanos(line["at"].as_u64().unwrap());
            if line["event"] == event {
                return (line, at);
            }
        }
    }

    /// Waits until it sees a holder.
    pub(crate) async fn sees(&mut self, leader: &str) {
        while self.until("leader").await.0["leader"] != leader {}
    }

    /// Waits until it holds the lease.
    pub(crate) async fn leads(&mut self) {
        self.from = Some(self.until("started").await.1);
    }

    /// Lets it release the lease. Returns the time for which it held the lease.
    pub(crate) async fn release(mut self) -> (SystemTime, SystemTime) {
        self.input.write_all(b"release\n").await.unwrap();
        let until = self.until("stopped").await.1;
        (self.from.unwrap(), until)
    }

    /// Kills it. Returns the time for which it held the lease.
    pub(crate) async fn kill(mut self) -> (SystemTime, SystemTime) {
        self.process.kill().await.unwrap();
        (self.from.unwrap(), SystemTime::now())
    }
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
async fn electors_of_client_go_take_turns_at_a_lease_of_a_host() {
    tokio::task::spawn_blocking(elector).await.unwrap();
    let folders = [TempDir::new().unwrap(), TempDir::new().unwrap()];
    let host = HostProcess::start_on_port("http", folders[0].path(), folders[1].path(), &[], &[]);
    let start = |identity: &str| Elector::start(host.server(), &[], "default", "web", identity);
    let mut first = start("one");
    first.leads().await;
    let mut second = start("two");
    second.sees("one").await;
    let of_first = first.release().await;
    second.leads().await;
    let mut third = start("three");
    third.sees("two").await;
    let of_second = second.kill().await;
    third.leads().await;
    let of_third = third.release().await;
    let spans = [of_first, of_second, of_third];
    assert!(spans.windows(2).all(|pair| pair[0].1 <= pair[1].0), "no two hold it at once: {spans:?}");
}
