//! The hosts of a measured fleet, each bound to one processor, over one bucket of NATS.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use homeostat_store::{Change, Precondition, Query, Resource, Scope, Store, Subscription, View, Watch, Write};
use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use super::fleet_host::{FEED, SHARDS, STATUS_GUEST};
use super::host::key;
use super::idle::compile_guest_apart;
use super::store::{WRITERS_MAX, together};
use super::stores::nats_store;
use crate::arguments::Contender;
use crate::cluster::{TEXT_BYTES, kind, resource};
use crate::keys;
use crate::values::{Values, named};

/// The beginning of the work of one host of a fleet.
pub(crate) const HOST: &str = "host ";
/// The length of the texts that are changed.
const CHANGED_BYTES: usize = TEXT_BYTES + 1;
/// The share of reconciles that may fail.
const FAILED_SHARE_MAX: f64 = 0.02;
/// The interval between checks for completion.
const LOOKS_EVERY: Duration = Duration::from_millis(2);
/// How long the hosts have nothing to do before they are measured.
const REST: Duration = Duration::from_secs(1);
/// How long a host may take to end.
const END_MAX: Duration = Duration::from_secs(10);

/// Runs a loop on so many hosts as the size has workers, and returns its throughput and processor time.
///
/// *Cancel safety*: the processes are killed when the future is dropped.
///
/// # Errors
/// A host does not start, ends, or loses its leases; or the server does not answer.
pub(crate) async fn run(contender: &Contender, guests: &Path) -> Result<Values> {
    let server = contender.server.as_deref().context("the work needs a server")?;
    let (keys, bucket) = (contender.size.keys, format!("fleet-{}", std::process::id()));
    let is_status = contender.work.starts_with("status");
    let guest = if is_status { STATUS_GUEST } else { "noop" };
    // As in the host's binary, compilation is no part of the process.
    compile_guest_apart(guest, guests).await?;
    let store: Arc<dyn Store> = Arc::new(nats_store(server, &bucket)?);
    let hosts = 0..contender.size.workers.max(1);
    let start = |number| FleetHost::start(number, guest, &format!("{server} {bucket} host-{number}"), keys, guests);
    let mut hosts: Vec<FleetHost> = hosts.map(start).collect::<Result<_>>()?;
    if is_status {
        create_all(&store, keys).await?;
    }
    until_even(&mut hosts).await?;
    if is_status {
        // The list of each new shard leads to a reconcile of each of its keys.
        let mut statuses = Statuses::follow(&store).await?;
        statuses.reach(TEXT_BYTES).await?;
        until_at_rest(&mut hosts).await?;
    }
    tokio::time::sleep(REST).await;
    let before = sum(&states(&mut hosts).await?);
    let start = Instant::now();
    if is_status {
        change_all(&store, keys).await?;
    } else {
        for host in &mut hosts {
            host.say(FEED).await?;
        }
        while sum(&states(&mut hosts).await?).reconciled < before.reconciled + keys as f64 {
            tokio::time::sleep(LOOKS_EVERY).await;
        }
    }
    let took = start.elapsed();
    let states = states(&mut hosts).await?;
    ensure!(is_even(&states), "a host has lost a lease: {states:?}");
    let after = sum(&states);
    // A write that the resource has changed under is one: a retry costs time, and is part of the loop.
    let failed = after.failed - before.failed;
    ensure!(failed <= keys as f64 * FAILED_SHARE_MAX, "{failed} reconciles failed");
    for host in hosts {
        host.end().await?;
    }
    Ok(named([
        ("keys/s", keys as f64 / took.as_secs_f64()),
        ("cpu us", (after.nanos - before.nanos) / 1e3 / keys as f64),
    ]))
}

async fn create_all(store: &Arc<dyn Store>, keys: usize) -> Result<()> {
    let writer = |writer| {
        let store = Arc::clone(store);
        async move {
            for number in (writer..keys).step_by(WRITERS_MAX) {
                store.write(Write::Create { document: resource(number, TEXT_BYTES) }).await?;
            }
            Ok(())
        }
    };
    together(WRITERS_MAX, writer).await.map(drop)
}

/// Changes every resource, and waits until the status of each is up to date.
async fn change_all(store: &Arc<dyn Store>, count: usize) -> Result<()> {
    let mut statuses = Statuses::follow(store).await?;
    let writer = |writer| {
        let store = Arc::clone(store);
        async move {
            for number in (writer..count).step_by(WRITERS_MAX) {
                let change = Change::Merge(json!({"spec": {"text": "x".repeat(CHANGED_BYTES)}}));
                let (key, precondition) = (key(&kind(), number), Precondition::default());
                store.write(Write::Patch { key, change, precondition }).await?;
            }
            Ok(())
        }
    };
    tokio::try_join!(together(WRITERS_MAX, writer), statuses.reach(CHANGED_BYTES)).map(drop)
}

/// The statuses of all resources, as a watch shows them.
struct Statuses {
    /// The length of each text by its status; `None` before the first one.
    characters: BTreeMap<usize, Option<u64>>,
    watch: Watch,
    _subscription: Subscription,
}

impl Statuses {
    /// Lists the resources, and watches them from then on.
    async fn follow(store: &Arc<dyn Store>) -> Result<Self> {
        let subscription = store.subscribe(&kind(), View::Whole);
        let list = store.list(&Query::all(kind())).await?;
        let watch = store.watch(Scope::Kind(kind()), list.revision).await?;
        let mut statuses = Self { characters: BTreeMap::new(), watch, _subscription: subscription };
        for resource in &list.items {
            let _noted = statuses.note(resource);
        }
        Ok(statuses)
    }

    /// Waits until the status of each resource has this length.
    async fn reach(&mut self, length: usize) -> Result<()> {
        let length = Some(length as u64);
        let is_outdated = |(number, characters): (&usize, &Option<u64>)| (*characters != length).then_some(*number);
        let mut outdated: BTreeSet<usize> = self.characters.iter().filter_map(is_outdated).collect();
        while !outdated.is_empty() {
            let resource = self.watch.next().await?.resource;
            match self.note(&resource) {
                Some((number, characters)) if characters == length => drop(outdated.remove(&number)),
                Some((number, _)) => drop(outdated.insert(number)),
                None => {}
            }
        }
        Ok(())
    }

    /// Records a resource, and returns its number and the length by its status. Others than the measured ones are ignored.
    fn note(&mut self, resource: &Resource) -> Option<(usize, Option<u64>)> {
        let number = keys::number(resource.key().name())?;
        let characters = resource.status()["characters"].as_u64();
        self.characters.insert(number, characters);
        Some((number, characters))
    }
}

/// Waits until each host has its share of the shards.
async fn until_even(hosts: &mut [FleetHost]) -> Result<()> {
    while !is_even(&states(hosts).await?) {
        tokio::time::sleep(REST / 10).await;
    }
    Ok(())
}

/// Waits until no host has reconciled anything for a while.
async fn until_at_rest(hosts: &mut [FleetHost]) -> Result<()> {
    loop {
        let before = sum(&states(hosts).await?).reconciled;
        tokio::time::sleep(REST).await;
        if sum(&states(hosts).await?).reconciled == before {
            return Ok(());
        }
    }
}

fn is_even(states: &[HostState]) -> bool {
    let share = f64::from(SHARDS) / states.len() as f64;
    states.iter().all(|state| (state.held - share).abs() < 1.0) && sum(states).held == f64::from(SHARDS)
}

fn sum(states: &[HostState]) -> HostState {
    states.iter().fold(HostState::default(), |sum, state| HostState {
        held: sum.held + state.held,
        reconciled: sum.reconciled + state.reconciled,
        failed: sum.failed + state.failed,
        nanos: sum.nanos + state.nanos,
    })
}

async fn states(hosts: &mut [FleetHost]) -> Result<Vec<HostState>> {
    let mut states = Vec::with_capacity(hosts.len());
    for host in hosts {
        states.push(host.state().await?);
    }
    Ok(states)
}

/// What a host prints.
#[derive(Debug, Default)]
struct HostState {
    /// Its leases of shards.
    held: f64,
    /// The reconciles that have ended.
    reconciled: f64,
    /// Those of them that failed.
    failed: f64,
    /// The processor time of its threads.
    nanos: f64,
}

/// The process of a host. It is killed when this is dropped.
struct FleetHost {
    child: Child,
    input: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
}

impl FleetHost {
    /// Starts host number `number` on one processor; the first one is left to the server and the driver where there are
    /// enough.
    fn start(number: usize, guest: &str, server: &str, keys: usize, guests: &Path) -> Result<FleetHost> {
        let processors = std::thread::available_parallelism()?.get();
        let program = std::env::current_exe().context("this program does not know where it is")?;
        let mut command = Command::new("taskset");
        command.args(["-c", &((number + 1) % processors).to_string()]).arg(program);
        command.args(["contender", "homeostat", "fleet", &format!("{HOST}{guest}"), "--server", server]);
        command.args(["--keys", &keys.to_string(), "--guests"]).arg(guests);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().context("taskset, of util-linux, does not start")?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let lines = BufReader::new(output.context("it has no output")?).lines();
        Ok(FleetHost { child, input: input.context("it has no input")?, lines })
    }

    async fn say(&mut self, line: &str) -> Result<()> {
        self.input.write_all(format!("{line}\n").as_bytes()).await.context("a host does not read its input")
    }

    async fn state(&mut self) -> Result<HostState> {
        self.say("state").await?;
        let line = self.lines.next_line().await?.context("a host has ended")?;
        let values: Values = serde_json::from_str(&line).with_context(|| format!("a host printed {line:?}"))?;
        let value = |name: &str| values.get(name).copied().with_context(|| format!("a host did not print {name}"));
        let (held, reconciled, failed) = (value("held")?, value("reconciled")?, value("failed")?);
        Ok(HostState { held, reconciled, failed, nanos: value("nanos")? })
    }

    /// Closes the input, at which the host ends.
    async fn end(self) -> Result<()> {
        let FleetHost { mut child, input, lines: _lines } = self;
        drop(input);
        tokio::time::timeout(END_MAX, child.wait()).await.context("a host does not end")??;
        Ok(())
    }
}
