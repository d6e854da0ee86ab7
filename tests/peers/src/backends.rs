//! The servers of the suite `stores`, which the driver starts for one work.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use homeostat_servers::{Flush, Nats, NatsOptions};

use crate::cluster::MeasuredCluster;
use crate::controllers;
use crate::plan::{Backend, OURS, STATUS_EMBEDDED, System, Work};
use crate::process::{self, Programs};
use crate::values::Values;

/// A running server. It is killed when this is dropped, and when this process ends.
pub(crate) enum Server {
    Cluster(Box<MeasuredCluster>),
    Nats(Box<Nats>),
}

/// Starts a server with its data below `disk`. The first call on a machine builds it. Blocks until it answers.
///
/// # Errors
/// The cluster does not accept the kind of the resources.
///
/// # Panics
/// When the server cannot be built or started.
pub(crate) async fn start(backend: Backend, disk: &Path) -> Result<Server> {
    // The default folder of temporary files is in memory on many machines.
    let disk = disk.canonicalize().context("the folder for the servers cannot be found")?;
    let is_set = tempfile::env::override_temp_dir(&disk).is_ok();
    ensure!(is_set || tempfile::env::temp_dir() == disk, "the folder of temporary files cannot be chosen");
    let nats = |flush| Server::Nats(Box::new(Nats::start_with(NatsOptions { flush, ..NatsOptions::default() })));
    Ok(match backend {
        Backend::Cluster => Server::Cluster(Box::new(MeasuredCluster::start().await?)),
        Backend::Nats => nats(Flush::Never),
        Backend::NatsFlushed => nats(Flush::Always),
    })
}

impl Server {
    /// Runs `system` on `work` once, and returns its figures.
    ///
    /// *Cancel safety*: the process of the contender is killed when the future is dropped.
    ///
    /// # Errors
    /// As [`process::run`] and [`controllers::run`].
    pub(crate) async fn run(&self, programs: &Programs, system: &System, work: &Work) -> Result<Values> {
        match self {
            Server::Nats(nats) => process::run(programs, system, work, Some(&nats.url())).await,
            // It needs no server, so it measures itself.
            Server::Cluster(_) if work.name == STATUS_EMBEDDED && *system == OURS => {
                process::run(programs, system, work, None).await
            }
            Server::Cluster(cluster) => controllers::run(programs, system, work, cluster).await,
        }
    }
}
