//! The controller of the `Host` resources: they tell people, watches and guests what this host knows of itself and of
//! the hosts that share stores with it.
//!
//! Each host has its own resources in its own store, so no other store needs the kind or rights for it. A host writes
//! them only for what is new ([`plan`]), since each write is a durable one. A lease that runs out is no event, so the
//! controller looks each time the leases are balanced. A host without shared stores looks when something is done to it.
//!
//! Deliberately absent: decisions. Nothing reads these resources to place a lease.

mod document;
mod plan;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use homeostat_store::{Error, Key, Precondition, Propagation, Resource, Store, Write};
use homeostat_workqueue::{Next, Priority, Queue};
use serde_json::{Value, json};
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

use super::Fleet;
use crate::host_kinds::{API_VERSION, HOST_KIND, hosts};
use crate::listing::for_each_listed;
use crate::native_controller::{self, NativeReconciler};
use document::Moment;
use plan::{FleetView, KnownHost, Plan, Step};

/// The wait from a possible change to the look at it. What changes meanwhile is written at once.
const LOOK_DELAY: Duration = Duration::from_secs(1);
/// The wait after a failure: the first one, and the longest.
const RETRY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// Makes the controller look at the hosts. Clones are the same.
#[derive(Clone)]
pub(super) struct MirrorTrigger(Queue<Look>);

/// The one item of the queue: look at the hosts.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct Look;

impl Default for MirrorTrigger {
    fn default() -> Self {
        Self(native_controller::queue(RETRY.0, RETRY.1, None))
    }
}

impl MirrorTrigger {
    /// Says that a host may have changed. Without a controller nothing happens.
    pub(super) fn look_soon(&self) {
        // A closed queue means that the host is ending.
        let _ = self.0.add_after(Look, LOOK_DELAY, Priority::NORMAL);
    }
}

/// Keeps the `Host` resources of a fleet in this store until `end` is cancelled.
pub(crate) async fn run(fleet: Arc<Fleet>, store: Arc<dyn Store>, end: CancellationToken) {
    let queue = fleet.mirror.0.clone();
    let _ = queue.add(Look, Priority::NORMAL);
    let began = (fleet.clock)();
    let mirror = HostMirror { fleet, store: Arc::clone(&store), began, known: Mutex::default() };
    native_controller::run(Arc::new(mirror), store, queue, None, end).await;
}

/// Returns this host and those that share stores with it as documents, as they are now.
pub(super) fn documents(fleet: &Fleet) -> Vec<Value> {
    let (view, moment) = (view(fleet, Duration::ZERO), moment(fleet));
    let document = |host| {
        let status = document::of_host(&Value::Null, host, host.identity == view.this, &moment);
        json!({ "apiVersion": API_VERSION, "kind": HOST_KIND, "metadata": { "name": host.identity.host() }, "status": status })
    };
    view.hosts.iter().map(document).collect()
}

fn view(fleet: &Fleet, began: Duration) -> FleetView {
    FleetView {
        hosts: fleet.sharing_hosts(),
        this: fleet.identity.clone(),
        released: fleet.released(),
        complete_at: began + fleet.times.length,
    }
}

fn moment(fleet: &Fleet) -> Moment {
    Moment { now: (fleet.clock)(), time: (fleet.time_of_day)() }
}

/// The controller of the `Host` resources.
struct HostMirror {
    fleet: Arc<Fleet>,
    store: Arc<dyn Store>,
    /// When it began, by the clock of the leases.
    began: Duration,
    /// By name; `None` before they were listed, and after a write that failed.
    known: Mutex<Option<BTreeMap<String, KnownHost>>>,
}

impl NativeReconciler for HostMirror {
    type Item = Look;
    const NAME: &'static str = "hosts";
    const CONCURRENCY_MAX: usize = 1;

    async fn reconcile(&self, _: &Look) -> Result<Next, String> {
        let mut known = self.known.lock().await;
        // Taken out: after a failure or a drop of this future, the resources are listed again.
        let mut hosts = match known.take() {
            Some(hosts) => hosts,
            None => self.list().await.map_err(|error| failed(&error))?,
        };
        let moment = moment(&self.fleet);
        let Plan { steps, next } = plan::plan(&hosts, &view(&self.fleet, self.began), &moment);
        for step in steps {
            self.carry_out(step, &mut hosts, &moment).await.map_err(|error| failed(&error))?;
        }
        *known = Some(hosts);
        Ok(next.map_or(Next::Done, Next::After))
    }
}

fn failed(error: &Error) -> String {
    tracing::warn!(%error, "the resources of hosts cannot be written, it is retried");
    error.to_string()
}

impl HostMirror {
    async fn list(&self) -> homeostat_store::Result<BTreeMap<String, KnownHost>> {
        let mut listed = BTreeMap::new();
        let note =
            |resource: &Arc<Resource>| drop(listed.insert(resource.key().name().to_owned(), read(resource, None)));
        for_each_listed(&*self.store, &hosts(), note).await?;
        Ok(listed)
    }

    async fn carry_out(
        &self,
        step: Step,
        known: &mut BTreeMap<String, KnownHost>,
        moment: &Moment,
    ) -> homeostat_store::Result<()> {
        match step {
            Step::Write { name, status } => {
                let host = match known.remove(&name) {
                    Some(host) => host,
                    None => self.create(&name).await?,
                };
                let KnownHost { uid, revision, .. } = host;
                let (key, precondition) = (key(&name), Precondition { uid: Some(uid), revision: Some(revision) });
                let written = self.store.write(Write::UpdateStatus { key, status, precondition }).await?;
                known.insert(name, read(&written.resource, Some(moment.now)));
            }
            Step::Delete { name } => {
                let (key, precondition) = (key(&name), Precondition::default());
                match self
                    .store
                    .write(Write::Delete {
                        key,
                        precondition,
                        propagation: Propagation::Background,
                        grace_seconds: None,
                    })
                    .await
                {
                    Ok(_) | Err(Error::NotFound { .. }) => drop(known.remove(&name)),
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }

    async fn create(&self, name: &str) -> homeostat_store::Result<KnownHost> {
        let document = json!({ "apiVersion": API_VERSION, "kind": HOST_KIND, "metadata": { "name": name } });
        Ok(read(&self.store.write(Write::Create { document }).await?.resource, None))
    }
}

fn key(name: &str) -> Key {
    Key::new(hosts(), "", name)
}

fn read(resource: &Resource, written: Option<Duration>) -> KnownHost {
    let (uid, revision) = (resource.uid().to_owned(), resource.revision());
    KnownHost { uid, revision, status: resource.status().clone(), written }
}

#[cfg(test)]
mod tests;
