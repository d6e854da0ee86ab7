//! The settings of a store in a bucket.

mod foreign_bucket;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use homeostat_store::{Error, Result};

pub use self::foreign_bucket::{ForeignBucket, StatusForm, StatusPlace, ValueForm};

/// Shortest lifetime of a marker: above every deadline of a write, so that a write that was decided before a
/// deletion never finds the marker gone.
pub const MARKERS_MIN: Duration = Duration::from_secs(10 * 60);

/// Longest history per key that JetStream's buckets have.
const HISTORY_MAX: u8 = 64;

/// The place of the bucket, the way to it, and the behaviour of its store.
#[derive(Debug, Clone)]
pub struct BucketSettings {
    /// The name of the store, for logs and messages; empty for a store that stands alone.
    pub name: String,
    /// The servers, as `nats://127.0.0.1:4222` or `tls://nats-0:4222`. One or more. None of them has a user, a
    /// password or a token: addresses are logged.
    pub servers: Vec<String>,
    /// Who this host is; `None` for servers that ask nobody.
    pub credentials: Option<Credentials>,
    /// The encryption of the connection.
    pub tls: Tls,
    /// How the requests of JetStream are addressed.
    pub api: Api,
    /// The name of the bucket: letters, digits, `_` and `-`.
    pub bucket: String,
    /// A prefix of the keys in the bucket, as `team-a`, so that several sets of resources can share it: parts
    /// of letters, digits, `_` and `-` with dots between them. Empty for none.
    pub prefix: String,
    /// How to create the bucket if there is none; `None` if it has to exist.
    pub create: Option<Create>,
    /// How long the marker of a deletion stays: at least [`MARKERS_MIN`], in whole seconds. A host that was
    /// away for half of it lists again.
    pub markers: Duration,
    /// The names of the problems that the operator has accepted
    /// ([`SettingProblem::name`](crate::SettingProblem::name)).
    pub accept: BTreeSet<String>,
    /// The kinds that follow buckets of other programs. Each kind once.
    pub foreign: Vec<ForeignBucket>,
    /// Deadlines and intervals.
    pub timings: Timings,
}

/// Who this host is.
#[derive(Clone)]
pub enum Credentials {
    /// The content of a credentials file: a JWT and the seed of its user. Read anew for each connection, so
    /// that a replaced file counts.
    File(SecretSource),
    /// The seed of an NKey.
    Nkey(SecretSource),
    /// A name and its password.
    User {
        /// The name.
        name: String,
        /// The password.
        password: SecretSource,
    },
    /// A token.
    Token(SecretSource),
}

/// Reads a secret. Called for each connection; the error is for a person, and does not contain the secret.
pub type SecretSource = Arc<dyn Fn() -> std::result::Result<String, String> + Send + Sync>;

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::File(_) => "File",
            Self::Nkey(_) => "Nkey",
            Self::User { .. } => "User",
            Self::Token(_) => "Token",
        })
    }
}

/// The encryption of the connection.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tls {
    /// Refuses a connection without TLS. Servers whose address begins with `tls://` always need it.
    pub required: bool,
    /// Begins with TLS, before the server's first line.
    pub first: bool,
    /// The file of an authority to trust in place of those of the system.
    pub authority: Option<PathBuf>,
    /// The files of the client's certificate and its key.
    pub certificate: Option<(PathBuf, PathBuf)>,
}

/// How the requests of JetStream are addressed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Api {
    /// To the JetStream of the account.
    #[default]
    Account,
    /// To a domain, through leaf nodes.
    Domain(String),
    /// By a prefix, to a JetStream that another account exports. It ends without a dot.
    Prefix(String),
}

impl Api {
    /// Returns the prefix of the requests, without a dot at the end.
    pub(crate) fn prefix(&self) -> String {
        match self {
            Self::Account => "$JS.API".to_owned(),
            Self::Domain(domain) => format!("$JS.{domain}.API"),
            Self::Prefix(prefix) => prefix.clone(),
        }
    }

    /// Returns the prefix of the subjects to which values are published, with a dot at the end; empty for
    /// none.
    ///
    /// Source: nats.go, which addresses values through the API of a domain, too.
    pub(crate) fn value_prefix(&self) -> String {
        match self {
            Self::Account => String::new(),
            Self::Domain(_) | Self::Prefix(_) => format!("{}.", self.prefix()),
        }
    }
}

/// A bucket that does not exist yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Create {
    /// Copies on different servers, from 1 to 5.
    pub replicas: u8,
    /// Values that are kept of a key, from 1 to 64.
    pub history: u8,
    /// Whether the bucket is kept in memory, and lost with its servers.
    pub memory: bool,
    /// Whether its files are compressed.
    pub compression: bool,
    /// Its largest size, in bytes; `None` for as much as the account may have. A full bucket refuses writes.
    pub bytes_max: Option<u64>,
}

impl Default for Create {
    fn default() -> Self {
        Self { replicas: 1, history: 1, memory: false, compression: false, bytes_max: None }
    }
}

/// Deadlines and intervals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timings {
    /// Until a request counts as unanswered: default 5 s.
    pub request: Duration,
    /// Until a write gives up, with all of its attempts: default 10 s.
    pub write: Duration,
    /// Between the heartbeats of an idle stream: from 100 ms, default 5 s. A stream is lost after two and a
    /// half of them.
    pub heartbeat: Duration,
    /// Until a connection attempt counts as failed: default 5 s.
    pub connect: Duration,
}

impl Default for Timings {
    fn default() -> Self {
        Self {
            request: Duration::from_secs(5),
            write: Duration::from_secs(10),
            heartbeat: Duration::from_secs(5),
            connect: Duration::from_secs(5),
        }
    }
}

impl BucketSettings {
    /// Returns the settings of a bucket that has to exist, at one server without credentials.
    pub fn new(server: impl Into<String>, bucket: impl Into<String>) -> Self {
        Self {
            name: String::new(),
            servers: vec![server.into()],
            credentials: None,
            tls: Tls::default(),
            api: Api::default(),
            bucket: bucket.into(),
            prefix: String::new(),
            create: None,
            markers: Duration::from_secs(60 * 60),
            accept: BTreeSet::new(),
            foreign: Vec::new(),
            timings: Timings::default(),
        }
    }

    /// Checks what can be checked without a server.
    ///
    /// # Errors
    /// `Invalid` with the name of the setting, as it is written in files.
    pub fn check(&self) -> Result<()> {
        let Self {
            name: _,
            servers,
            credentials: _,
            tls: _,
            api,
            bucket,
            prefix,
            create,
            markers,
            accept: _,
            foreign,
            timings,
        } = self;
        require(!servers.is_empty(), "servers", "must name at least one server")?;
        // Neither hosts nor ports have this character. The rule does not repeat the address.
        let has_login = servers.iter().any(|server| server.contains('@'));
        let rule = "must have no user, password or token: `credentials` names the file or the secret that has them";
        require(!has_login, "servers", rule)?;
        require(is_token(bucket), "bucket", "must have letters, digits, `_` and `-` alone")?;
        let is_prefix = prefix.is_empty() || prefix.split('.').all(is_token);
        require(is_prefix, "prefix", "must have parts of letters, digits, `_` and `-`, with dots between them")?;
        match api {
            Api::Account => {}
            Api::Domain(domain) => require(is_token(domain), "domain", "must have letters, digits, `_` and `-` alone")?,
            Api::Prefix(prefix) => {
                let is_subject = prefix.split('.').all(|part| is_token(part.strip_prefix('$').unwrap_or(part)));
                require(is_subject, "apiPrefix", "must be a subject without wildcards")?;
            }
        }
        let seconds = markers.subsec_nanos() == 0 && *markers >= MARKERS_MIN;
        require(seconds, "markers", "must be whole seconds, 10 minutes or more")?;
        let is_interval = timings.heartbeat >= Duration::from_millis(100);
        require(is_interval, "timings.heartbeat", "must be 100 ms or more")?;
        for (at, entry) in foreign.iter().enumerate() {
            let named = |path: String| format!("foreign[{at}].{path}");
            entry.check().map_err(|error| match error {
                Error::Invalid { path, reason } => Error::invalid(named(path), reason),
                other => other,
            })?;
            let is_first = !foreign[..at].iter().any(|other| other.kind.same_type(&entry.kind));
            require(is_first, &named("kind".to_owned()), "must not be bound twice")?;
        }
        let Some(Create { replicas, history, memory: _, compression: _, bytes_max }) = create else { return Ok(()) };
        require((1..=5).contains(replicas), "create.replicas", "must be 1 to 5")?;
        require((1..=HISTORY_MAX).contains(history), "create.history", "must be 1 to 64")?;
        let is_size = bytes_max.is_none_or(|bytes| bytes > 0 && i64::try_from(bytes).is_ok());
        require(is_size, "create.bytesMax", "must be 1 byte or more")
    }
}

/// Returns whether a text can be one part of a subject in every program that reads buckets.
fn is_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
}

fn require(holds: bool, setting: &str, rule: &str) -> Result<()> {
    if holds { Ok(()) } else { Err(Error::invalid(setting, rule)) }
}
