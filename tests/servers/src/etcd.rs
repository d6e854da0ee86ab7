//! etcd, of the version that this Kubernetes wants, as one server without TLS on loopback.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::http::{Answer, Request};
use super::ports::ReservedPort;
use super::server::Server;
use crate::tools;

/// When a server flushes a write to the disk.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Flush {
    /// It leaves that to the operating system. The data survive the end of the process, not that of the machine.
    #[default]
    Never,
    /// Before it acknowledges the write, as in production.
    Always,
}

/// An etcd server.
pub struct Etcd {
    server: Server,
    client: ReservedPort,
    peer: ReservedPort,
    /// The folder of its data and its log.
    folder: PathBuf,
}

impl Etcd {
    /// Starts a server with its data and its log in `folder`.
    ///
    /// # Panics
    /// When it cannot be built or started.
    pub fn start(folder: &Path, flush: Flush) -> Self {
        let (client, peer) = (ReservedPort::new(), ReservedPort::new());
        let (client_url, peer_url) = (url(&client), url(&peer));
        let mut arguments = vec![
            format!("--data-dir={}", data(folder).display()),
            format!("--listen-client-urls={client_url}"),
            format!("--advertise-client-urls={client_url}"),
            format!("--listen-peer-urls={peer_url}"),
            format!("--initial-advertise-peer-urls={peer_url}"),
            format!("--initial-cluster=default={peer_url}"),
            "--log-level=warn".to_owned(),
        ];
        if flush == Flush::Never {
            arguments.push("--unsafe-no-fsync".to_owned());
        }
        let port = client.number();
        let is_ready = move || Request::get("/health").send(port).is_some_and(|answer| answer.status == 200);
        let server = Server::new("etcd", tools::etcd(), arguments, folder, is_ready);
        server.start();
        Self { server, client, peer, folder: folder.to_owned() }
    }

    /// Returns the server, to kill it or to freeze it.
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// Returns the port for clients.
    pub fn port(&self) -> u16 {
        self.client.number()
    }

    /// Returns the URL for clients.
    pub fn url(&self) -> String {
        url(&self.client)
    }

    /// Compacts the history up to now. A watch that an apiserver has to begin in it is answered with 410.
    ///
    /// # Panics
    /// When it does not answer.
    pub fn compact(&self) {
        let key = STANDARD.encode("/");
        let revision = self.ask("/v3/kv/range", &json!({ "key": key, "limit": 1 }))["header"]["revision"].clone();
        self.ask("/v3/kv/compaction", &json!({ "revision": revision, "physical": true }));
    }

    /// Writes a snapshot of the content to a file, as `etcdctl snapshot save` does.
    ///
    /// # Panics
    /// When it does not answer, or the file cannot be written.
    pub fn snapshot(&self, file: &Path) {
        let mut bytes = Vec::new();
        for part in self.send("/v3/maintenance/snapshot", &json!({})).text.lines() {
            let part: Value = serde_json::from_str(part).expect("each line is a part");
            let blob = part["result"]["blob"].as_str().unwrap_or_default();
            bytes.extend(STANDARD.decode(blob).expect("parts are in base64"));
        }
        fs::write(file, bytes).expect("files can be written");
    }

    /// Replaces the content by that of a snapshot, with `etcdutl snapshot restore`, while the server does not run. The
    /// next revision is this many above that of the snapshot, and all before it is compacted.
    ///
    /// # Panics
    /// When the tool cannot be built, or fails.
    pub fn restore(&self, file: &Path, bump_revisions: u64) {
        let (data, peer) = (data(&self.folder), url(&self.peer));
        fs::remove_dir_all(&data).expect("the server has data");
        let mut command = Command::new(tools::etcdutl());
        command.args(["snapshot", "restore"]).arg(file).arg("--data-dir").arg(data);
        command.arg(format!("--initial-cluster=default={peer}")).arg(format!("--initial-advertise-peer-urls={peer}"));
        command.arg(format!("--bump-revision={bump_revisions}")).arg("--mark-compacted");
        command.env_clear().current_dir(&self.folder);
        let output = command.output().expect("etcdutl starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    /// Sends a request to the JSON gateway.
    fn ask(&self, path: &str, body: &Value) -> Value {
        self.send(path, body).json()
    }

    fn send(&self, path: &str, body: &Value) -> Answer {
        let body = body.to_string();
        let request = Request { method: "POST", body: body.as_bytes(), ..Request::get(path) };
        let answer = request.send(self.client.number()).expect("etcd answers");
        assert_eq!(answer.status, 200, "{answer:?}");
        answer
    }
}

fn url(port: &ReservedPort) -> String {
    format!("http://{}", port.address())
}

/// Returns the folder of the data of a server.
fn data(folder: &Path) -> PathBuf {
    folder.join("etcd")
}
