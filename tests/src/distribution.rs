//! The Distribution project's registry as a process, and a TCP proxy that can hold up responses.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicUsize, Ordering};

use homeostat_testing::eventually_blocking;
use serde_json::{Value, json};

use crate::process::PipeReader;
use crate::tools;

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
        let mut command = Command::new(tools::distribution_registry());
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

/// A TCP proxy on a fixed port, to a server on this machine. It can hold up responses in the middle.
pub struct TcpProxy {
    port: u16,
    shared: Arc<ProxyState>,
}

struct ProxyState {
    to: AtomicU16,
    /// Bytes of responses that are still let through.
    left: AtomicUsize,
    is_held_up: AtomicBool,
}

impl TcpProxy {
    /// Starts a proxy to a port.
    ///
    /// # Panics
    /// When no port is free.
    pub fn to(port: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port is free");
        let own = listener.local_addr().expect("it listens").port();
        let (to, left) = (AtomicU16::new(port), AtomicUsize::new(usize::MAX));
        let shared = Arc::new(ProxyState { to, left, is_held_up: AtomicBool::new(false) });
        let for_all = shared.clone();
        // The thread ends with the test process.
        std::thread::spawn(move || {
            for near in listener.incoming().flatten() {
                let to = for_all.to.load(Ordering::SeqCst);
                if let Ok(far) = TcpStream::connect((Ipv4Addr::LOCALHOST, to)) {
                    forward(&for_all, near, far);
                }
            }
        });
        Self { port: own, shared }
    }

    /// Returns the reference of an artifact that is fetched through the proxy.
    pub fn reference(&self, end: &str) -> String {
        format!("127.0.0.1:{}/{end}", self.port)
    }

    /// Lets this many bytes of all responses together through, and holds up the rest while the server keeps
    /// the connection open.
    pub fn hold_up_after(&self, bytes: usize) {
        self.shared.is_held_up.store(false, Ordering::SeqCst);
        self.shared.left.store(bytes, Ordering::SeqCst);
    }

    /// Waits until a response is held up.
    ///
    /// # Panics
    /// When none is within a minute.
    pub fn until_held_up(&self) {
        eventually_blocking("an answer to be held up", || self.shared.is_held_up.load(Ordering::SeqCst).then_some(()));
    }

    /// Forwards to another port from now on, and lets everything through.
    pub fn set_upstream(&self, port: u16) {
        self.shared.to.store(port, Ordering::SeqCst);
        self.shared.left.store(usize::MAX, Ordering::SeqCst);
    }
}

/// Copies both directions of one connection, until one end closes it.
fn forward(shared: &Arc<ProxyState>, near: TcpStream, far: TcpStream) {
    let (Ok(mut asks), Ok(mut asked)) = (near.try_clone(), far.try_clone()) else { return };
    std::thread::spawn(move || {
        drop(std::io::copy(&mut asks, &mut asked));
        drop(asked.shutdown(Shutdown::Both));
    });
    let (shared, mut near, mut far) = (shared.clone(), near, far);
    std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(count @ 1..) = far.read(&mut buffer) {
            let left = shared.left.load(Ordering::SeqCst);
            let through = count.min(left);
            if left != usize::MAX {
                shared.left.store(left - through, Ordering::SeqCst);
            }
            if near.write_all(&buffer[..through]).is_err() {
                break;
            }
            if through < count {
                shared.is_held_up.store(true, Ordering::SeqCst);
            }
        }
        drop(near.shutdown(Shutdown::Both));
    });
}
