//! kube-rs's applier as a loop: an in-memory object store, a stream of keys, and a native reconciler that
//! does nothing.
//!
//! The reconciler runs in the applier's own task, its cheapest mode.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use futures_util::{StreamExt, future, stream};
use k8s_openapi::api::core::v1::ConfigMap;
use kube_runtime::controller::{Action, Config};
use kube_runtime::reflector::{self, ObjectRef};
use kube_runtime::{applier, watcher};
use parking_lot::Mutex;

use crate::arguments::Size;
use crate::keys;
use crate::measure::percentile_us;
use crate::values::{Values, named};

/// When each key was handed to the applier, and when its reconcile began.
struct Times {
    start: Instant,
    added: Mutex<Vec<Duration>>,
    begun: Mutex<Vec<Duration>>,
}

pub(crate) async fn run(work: &str, size: &Size) -> Result<Values> {
    if work != "no-op" {
        bail!("kube-rs's applier has no work {work}");
    }
    let size = *size;
    tokio::spawn(no_op(size)).await.context("the applier failed")?
}

async fn no_op(size: Size) -> Result<Values> {
    let (store, mut writer) = reflector::store();
    writer.apply_watcher_event(&watcher::Event::Init);
    for number in 0..size.keys {
        writer.apply_watcher_event(&watcher::Event::InitApply(object(number)));
    }
    writer.apply_watcher_event(&watcher::Event::InitDone);
    let keys: Vec<ObjectRef<ConfigMap>> = (0..size.keys).map(key).collect();
    let config = Config::default().concurrency(u16::try_from(size.workers).context("there are too many workers")?);
    let empty = || Mutex::new(vec![Duration::ZERO; size.keys]);
    let times = Arc::new(Times { start: Instant::now(), added: empty(), begun: empty() });
    let added = times.clone();
    let queue = stream::iter(keys.into_iter().enumerate()).map(move |(number, key)| {
        added.added.lock()[number] = added.start.elapsed();
        Ok::<_, Infallible>(key)
    });
    // The applier would end with the queue.
    let queue = queue.chain(stream::pending());
    let again = |_: Arc<ConfigMap>, _: &Infallible, _: Arc<Times>| Action::await_change();
    let mut ended = pin!(applier(reconcile, again, times.clone(), store, queue, config));
    for _ in 0..size.keys {
        let reconciled = ended.next().await.context("the applier ended")?;
        ensure!(reconciled.is_ok(), "a reconcile failed");
    }
    let took = times.start.elapsed();
    let (added, begun) = (times.added.lock(), times.begun.lock());
    let mut waits: Vec<Duration> =
        added.iter().zip(begun.iter()).map(|(added, begun)| begun.saturating_sub(*added)).collect();
    let per_second = size.keys as f64 / took.as_secs_f64();
    Ok(named([("keys/s", per_second), ("p99 ms", percentile_us(&mut waits, 99) / 1e3)]))
}

fn reconcile(object: Arc<ConfigMap>, times: Arc<Times>) -> future::Ready<Result<Action, Infallible>> {
    let number = object.metadata.name.as_deref().and_then(keys::number).expect("every object has a number");
    times.begun.lock()[number] = times.start.elapsed();
    future::ready(Ok(Action::await_change()))
}

fn key(number: usize) -> ObjectRef<ConfigMap> {
    let (namespace, name) = keys::parts(number);
    ObjectRef::new(&name).within(&namespace)
}

fn object(number: usize) -> ConfigMap {
    let (namespace, name) = keys::parts(number);
    let mut object = ConfigMap::default();
    object.metadata.namespace = Some(namespace);
    object.metadata.name = Some(name);
    object
}
