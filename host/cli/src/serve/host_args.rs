//! The options of a host on the command line.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use clap::builder::RangedI64ValueParser;
use homeostat_component::{EngineOptions, INSTANCES_BOUNDS, TierPolicy};
use homeostat_runtime::events::EVENTS_MAX;
use homeostat_runtime::manifest::{Bytes, Span};
use homeostat_runtime::{
    BuiltInGroups, CONTROLLERS_MAX, FleetOptions, LEASE_LENGTH_MAX, NamespacePolicy, QUEUE_ERROR_BYTES_MAX,
    QUEUE_KEYS_MAX, is_host_name,
};

use crate::compile::{self, CompileLimits};
use crate::layout;
use crate::store::StoreChoice;

/// How long running reconciles may take to finish at shutdown, by default.
const DRAIN_DEFAULT: Duration = Duration::from_secs(10);
/// The longest time that running reconciles may take to finish at shutdown.
const DRAIN_MAX: Duration = Duration::from_secs(3600);
/// The options that `run` and `dev` share.
#[derive(Args, Clone, Debug)]
pub(crate) struct HostArgs {
    /// The folder of manifests: its *.yaml, *.yml and *.json files, and those of its subfolder `manifests`
    #[arg(value_name = "DIR")]
    pub(crate) folder: PathBuf,
    /// Further folders of manifests, which no command line names.
    #[arg(skip)]
    pub(crate) other_folders: Vec<PathBuf>,
    /// Where to serve the API: unix:PATH, 127.0.0.1:PORT or `https://HOST:PORT` [default: the socket of this
    /// user's host]
    ///
    /// An address that other machines can reach needs https and --tokens. Without --tls-cert, the host
    /// creates a self-signed certificate once and keeps it with its key beside the store.
    #[arg(long, value_name = "ADDRESS", env = "HOMEOSTAT_LISTEN", hide_env_values = true)]
    pub(super) listen: Option<String>,
    /// The certificate chain for an https address, in PEM
    ///
    /// The certificate and its key are read again when they change. Open connections keep the old
    /// certificate.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(super) tls_cert: Option<PathBuf>,
    /// The certificate's key, in PEM; only you may read the file (mode 0600)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(super) tls_key: Option<PathBuf>,
    /// File with API tokens, a YAML list of {name, token, access: read or write}; only you may read it (mode
    /// 0600)
    ///
    /// The file is read again when it changes. Without it, every program on this machine that reaches the
    /// address has full access.
    #[arg(long, value_name = "FILE")]
    pub(super) tokens: Option<PathBuf>,
    /// File with the key that signs and verifies the tokens of service accounts, in PEM; only you may read it (mode 0600)
    /// [default: a key beside the store, generated with the first token]
    ///
    /// It is an ECDSA key on the curve P-256, as from `openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256`. Hosts
    /// of one fleet need the same. It is read once, at the start.
    #[arg(long, value_name = "FILE")]
    pub(super) service_account_key: Option<PathBuf>,
    /// File with the certificates, in PEM, that verify the other hosts of the fleet
    ///
    /// Questions about a controller that another host works on are asked there, with the caller's token, over
    /// TLS alone. Give each host a certificate that a CA in this file has signed. The file is read once, at
    /// the start. Without it, only hosts on loopback addresses of this machine are asked, without a token.
    #[arg(long, value_name = "FILE")]
    pub(super) fleet_ca: Option<PathBuf>,
    /// Where other hosts of the fleet reach this API: `https://HOST:PORT` [default: the address of --listen]
    #[arg(long, value_name = "ADDRESS")]
    pub(super) advertise: Option<String>,
    /// Folder of secrets for HTTP grants and webhooks: one file for each secret, under its name, mode 0600
    ///
    /// A secret is read at each use, so a replaced file takes effect at once. It is sent in the header that a
    /// grant names, and nowhere else.
    #[arg(long, value_name = "FOLDER", env = "HOMEOSTAT_SECRETS", hide_env_values = true)]
    pub(super) secrets: Option<PathBuf>,
    /// Folder whose files the feeders of controllers may follow [default: none]
    ///
    /// A feeder `files` of a manifest learns the names of files below it, and when they change. It reads no file.
    #[arg(long, value_name = "FOLDER", env = "HOMEOSTAT_FEEDER_FILES", hide_env_values = true)]
    pub(super) feeder_files: Option<PathBuf>,
    /// File with the signature policy, in YAML: {require: true or false, keys: [{name, file or pem}]}
    ///
    /// The policy is read once, at the start. A component that violates it is refused, wherever it comes
    /// from, and the running version keeps running.
    #[arg(long, value_name = "POLICY")]
    pub(super) signatures: Option<PathBuf>,
    /// Folder for the store and for compiled components [default: DIR/.homeostat]
    #[arg(long, value_name = "FOLDER")]
    pub(super) data: Option<PathBuf>,
    /// The kind of store
    #[arg(long, value_enum, default_value_t = StoreChoice::Embedded, value_name = "STORE")]
    pub(super) store: StoreChoice,
    /// API groups of Kubernetes whose built-in kinds are served: `all`, `none`, or names as `core,apps,batch`
    ///
    /// Their resources have the schemas, the defaults and the rules that Kubernetes has. Without them, a component or a
    /// `CustomResourceDefinition` may declare kinds with these names. Kinds that live in a cluster are always its own.
    #[arg(long, value_name = "GROUPS", default_value = "all", env = "HOMEOSTAT_KINDS", hide_env_values = true)]
    pub(super) kinds: BuiltInGroups,
    /// Whether a namespace must exist before something is created in it: `existing` or `any`
    ///
    /// The namespaces `default`, `kube-node-lease`, `kube-public` and `kube-system` always exist. With `any`, or without the
    /// built-in kinds of the group `core`, each name is a namespace.
    #[arg(long, value_name = "WHICH", default_value_t = NamespacePolicy::Existing, env = "HOMEOSTAT_NAMESPACES", hide_env_values = true)]
    pub(super) namespaces: NamespacePolicy,
    /// File of further stores, in YAML, `kind: Stores`, and of the kinds that live in them [default:
    /// DIR/stores.yaml, if it exists]
    ///
    /// The file is read once, at the start. Kinds that no rule names live in the host's own store, which is
    /// called `home` there.
    #[arg(long, value_name = "FILE", env = "HOMEOSTAT_STORES", hide_env_values = true)]
    pub(super) stores: Option<PathBuf>,
    /// Start only when all stores can be used, and give up after this time [default: start without them]
    ///
    /// Without it, the kinds of a store that is away wait, and the others go on.
    #[arg(long, value_name = "SPAN")]
    pub(super) wait_for_stores: Option<Span>,
    /// The name of this host among those that share its stores: at most 63 letters, digits, `-` and `.` [default: the name
    /// of the machine]
    #[arg(long, value_name = "NAME", value_parser = host_name)]
    pub(super) host_name: Option<String>,
    /// How long another host waits before it works on the controllers of a host that died: 1s to 1h
    ///
    /// This is the length of the leases of controllers whose kind lives in a store that several hosts share. A holder
    /// renews its leases in two fifteenths of it, and stops after two thirds of it without a renewal.
    #[arg(long, value_name = "SPAN", default_value_t = Span(FleetOptions::LENGTH_DEFAULT), value_parser = lease_duration)]
    pub(super) lease_duration: Span,
    /// Guest calls that run at once, in all controllers together: 1 to 4096
    ///
    /// Further calls wait, and controllers take turns. No controller gets the last quarter, whatever its
    /// `concurrency` says.
    #[arg(long, value_name = "NUMBER", default_value_t = EngineOptions::default().instances_max, value_parser = instances())]
    pub(super) instances: u32,
    /// How long running reconciles may take to finish when the host stops: 0s to 1h
    ///
    /// Then they are stopped, and run again after the next start.
    #[arg(long, value_name = "SPAN", default_value_t = Span(DRAIN_DEFAULT), value_parser = shutdown_timeout)]
    pub(super) shutdown_timeout: Span,
    #[command(flatten)]
    pub(super) shared: SharedLimits,
    #[command(flatten)]
    pub(super) compile: CompileLimits,
}

fn instances() -> RangedI64ValueParser<u32> {
    let (least, most) = INSTANCES_BOUNDS.into_inner();
    clap::value_parser!(u32).range(i64::from(least)..=i64::from(most))
}

fn host_name(text: &str) -> Result<String, String> {
    let refused = || "it must be 1 to 63 letters, digits, `-` and `.`".to_owned();
    is_host_name(text).then(|| text.to_owned()).ok_or_else(refused)
}

fn lease_duration(text: &str) -> Result<Span, String> {
    let span: Span = text.parse()?;
    let bounds = Duration::from_secs(1)..=LEASE_LENGTH_MAX;
    if bounds.contains(&span.0) { Ok(span) } else { Err("it must be 1s to 1h".to_owned()) }
}

fn shutdown_timeout(text: &str) -> Result<Span, String> {
    let span: Span = text.parse()?;
    if span.0 <= DRAIN_MAX { Ok(span) } else { Err("it must be 0s to 1h".to_owned()) }
}

impl HostArgs {
    /// Returns the options of the engine, which keeps compiled components below `data`.
    ///
    /// # Errors
    /// When the path of this binary, which compiles in child processes, cannot be determined.
    pub(crate) fn engine_options(&self, data: &Path) -> Result<EngineOptions> {
        let options = compile::engine_options(Some(data.join(layout::COMPILED)), self.compile)?;
        Ok(EngineOptions { instances_max: self.instances, tiers: TierPolicy::BaselineFirst, ..options })
    }
}

/// Limits on all controllers together
#[derive(Args, Clone, Copy, Debug)]
pub(super) struct SharedLimits {
    /// Controllers at most; a further one is refused
    #[arg(long, value_name = "COUNT", default_value_t = CONTROLLERS_MAX as u32, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(super) controllers: u32,
    /// Keys at most in the queues of all controllers together
    ///
    /// One half is first come, first served; the other half is shared out evenly among the controllers. The
    /// limit of one controller is spec.limits.keys.
    #[arg(long, value_name = "COUNT", default_value_t = QUEUE_KEYS_MAX, value_parser = clap::value_parser!(u64).range(1_000..=100_000_000))]
    pub(super) queue_keys: u64,
    /// Bytes at most of error messages kept for those keys: 64Ki to 64Gi
    #[arg(long, value_name = "BYTES", default_value_t = Bytes(QUEUE_ERROR_BYTES_MAX), value_parser = queue_error_bytes)]
    pub(super) queue_error_bytes: Bytes,
    /// Events kept at most, of all controllers together: 100 to 100000
    ///
    /// Beyond that, the controller that has most loses its oldest one.
    #[arg(long, value_name = "COUNT", default_value_t = EVENTS_MAX as u32, value_parser = clap::value_parser!(u32).range(100..=100_000))]
    pub(super) events: u32,
}

fn queue_error_bytes(text: &str) -> Result<Bytes, String> {
    let bytes: Bytes = text.parse()?;
    if (64 << 10..=64 << 30).contains(&bytes.0) { Ok(bytes) } else { Err("it must be 64Ki to 64Gi".to_owned()) }
}
