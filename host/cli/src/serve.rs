//! `homeostat run DIR`: runs a host over a folder of manifests, from opening the store to an orderly
//! shutdown.
//!
//! The parts start in the order store, host, API, folder, and stop in reverse: no new work arrives while
//! running work finishes.

mod host_args;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use homeostat_api::{Address, Certificate, Check, Metrics, SelfSignedCertificate, ServerBackend};
use homeostat_component::Engine;
use homeostat_registry::Policy;
use homeostat_runtime::feeder_sources::MessageStores;
use homeostat_runtime::manifest::{Bytes, Span};
use homeostat_runtime::{FleetOptions, Host, Options, STOP_HOOK_MAX, Stores};
use homeostat_store::embedded::EmbeddedStore;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::address;
use crate::components::Components;
use crate::exit::{self, ExitReason};
use crate::far_stores;
use crate::feeder_folder::AllowedFolder;
use crate::folder::{Folder, FolderStatus};
use crate::layout::{self, COMPONENTS, DATA};
use crate::open_files;
use crate::permissions::{self, Repair};
use crate::registry;
use crate::secrets::SecretFolder;
use crate::signals::Signals;
use crate::store;
use crate::stores_config::StoresConfig;
use crate::terminal::Screen;
pub(crate) use host_args::HostArgs;
use host_args::SharedLimits;

/// How long the release of leases may take at shutdown.
const RELEASES: Duration = Duration::from_secs(6);
/// How long running requests may take to finish at shutdown.
const REQUESTS: Duration = Duration::from_secs(2);

/// The format of the log of `run`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object on each line.
    Json,
}

/// Serve a folder of manifests and follow its changes
///
/// A changed manifest or component takes effect without a restart. If the new version is refused, the reason
/// is shown and the running version keeps running. Removing a controller from the folder deletes it; a
/// removed resource stays in the store.
///
/// SIGINT and SIGTERM stop the host after running reconciles have finished. A second signal stops it at once.
#[derive(Args, Clone, Debug)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) host: HostArgs,
    /// The format of the log; RUST_LOG sets its level
    #[arg(long, value_enum, default_value_t = LogFormat::Text, value_name = "FORMAT")]
    pub(crate) log_format: LogFormat,
}

/// Runs `homeostat run`.
///
/// # Errors
/// When the host cannot start.
pub(crate) async fn run(args: &RunArgs, screen: Screen) -> Result<ExitCode> {
    let mut signals = Signals::new().context("cannot install the signal handlers")?;
    let running = tokio::select! {
        running = FolderHost::start(&args.host, &screen) => running?,
        ending = signals.next() => return Ok(ExitCode::from(ending.code())),
    };
    signals.next().await;
    signals.end_at_next(screen);
    Ok(running.stop().await)
}

/// A host that serves a folder.
pub(crate) struct FolderHost {
    pub(crate) host: Host,
    api: homeostat_api::Handle,
    folder: Option<Folder>,
    folder_task: Option<JoinHandle<()>>,
    stop: watch::Sender<bool>,
    folder_status: watch::Receiver<FolderStatus>,
    shutdown_timeout: Duration,
    screen: Screen,
}

impl FolderHost {
    /// Starts all parts and begins to follow the folder.
    ///
    /// # Errors
    /// When a part cannot start. The message suggests a fix.
    pub(crate) async fn start(args: &HostArgs, screen: &Screen) -> Result<Self> {
        let mut running = Self::prepare(args, screen).await?;
        running.start_folder();
        Ok(running)
    }

    /// Starts all parts, but does not read the folder yet.
    ///
    /// # Errors
    /// When a part cannot start. The message suggests a fix.
    pub(crate) async fn prepare(args: &HostArgs, screen: &Screen) -> Result<Self> {
        let HostArgs {
            folder,
            other_folders,
            listen,
            tls_cert: _,
            tls_key: _,
            tokens: _,
            service_account_key,
            fleet_ca: _,
            advertise,
            secrets: _,
            feeder_files: _,
            signatures,
            data,
            store: _,
            stores: _,
            wait_for_stores: _,
            host_name: _,
            lease_duration: _,
            shutdown_timeout,
            shared: _,
            instances: _,
            compile: _,
            kinds: _,
            namespaces: _,
        } = args;
        let folders: Vec<&Path> = std::iter::once(folder).chain(other_folders).map(PathBuf::as_path).collect();
        if let Some(folder) = folders.iter().find(|folder| !folder.is_dir()) {
            return Err(exit::failed(format!(
                "{} is not a folder: name the folder that holds the manifests",
                folder.display()
            )));
        }
        if let Some(key) = service_account_key.as_deref().filter(|key| !key.exists()) {
            let key = key.display();
            return Err(exit::failed(format!(
                "the key of service accounts {key} does not exist: make one with `openssl genpkey -algorithm EC \
                 -pkeyopt ec_paramgen_curve:P-256 -out {key}`, and `chmod 600 {key}`"
            )));
        }
        let address = listen.clone().unwrap_or_else(|| format!("unix:{}", address::default_socket().display()));
        let address = address::parse(&address)?;
        let advertised = advertise.as_deref().map(address::parse).transpose()?;
        let data = data.clone().unwrap_or_else(|| folder.join(DATA));
        repair_permissions(&data, screen);
        open_files::raise_limit();
        let policy = signatures.as_deref().map(Policy::read).transpose().context("cannot read the signature policy")?;
        let registry = registry::registry(Some(data.join(layout::PULLED)))?;
        let fleet = FleetOptions::new(args.host_name.as_deref(), args.lease_duration.0);
        let OpenStores { stores, backups, skipped, messages } = open_stores(args, &fleet, &data).await?;
        let engine = Engine::new(args.engine_options(&data)?).context("cannot start the WebAssembly engine")?;
        let metrics = Metrics::default();
        let options = Options { fleet, message_stores: messages, ..Options::with_stores(engine, stores) };
        let options = host_options(args, options, &metrics, screen);
        let host = Host::start(options).await.context("cannot start the host")?;
        let code = Components::new(data.join(COMPONENTS), folder.clone(), registry, policy);
        let manifests = Folder::new(&folders, skipped, host.clone(), screen.clone(), code);
        let standing = manifests.status();
        let served =
            ServerBackend { host: host.clone(), metrics, checks: vec![folder_check(standing.clone())], backups };
        let served = serve(args, address, &data, served, screen).await;
        let api = match served.context("cannot serve the API") {
            Ok(api) => api,
            Err(error) => {
                host.shutdown(Duration::ZERO).await;
                return Err(error);
            }
        };
        // The system chose the port, if the address has port 0.
        host.set_address(&advertised.as_ref().unwrap_or(api.address()).to_string());
        screen.info(&format!("serving {} on {}", folder.display(), api.address()));
        let (stop, _) = watch::channel(false);
        Ok(Self {
            host,
            api,
            folder: Some(manifests),
            folder_task: None,
            stop,
            folder_status: standing,
            shutdown_timeout: shutdown_timeout.0,
            screen: screen.clone(),
        })
    }

    /// Waits until every document of the folder has been tried. Returns the number of problems.
    pub(crate) async fn settled(&mut self) -> usize {
        // The folder lives as long as the host.
        let settled = self.folder_status.wait_for(|status| status.settled).await;
        settled.map_or(0, |status| status.problems + status.refused)
    }

    /// Returns the address of the API.
    pub(crate) fn address(&self) -> String {
        self.api.address().to_string()
    }

    /// Starts to follow the folder. A second call does nothing.
    pub(crate) fn start_folder(&mut self) {
        if let Some(folder) = self.folder.take() {
            self.folder_task = Some(tokio::spawn(folder.follow(self.stop.subscribe())));
        }
    }

    /// Returns the status of the folder.
    pub(crate) fn folder_status(&self) -> FolderStatus {
        *self.folder_status.borrow()
    }

    /// Stops the folder, the API, the controllers and the store, in this order. Returns the exit code.
    pub(crate) async fn stop(self) -> ExitCode {
        let Self { host, api, folder: _, folder_task: following, stop, folder_status: _, shutdown_timeout, screen } =
            self;
        screen.info("stopping: waiting for running reconciles; a second signal stops at once");
        stop.send_replace(true);
        if let Some(following) = following {
            // A running compilation is abandoned.
            drop(tokio::time::timeout(REQUESTS, following).await);
        }
        api.stop(REQUESTS).await;
        // The stop hooks, which have a limit of their own, and the store follow the reconciles.
        let bound = shutdown_timeout + STOP_HOOK_MAX + RELEASES + REQUESTS;
        let Ok(report) = tokio::time::timeout(bound, host.shutdown(shutdown_timeout)).await else {
            let seconds = bound.as_secs();
            screen.warn(&format!(
                "the shutdown did not finish within {seconds} s; acknowledged writes are safe in the store"
            ));
            return ExitReason::Failed.into();
        };
        for (name, left) in report.into_iter().filter(|(_, left)| !left.interrupted.is_empty()) {
            let keys = left.interrupted.len();
            screen.warn(&format!(
                "controller/{name}: {keys} reconciles did not finish within {} and were stopped",
                Span(shutdown_timeout)
            ));
        }
        screen.info("stopped");
        ExitCode::SUCCESS
    }
}

/// The stores of a host.
struct OpenStores {
    stores: Stores,
    /// The host's own store, if it supports backups.
    backups: Option<Arc<EmbeddedStore>>,
    /// The file in the folder that is no manifest.
    skipped: Option<PathBuf>,
    /// The stores whose servers have messages for feeders.
    messages: Option<Arc<dyn MessageStores>>,
}

/// Opens the host's own store and all others, and waits for them if that was asked for.
async fn open_stores(args: &HostArgs, fleet: &FleetOptions, data: &Path) -> Result<OpenStores> {
    let mut stores_config = StoresConfig::find(args.stores.as_deref(), &args.folder, args.secrets.as_deref())?;
    if let Some(file) = &mut stores_config {
        file.limit_writes(fleet.times.in_flight_max);
    }
    let skipped = stores_config.as_ref().map(|file| file.path().to_owned());
    let messages = stores_config.as_ref().and_then(|file| message_stores(file));
    let (home, backups) = store::open(args.store, data).await?;
    let stores = far_stores::open(home, stores_config, data).await?;
    if let Some(Span(most)) = args.wait_for_stores {
        far_stores::wait(&stores, most).await?;
    }
    Ok(OpenStores { stores, backups, skipped, messages })
}

/// Returns the stores of a file whose servers have messages.
#[cfg(feature = "nats")]
fn message_stores(file: &StoresConfig) -> Option<Arc<dyn MessageStores>> {
    crate::message_stores::NatsServers::of(&file.stores)
}

/// This build has no stores with messages.
#[cfg(not(feature = "nats"))]
fn message_stores(_: &StoresConfig) -> Option<Arc<dyn MessageStores>> {
    None
}

/// Returns the options of a host with the limits and the secrets of the command line.
fn host_options(args: &HostArgs, options: Options, metrics: &Metrics, screen: &Screen) -> Options {
    let SharedLimits { controllers, queue_keys: queue_keys_max, queue_error_bytes, events } = args.shared;
    let Bytes(queue_error_bytes_max) = queue_error_bytes;
    let controllers_max = controllers as usize;
    let observer = Arc::new(metrics.clone());
    let mut options = Options {
        observer,
        queue_keys_max,
        queue_error_bytes_max,
        controllers_max,
        events_max: events as usize,
        collects_across_stores: true,
        mirrors_hosts: true,
        built_in: args.kinds.clone(),
        namespaces: args.namespaces,
        ..options
    };
    if let Some(folder) = &args.secrets {
        if !folder.is_dir() {
            let folder = folder.display();
            screen.warn(&format!(
                "the secrets folder {folder} does not exist: requests that need a secret fail until it does"
            ));
        }
        options.secrets = Arc::new(SecretFolder(folder.clone()));
    }
    if let Some(folder) = &args.feeder_files {
        options.feeder_folder = Some(Arc::new(AllowedFolder(folder.clone())));
    }
    options
}

/// Removes other users' access to the host's data, and reports it. Files that do not exist yet get the right
/// mode later.
fn repair_permissions(data: &Path, screen: &Screen) {
    let shown = data.display();
    match permissions::restrict(data) {
        Ok(None) => {}
        Ok(Some(Repair { first, count })) => screen.warn(&format!(
            "other users could read or write {count} files and folders in {shown}, for example {}; their access was removed",
            first.display()
        )),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => screen.warn(&format!("other users may be able to read files in {shown}, and the permissions cannot be changed: {error}")),
    }
}

/// Serves the API with the address, certificate and tokens of the command line.
async fn serve(
    args: &HostArgs,
    address: Address,
    data: &Path,
    served: ServerBackend,
    screen: &Screen,
) -> Result<homeostat_api::Handle, homeostat_api::Error> {
    let own = args.tls_cert.clone().zip(args.tls_key.clone());
    let own = own.map(|(chain, key)| Certificate { chain, key });
    let made = match (&address, &own) {
        (Address::Tls { .. }, None) => Some(Certificate::load_or_generate(data, &address)?),
        _ => None,
    };
    let certificate = own.or_else(|| made.as_ref().map(|made| made.certificate.clone()));
    let options = homeostat_api::Options {
        address: address.to_string(),
        certificate,
        tokens: args.tokens.clone(),
        service_account_key: Some(
            args.service_account_key.clone().unwrap_or_else(|| data.join(layout::SERVICE_ACCOUNT_KEY)),
        ),
        fleet_authority: args.fleet_ca.clone(),
        ..Default::default()
    };
    let api = homeostat_api::serve(options, served).await?;
    if let (Some(SelfSignedCertificate { certificate, is_new }), Some(fingerprint)) = (made, api.fingerprint()) {
        let made = if is_new { "created a self-signed certificate" } else { "using the existing certificate" };
        screen.info(&format!("{made}: {}\nits SHA-256 is {fingerprint}", certificate.chain.display()));
    }
    Ok(api)
}

/// Returns a readiness check that passes once every document in the folder has been tried. Without it, a host
/// that has not read its folder would count as ready.
fn folder_check(standing: watch::Receiver<FolderStatus>) -> Check {
    let was_read = OnceLock::new();
    let holds = move || {
        if was_read.get().is_some() || standing.borrow().settled {
            was_read.get_or_init(|| ());
            return Ok(());
        }
        Err("not all manifests have been read yet".to_owned())
    };
    Check { name: "folder", holds: Arc::new(holds) }
}
