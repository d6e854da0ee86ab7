//! nats-server with JetStream on loopback: alone, or three as a cluster.

mod access;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use access::Logins;
pub use access::{NatsAccess, NatsUser};
use homeostat_testing::eventually_built;
use serde_json::{Map, Value, json};
use tempfile::TempDir;

use super::Permit;
use super::certificates::{Authority, CertificatePair};
use super::etcd::Flush;
use super::http::Request;
use super::ports::ReservedPort;
use super::server::Server;
use crate::tools;

/// How a server is started.
#[derive(Clone, Debug, Default)]
pub struct NatsOptions {
    /// How clients authenticate.
    pub access: NatsAccess,
    /// The users. There are none for [`NatsAccess::Everybody`].
    pub users: Vec<NatsUser>,
    /// Whether clients have to use TLS.
    pub tls: bool,
    /// Whether the server has no JetStream.
    pub without_jetstream: bool,
    /// When JetStream flushes its files.
    pub flush: Flush,
    /// Whether leaf nodes may connect.
    pub takes_leaf_nodes: bool,
    /// The most bytes of all streams in files; `None` is what the disk has.
    pub stored_bytes_max: Option<u64>,
    /// Further settings of the configuration. Their objects are merged with those that the server has already.
    pub settings: Map<String, Value>,
}

/// A NATS server. It is killed when this is dropped.
pub struct Nats {
    server: Server,
    name: String,
    client: ReservedPort,
    monitor: ReservedPort,
    _route: Option<ReservedPort>,
    leaf_nodes: Option<ReservedPort>,
    authority: Option<Authority>,
    logins: Logins,
    /// The temporary folder. It is the last field: the server ends first.
    folder: TempDir,
}

impl Nats {
    /// Starts a server that is open to everybody, with an empty store.
    ///
    /// # Panics
    /// When it cannot be built or started.
    pub fn start() -> Self {
        Self::start_with(NatsOptions::default())
    }

    /// Starts a server.
    ///
    /// # Panics
    /// When it cannot be built or started.
    pub fn start_with(options: NatsOptions) -> Self {
        let nats = Self::new("n1", options, None, &[]);
        nats.server.start();
        nats
    }

    /// Starts a server without JetStream that is a leaf node of this one.
    ///
    /// # Panics
    /// When it cannot be built or started, or when this one takes no leaf nodes.
    pub fn start_leaf(&self) -> Self {
        let port = self.leaf_nodes.as_ref().expect("the options let leaf nodes connect");
        let settings = json!({ "leafnodes": { "remotes": [{ "url": format!("nats-leaf://{}", port.address()) }] } });
        let settings = settings.as_object().cloned().expect("it is an object");
        Self::start_with(NatsOptions { without_jetstream: true, settings, ..NatsOptions::default() })
    }

    /// Describes a server without starting it: alone, or as the one at `route` among `routes`.
    fn new(name: &str, options: NatsOptions, route: Option<ReservedPort>, routes: &[String]) -> Self {
        let NatsOptions { access, users, tls, without_jetstream, flush, takes_leaf_nodes, stored_bytes_max, settings } =
            options;
        let folder = tempfile::tempdir().expect("folders can be made");
        let (client, monitor) = (ReservedPort::new(), ReservedPort::new());
        let (authority, logins) = (tls.then(Authority::new), Logins::new(access, users));
        let mut conf = json!({ "server_name": name, "listen": client.address(), "http": monitor.address() });
        // The largest documents of a store need more than the default of a mebibyte.
        conf["max_payload"] = json!(2 << 20);
        if !without_jetstream {
            conf["jetstream"] = json!({ "store_dir": folder.path().join("jetstream") });
            if flush == Flush::Always {
                conf["jetstream"]["sync_interval"] = json!("always");
            }
            if let Some(bytes) = stored_bytes_max {
                conf["jetstream"]["max_file_store"] = json!(bytes);
            }
        }
        if let Some(authority) = &authority {
            conf["tls"] = tls_settings(authority, folder.path());
        }
        if let Some(route) = &route {
            conf["cluster"] = json!({ "name": "three", "listen": route.address(), "routes": routes });
        }
        let leaf_nodes = takes_leaf_nodes.then(ReservedPort::new);
        if let Some(port) = &leaf_nodes {
            conf["leafnodes"] = json!({ "listen": port.address() });
        }
        merge(&mut conf, logins.settings().into());
        merge(&mut conf, settings.into());
        // JSON is valid in its configuration.
        let file = folder.path().join("nats.conf");
        fs::write(&file, conf.to_string()).expect("files can be written");
        let port = monitor.number();
        let is_ready = move || Request::get("/healthz").send(port).is_some_and(|answer| answer.status == 200);
        let arguments = vec!["--config".to_owned(), file.display().to_string()];
        let server = Server::new(name, tools::nats_server(), arguments, folder.path(), is_ready);
        Self { server, name: name.to_owned(), client, monitor, _route: route, leaf_nodes, authority, logins, folder }
    }

    /// Returns the server, to kill it or to freeze it. It keeps its port and its store.
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// Returns the name by which streams call it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns its port for clients.
    pub fn port(&self) -> u16 {
        self.client.number()
    }

    /// Returns the URL for clients: `nats:`, or `tls:` where clients have to use TLS.
    pub fn url(&self) -> String {
        format!("{}://{}", if self.authority.is_some() { "tls" } else { "nats" }, self.client.address())
    }

    /// Returns the folder of its JetStream. A copy of it, made while the server is down, is a backup.
    pub fn stored(&self) -> PathBuf {
        self.folder.path().join("jetstream")
    }

    /// Returns the authority of its certificate.
    ///
    /// # Panics
    /// When it has no TLS.
    pub fn authority(&self) -> &Authority {
        self.authority.as_ref().expect("the options ask for TLS")
    }

    /// Writes the credentials of a user to a file: a JWT with its key. They expire after `lifetime`, rounded up to
    /// seconds; `None` is never. Then the server closes their connections.
    ///
    /// # Panics
    /// When its users are not those of [`NatsAccess::Credentials`], or have another name.
    pub fn credentials(&self, user: &str, lifetime: Option<Duration>) -> PathBuf {
        let (mut file, path) = tempfile::Builder::new()
            .suffix(".creds")
            .tempfile_in(self.folder.path())
            .and_then(|file| file.keep().map_err(Into::into))
            .expect("files can be made");
        file.write_all(self.logins.credentials(user, lifetime).as_bytes()).expect("files can be written");
        path
    }

    /// Returns the seed of a user's nkey.
    ///
    /// # Panics
    /// When its users are those of [`NatsAccess::Everybody`] or [`NatsAccess::Passwords`], or have another name.
    pub fn nkey_seed(&self, user: &str) -> String {
        self.logins.seed(user)
    }

    /// Asks its monitor: `/varz`, `/jsz?consumers=true`, `/connz`.
    ///
    /// # Panics
    /// When it does not answer.
    pub fn monitor(&self, path: &str) -> Value {
        let answer = Request::get(path).send(self.monitor.number()).expect("the monitor answers");
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        answer.json()
    }
}

/// Adds the fields of a document to another one.
fn merge(into: &mut Value, more: Value) {
    match (into, more) {
        (Value::Object(into), Value::Object(more)) => {
            more.into_iter().for_each(|(name, value)| merge(into.entry(name).or_insert(Value::Null), value));
        }
        (into, more) => *into = more,
    }
}

fn tls_settings(authority: &Authority, folder: &Path) -> Value {
    let file = |name: &str, text: &str| {
        let path = folder.join(name);
        fs::write(&path, text).expect("files can be written");
        path
    };
    let CertificatePair { certificate, key } = authority.server();
    json!({
        "cert_file": file("server.pem", &certificate),
        "key_file": file("server.key", &key),
        "ca_file": file("authority.pem", &authority.pem()),
    })
}

/// Returns whether a server is the leader of its JetStream, and both others follow it.
fn hears_two_others(nats: &Nats) -> bool {
    let state = nats.monitor("/jsz");
    let others = state["meta_cluster"]["replicas"].as_array();
    others.is_some_and(|others| others.len() == 2 && others.iter().all(|other| other["current"] == true))
}

/// Three servers with one JetStream. It keeps streams with three replicas while any two of them run.
pub struct NatsCluster {
    servers: Vec<Nats>,
    _permit: Permit,
}

impl NatsCluster {
    /// Starts three servers that are open to everybody, with empty stores, and waits until they have a leader.
    /// Waits first while two other private clusters exist in this process.
    ///
    /// # Panics
    /// When they cannot be built or started.
    pub fn start() -> Self {
        let permit = Permit::acquire();
        let ports: [ReservedPort; 3] = std::array::from_fn(|_| ReservedPort::new());
        let routes: Vec<String> = ports.iter().map(|port| format!("nats-route://{}", port.address())).collect();
        let named = ports.into_iter().zip(["n1", "n2", "n3"]);
        let servers: Vec<Nats> =
            named.map(|(port, name)| Nats::new(name, NatsOptions::default(), Some(port), &routes)).collect();
        servers.iter().for_each(|nats| nats.server.spawn());
        servers.iter().for_each(|nats| nats.server.wait_until_ready());
        eventually_built("a leader who hears the others", || servers.iter().any(hears_two_others).then_some(()));
        Self { servers, _permit: permit }
    }

    /// Returns the three servers.
    pub fn servers(&self) -> &[Nats] {
        &self.servers
    }

    /// Returns the URLs of all servers, for a client.
    pub fn urls(&self) -> Vec<String> {
        self.servers.iter().map(Nats::url).collect()
    }

    /// Returns the server with this name.
    ///
    /// # Panics
    /// When there is none.
    pub fn server(&self, name: &str) -> &Nats {
        self.servers.iter().find(|nats| nats.name == name).expect("streams name servers of their cluster")
    }
}
