//! The memory of calls in flight, for any number of controllers.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use homeostat_component::{EngineOptions, Limits};
use homeostat_runtime::Definition;
use homeostat_store::Key;

use super::host::{BenchHost, CountingObserver};
use super::idle::{compiled, mib};
use crate::arguments::Size;
use crate::measure::resident_bytes;
use crate::plan::FLIGHTS;
use crate::values::Values;

/// More than are ever in flight, even for a single controller, which never gets the last quarter.
const INSTANCES_MAX: u32 = 512;
/// Longer than the work takes.
const DEADLINE: Duration = Duration::from_secs(600);
/// Time limit for calls to begin.
const BEGIN_MAX: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Lets increasing numbers of guests wait at once, and measures the growth of the process against none.
pub(super) async fn run(size: &Size, guests: &Path) -> Result<Values> {
    let (controllers, most) = (size.keys, FLIGHTS.map(|(flight, _)| flight).into_iter().max().unwrap_or_default());
    let count = CountingObserver::default();
    let options =
        EngineOptions { instances_max: INSTANCES_MAX, compiled: Some(compiled()), ..EngineOptions::default() };
    let measured = BenchHost::with(options, Arc::new(count.clone())).await?;
    let definition = measured.definition("waiting", "hostile", guests, most.div_ceil(controllers)).await?;
    let kind = definition.component.describe().manages.kind.clone();
    let name = |number: usize| format!("waiting-{number}");
    for number in 0..controllers {
        let limits = Limits { deadline: DEADLINE, ..Limits::default() };
        measured.add(Definition { name: name(number), limits, ..definition.clone() }).await?;
    }
    // One call first, so that lazily read memory is resident.
    measured.feed(&name(0), vec![Key::new(kind.clone(), "ns-0", "well")])?;
    count.until(1).await;
    let (before, mut begun, mut values) = (resident_bytes()?, 0, Values::new());
    for (flight, value) in FLIGHTS {
        for number in begun..flight {
            let key = Key::new(kind.clone(), &format!("ns-{number}"), "slow");
            measured.feed(&name(number % controllers), vec![key])?;
        }
        begun = flight;
        let all_fly = async {
            while measured.host.measure().instances_running < flight {
                tokio::time::sleep(LOOK_EVERY).await;
            }
        };
        tokio::time::timeout(BEGIN_MAX, all_fly).await.context("the calls do not begin")?;
        values.insert(value.to_owned(), mib(resident_bytes()?.saturating_sub(before).max(1)));
    }
    Ok(values)
}
