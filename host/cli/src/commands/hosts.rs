//! `homeostat hosts`: lists the hosts of a fleet with the leases that they hold. `homeostat drain` and
//! `homeostat uncordon`: give the leases of a host to others, and end that.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Duration;

use homeostat_runtime::manifest::Span;
use reqwest::Method;
use serde_json::{Map, Value, json};
use tokio::time;

use super::get;
use crate::client::{Client, ResourceFormat, with_query};
use crate::document::text;
use crate::exit;
use crate::global::{Format, Global};
use crate::output;

/// List the hosts that share stores with this one, with the leases that they hold
///
/// A controller whose kind lives in a store that several hosts share works on the host that holds its lease. With
/// shards it has one lease for each of them, as `web/3-of-8`. Leases are shown for the controllers of this host. A
/// host that was killed is listed until its leases have run out. `homeostat get hosts` shows the same as resources,
/// which can be watched, and hosts that are gone for an hour.
///
/// With `-o wide`, LOAD is the processor time of the keys of these leases over about the last minute, in cores.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct HostsArgs {}

/// Give all leases of a host to other hosts, for example before an upgrade
///
/// Running reconciles have 10 s to finish. The host takes no other lease until it starts again, or until
/// `homeostat uncordon`. If no other host has a controller, its keys wait meanwhile. Controllers without
/// leases go on: those with the placement `every-host`, and those whose kind lives in a store of the host
/// alone.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct DrainArgs {
    /// The name of another host of the fleet [default: the host that is asked]
    host: Option<String>,
    /// Wait until the host holds no lease, for this time at most
    #[arg(long, value_name = "SPAN")]
    wait: Option<Span>,
}

/// End the drain of a host: it takes leases again
///
/// Leases that other hosts hold stay with them, except those that are moved so that the load evens out.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct UncordonArgs {
    /// The name of another host of the fleet [default: the host that is asked]
    host: Option<String>,
}

/// The path of the hosts as the asked host sees them at this moment.
const HOSTS_PATH: &str = "/homeostat/v1/hosts";
/// The path of the hosts as resources.
const HOST_RESOURCES_PATH: &str = "/apis/homeostat.dev/v1alpha1/hosts";

/// The time between two looks at the leases of a host that drains.
const LOOK_PERIOD: Duration = Duration::from_millis(100);

/// Runs `homeostat hosts`.
///
/// # Errors
/// When the host cannot answer.
pub(crate) async fn list(_: HostsArgs, global: &Global) -> anyhow::Result<ExitCode> {
    let format = global.format(&[Format::Table, Format::Wide, Format::Json, Format::Yaml, Format::Name])?;
    let client = Client::new(global)?;
    if matches!(format, Format::Table | Format::Wide) {
        let table = client.get_as(ResourceFormat::Table, HOSTS_PATH).await?;
        output::print(&get::table_text(&table, format == Format::Wide)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let items = hosts(&client, None).await?;
    let list = || json!({ "apiVersion": "homeostat.dev/v1alpha1", "kind": "HostList", "items": &items });
    output::print(&match format {
        Format::Json => output::json(&list()),
        Format::Yaml => output::yaml(&list())?,
        _ => items.iter().map(|item| format!("host/{}\n", text(item, "/name"))).collect(),
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Runs `homeostat drain`.
///
/// # Errors
/// When the host cannot answer, or still holds leases at the end of the wait.
pub(crate) async fn drain(args: DrainArgs, global: &Global) -> anyhow::Result<ExitCode> {
    let DrainArgs { host, wait } = args;
    global.format(&[Format::Table])?;
    let client = Client::new(global)?;
    let host = host.as_deref();
    client.send(Method::POST, &at("/homeostat/v1/drain", host), "application/json", "").await?;
    let items = hosts(&client, host).await?;
    let (name, mut held) = (text(this(&items)?, "/name").to_owned(), leases(this(&items)?));
    if items.iter().all(|item| item["isThis"] == true || item["isDraining"] == true) {
        output::eprint(&format!("no other host is known that takes leases: those of host {name} stay free\n"));
    }
    let Some(Span(wait)) = wait else {
        output::print(&format!("host/{name} drains\n"))?;
        return Ok(ExitCode::SUCCESS);
    };
    let Ok(drained) = time::timeout(wait, wait_until_drained(&client, host, &mut held)).await else {
        let (wait, held) = (Span(wait), held.join(", "));
        return Err(exit::failed(format!("host {name} still drains after {wait}: it holds {held}")));
    };
    drained?;
    output::print(&format!("host/{name} drained\n"))?;
    Ok(ExitCode::SUCCESS)
}

/// Runs `homeostat uncordon`.
///
/// # Errors
/// When the host cannot answer.
pub(crate) async fn uncordon(args: UncordonArgs, global: &Global) -> anyhow::Result<ExitCode> {
    global.format(&[Format::Table])?;
    let client = Client::new(global)?;
    let host = args.host.as_deref();
    client.send(Method::POST, &at("/homeostat/v1/uncordon", host), "application/json", "").await?;
    output::print(&format!("host/{} uncordoned\n", text(this(&hosts(&client, host).await?)?, "/name")))?;
    Ok(ExitCode::SUCCESS)
}

/// Looks at the leases of the host until it holds none. `held` has the last ones.
async fn wait_until_drained(client: &Client, host: Option<&str>, held: &mut Vec<String>) -> anyhow::Result<()> {
    loop {
        *held = leases(this(&hosts(client, host).await?)?);
        if held.is_empty() {
            return Ok(());
        }
        time::sleep(LOOK_PERIOD).await;
    }
}

/// Returns the path of a request that a host of this name answers; by default the asked host.
fn at(path: &str, host: Option<&str>) -> String {
    with_query(path, &[("host", host)])
}

/// Returns the hosts of the fleet, as the host of this name sees them. It marks itself as this one.
async fn hosts(client: &Client, host: Option<&str>) -> anyhow::Result<Vec<Value>> {
    let mut answer = client.get(&at(HOSTS_PATH, host)).await?;
    Ok(answer["items"].as_array_mut().map(std::mem::take).unwrap_or_default())
}

fn this(items: &[Value]) -> anyhow::Result<&Value> {
    let this = items.iter().find(|item| item["isThis"] == true);
    this.ok_or_else(|| exit::internal("the host does not list itself"))
}

fn leases(item: &Value) -> Vec<String> {
    item["leases"].as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Returns a load as cores, from thousandths of a core; `-` if nobody has measured it.
pub(super) fn cores(millicores: &Value) -> String {
    millicores.as_u64().map_or_else(|| "-".to_owned(), |millicores| format!("{:.2}", millicores as f64 / 1000.0))
}

/// Returns what the hosts tell of the leases of a controller, by the number of the shard: `cpuMillicores`, its load in
/// thousandths of a core, and `holder`, `epoch` and `since` of its term. What they do not tell is missing.
pub(super) async fn held_leases(client: &Client, controller: &str) -> BTreeMap<u64, Map<String, Value>> {
    // A host of an earlier version tells none, and a user may have no right to these resources.
    let hosts = hosts(client, None).await.unwrap_or_default();
    let resources = client.get(HOST_RESOURCES_PATH).await.unwrap_or_default();
    merge_leases(&hosts, resources["items"].as_array().map_or(&[], Vec::as_slice), controller)
}

/// Merges the loads that hosts tell with the terms in the resources of the hosts.
fn merge_leases(hosts: &[Value], resources: &[Value], controller: &str) -> BTreeMap<u64, Map<String, Value>> {
    let mut leases: BTreeMap<u64, Map<String, Value>> = BTreeMap::new();
    let mut set = |lease: &str, field: &str, value: &Value| {
        if let Some(shard) = shard_of(lease, controller).filter(|_| !value.is_null()) {
            leases.entry(shard).or_default().insert(field.to_owned(), value.clone());
        }
    };
    for (lease, load) in hosts.iter().filter_map(|host| host["leaseCpuMillicores"].as_object()).flatten() {
        set(lease, "cpuMillicores", load);
    }
    for host in resources.iter().map(|resource| &resource["status"]) {
        for lease in host["leases"].as_array().into_iter().flatten() {
            let term = [("holder", &host["identity"]), ("epoch", &lease["epoch"]), ("since", &lease["since"])];
            term.iter().for_each(|(field, value)| set(text(lease, "/name"), field, value));
        }
    }
    leases
}

/// Returns the shard of a lease if it is one of this controller; a lease without shards has the number 0.
fn shard_of(lease: &str, controller: &str) -> Option<u64> {
    match lease.strip_prefix(controller)? {
        "" => Some(0),
        shard => shard.strip_prefix('/')?.split_once("-of-")?.0.parse().ok(),
    }
}

#[cfg(test)]
mod tests;
