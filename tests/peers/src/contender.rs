//! Runs one contender: selects its work, does it, prints the figures.

use std::path::Path;

use anyhow::{Result, bail};

use crate::arguments::{Contender, Suite};
use crate::values::{self, Values};
use crate::{api, bare, bare_nats, cores, ours};

/// Does one work and prints its figures as one line of JSON. `guests` is the folder of the guests'
/// components.
///
/// # Errors
/// No system of that name does such a work, or it failed.
pub(crate) async fn run(contender: &Contender, guests: &Path) -> Result<()> {
    if contender.suite == Suite::Api {
        return values::print(&Box::pin(api::run(contender)).await?);
    }
    if let (Suite::Fleet, Some(guest)) = (contender.suite, contender.work.strip_prefix(ours::fleet::HOST)) {
        return ours::fleet_host::run(guest, contender, guests).await;
    }
    values::print(&Box::pin(values(contender, guests)).await?)
}

async fn values(contender: &Contender, guests: &Path) -> Result<Values> {
    let Contender { system, suite, work, size, server } = contender;
    let server = server.as_deref();
    if work == cores::TWO_CORES {
        return cores::run(contender, guests).await;
    }
    match (system.as_str(), suite) {
        ("homeostat", Suite::Queue) => ours::queue::run(work, size).await,
        ("homeostat", Suite::Loop) => ours::loops::run(work, size, guests).await,
        ("homeostat", Suite::Tax) => ours::tax::host(work, size, guests).await,
        ("homeostat", Suite::Store) => ours::store::run(work, size).await,
        ("homeostat", Suite::Stores) => ours::stores::run(work, size, guests, server).await,
        ("async-nats", Suite::Stores) => bare_nats::run(size, server).await,
        ("homeostat", Suite::Density) => ours::density::run(work, size, guests).await,
        ("homeostat", Suite::Swap) => ours::swap::run(work, size, guests).await,
        ("homeostat", Suite::Fleet) => ours::fleet::run(contender, guests).await,
        ("homeostat", Suite::Languages) => ours::languages::run(work, size, guests).await,
        ("homeostat-component", Suite::Tax) => ours::tax::sandbox(work, size, guests).await,
        ("wasmtime", Suite::Tax) => bare::run(work, size, guests).await,
        _ => bail!("{system} has nothing to do with {}", suite.name()),
    }
}
