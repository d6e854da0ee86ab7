//! One contender's run: finds who it is, does the work, prints the figures.

use std::collections::BTreeMap;
use std::io::Write;

use anyhow::{Context, Result, bail};

use crate::arguments::{Contender, Suite};
use crate::{bare, kube, ours};

/// What one run came to: a number under each of the names that the work has for them.
pub(crate) type Values = BTreeMap<String, f64>;

/// Does one work and prints what it came to, as one line of JSON.
///
/// # Errors
/// Nobody of that name does such a work, or it went wrong.
pub(crate) async fn run(contender: &Contender) -> Result<()> {
    let values = Box::pin(values(contender)).await?;
    let line = serde_json::to_string(&values).context("the figures are no JSON")?;
    writeln!(std::io::stdout(), "{line}").context("the figures cannot be printed")
}

async fn values(contender: &Contender) -> Result<Values> {
    let Contender { system, suite, work, size, guests } = contender;
    match (system.as_str(), suite) {
        ("homeostat", Suite::Queue) => ours::queue::run(work, size).await,
        ("homeostat", Suite::Loop) => ours::loops::run(work, size, guests).await,
        ("homeostat", Suite::Tax) => ours::tax::host(work, size, guests).await,
        ("homeostat-component", Suite::Tax) => ours::tax::sandbox(work, size, guests).await,
        ("wasmtime", Suite::Tax) => bare::run(work, size, guests).await,
        ("kube-rs", Suite::Queue) => kube::queue::run(work, size).await,
        ("kube-rs", Suite::Loop) => kube::loops::run(work, size).await,
        _ => bail!("{system} has nothing to do with {}", suite.name()),
    }
}

/// Returns the figures of a run that has them under these names.
pub(crate) fn named<const COUNT: usize>(values: [(&str, f64); COUNT]) -> Values {
    values.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}
