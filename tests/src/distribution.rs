//! The Distribution project's registry as a process.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use homeostat_servers::distribution_registry;
use homeostat_testing::eventually_blocking;
use serde_json::{Value, json};

use crate::process::PipeReader;

/// The log message before the port on which the registry listens.
const LISTENING: &str = "listening on 127.0.0.1:";

/// A registry by another project. It is killed when this is dropped.
pub struct Distribution {
    child: Child,
    port: u16,
    /// Read while it runs, so that the registry never blocks on its log.
    _log: PipeReader,
}

impl Distribution {
    /// Starts a registry that stores its content in `folder` and allows everything to everybody, on a free
    /// port.
    ///
    /// # Panics
    /// When it cannot be built or started.
    pub fn start(folder: &Path) -> Self {
        Self::start_for(folder, &Value::Null)
    }

    /// Starts the same with the authentication `auth`, that part of its configuration.
    ///
    /// # Panics
    /// When it cannot be built or started.
    pub fn start_for(folder: &Path, auth: &Value) -> Self {
        let mut configuration = json!({
            "version": "0.1",
            "storage": { "filesystem": { "rootdirectory": folder.join("kept") }, "delete": { "enabled": true } },
            "http": { "addr": "127.0.0.1:0" },
        });
        if !auth.is_null() {
            configuration["auth"] = auth.clone();
        }
        // JSON is valid YAML.
        Self::start_with(folder, &configuration.to_string())
    }

    /// Starts a registry with this configuration, which must make it listen on loopback, on a free port.
    ///
    /// # Panics
    /// When it cannot be built or started.
    pub fn start_with(folder: &Path, configuration: &str) -> Self {
        let file = folder.join("registry.yaml");
        fs::write(&file, configuration).expect("files can be written");
        let mut command = Command::new(distribution_registry());
        command.arg("serve").arg(&file).current_dir(folder).env_clear().env("OTEL_TRACES_EXPORTER", "none");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the registry starts");
        let log = PipeReader::of(child.stderr.take().expect("it is piped"));
        let port = eventually_blocking("the registry to listen", || {
            let text = log.text();
            let ended = child.try_wait().expect("it is our child");
            assert!(ended.is_none(), "the registry ended with {ended:?}: {text}");
            let (_, rest) = text.split_once(LISTENING)?;
            let (port, _) = rest.split_once('"')?;
            port.parse().ok()
        });
        Self { child, port, _log: log }
    }

    /// Returns the reference of an artifact in it: `end` is its repository with a tag or a digest.
    pub fn reference(&self, end: &str) -> String {
        format!("127.0.0.1:{}/{end}", self.port)
    }

    /// Returns its port.
    pub fn port(&self) -> u16 {
        self.port
    }
}

impl Drop for Distribution {
    fn drop(&mut self) {
        // It may have ended already.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
