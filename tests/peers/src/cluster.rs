//! The cluster of the suite `stores`: its kind, its resources, and the requests that its server has counted.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use homeostat_kubernetes::{ClusterSettings, Credentials};
use homeostat_servers::{Cluster, ClusterOptions, Flush};
use homeostat_store::cached::{CachedStore, Options};
use homeostat_store::{Change, Key, Kind, Precondition, Scope, Store, Subscription, View, Write};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

use crate::keys;
use crate::ours::host::key;
use crate::ours::store::{WRITERS_MAX, together};
use crate::progress::Progress;

/// The user of everything in the cluster, whom no fairness of the server holds up.
const USER: &str = "admin";
const GROUP: &str = "demo.homeostat.dev";
const PLURAL: &str = "measureds";
/// The text in a resource, such that the whole document has about 1 KiB.
pub(crate) const TEXT_BYTES: usize = 700;
/// Different lengths of texts.
const LENGTHS: usize = 64;
/// The interval of single changes.
const CHANGE_EVERY: Duration = Duration::from_millis(5);

/// A cluster with the kind of the guest `status`. The driver's own store changes and watches the resources.
pub(crate) struct MeasuredCluster {
    store: Arc<CachedStore>,
    kubeconfig: PathBuf,
    /// The number of times that all texts have changed.
    generation: AtomicUsize,
    _subscription: Subscription,
    /// The last field: clients end before their server.
    cluster: Cluster,
}

impl MeasuredCluster {
    /// Starts a cluster whose etcd flushes each write, and defines the kind.
    ///
    /// # Errors
    /// The server does not accept the kind, or the driver's store cannot use it.
    ///
    /// # Panics
    /// When the servers cannot be built or started.
    pub(crate) async fn start() -> Result<MeasuredCluster> {
        let cluster = Cluster::start(ClusterOptions { flush: Flush::Always, ..ClusterOptions::default() });
        let created = |path: &str, document: &Value| {
            let answer = cluster.request("POST", path, Some(document));
            ensure!(answer.status == 201, "{path} was answered with {answer:?}");
            Ok(())
        };
        created("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition())?;
        for number in 0..keys::NAMESPACES {
            created("/api/v1/namespaces", &json!({"metadata": {"name": keys::parts(number).0}}))?;
        }
        homeostat_testing::eventually("the kind to be served", async || {
            let path = format!("/apis/{GROUP}/v1/{PLURAL}");
            (cluster.request("GET", &path, None).status == 200).then_some(())
        })
        .await;
        let kubeconfig = cluster.kubeconfig(USER);
        let store = Arc::new(open(&kubeconfig));
        let subscription = store.subscribe(&kind(), View::Whole);
        Ok(MeasuredCluster { store, kubeconfig, generation: AtomicUsize::new(0), _subscription: subscription, cluster })
    }

    /// Returns the file of kubectl with which a contender finds the cluster.
    ///
    /// # Errors
    /// Its path is no text.
    pub(crate) fn kubeconfig(&self) -> Result<&str> {
        self.kubeconfig.to_str().context("the path of the kubeconfig is no text")
    }

    /// Follows the resources in a task of `tasks`, which ends with an error when it cannot.
    ///
    /// # Errors
    /// The server does not answer.
    pub(crate) async fn follow(&self, progress: Arc<Progress>, tasks: &mut JoinSet<Result<()>>) -> Result<()> {
        let revision = self.store.revision(&Scope::Kind(kind())).await?;
        let mut watch = self.store.watch(Scope::Kind(kind()), revision).await?;
        tasks.spawn(async move {
            loop {
                progress.note(&watch.next().await?.resource);
            }
        });
        Ok(())
    }

    /// Changes the text of each resource, or creates it, so that its status is out of date.
    ///
    /// # Errors
    /// The server refuses a write.
    pub(crate) async fn change_all(&self, count: usize) -> Result<()> {
        let generation = self.generation.fetch_add(1, Ordering::Relaxed);
        let writer = |writer| {
            let store = Arc::clone(&self.store);
            async move {
                for number in (writer..count).step_by(WRITERS_MAX) {
                    let length = text_bytes(generation);
                    let write = if generation == 0 {
                        Write::Create { document: resource(number, length) }
                    } else {
                        change(number, length)
                    };
                    store.write(write).await?;
                }
                Ok(())
            }
        };
        together(WRITERS_MAX, writer).await.map(drop)
    }

    /// Changes the texts of single resources, one every [`CHANGE_EVERY`], and returns how many it changed.
    ///
    /// # Errors
    /// The server refuses a write.
    pub(crate) async fn change_some(&self, count: usize, long: Duration) -> Result<usize> {
        let length = text_bytes(self.generation.fetch_add(1, Ordering::Relaxed));
        let mut ticks = tokio::time::interval(CHANGE_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut writes, start, mut changed) = (JoinSet::new(), tokio::time::Instant::now(), 0);
        for number in keys::shuffled(count).take_while(|_| start.elapsed() < long) {
            ticks.tick().await;
            let store = Arc::clone(&self.store);
            writes.spawn(async move { store.write(change(number, length)).await });
            changed += 1;
        }
        while let Some(written) = writes.join_next().await {
            drop(written.context("a writer failed")??);
        }
        Ok(changed)
    }

    /// Returns the number of requests about the kind that the server has answered. A watch counts at its end.
    ///
    /// # Errors
    /// The server does not say.
    pub(crate) fn requests(&self) -> Result<f64> {
        let answer = self.cluster.request("GET", "/metrics", None);
        ensure!(answer.status == 200, "/metrics was answered with {}", answer.status);
        requests(&answer.text)
    }
}

/// Opens the store of a cluster with its default settings.
pub(crate) fn open(kubeconfig: &Path) -> CachedStore {
    let credentials = Credentials::Kubeconfig { files: vec![kubeconfig.to_owned()], context: None };
    homeostat_kubernetes::open(ClusterSettings::new("cluster", credentials), Options::default())
}

/// Sums up the server's counts of requests about the kind.
fn requests(metrics: &str) -> Result<f64> {
    let is_ours = |line: &&str| {
        line.starts_with("apiserver_request_total{")
            && line.contains(&format!(r#"group="{GROUP}""#))
            && line.contains(&format!(r#"resource="{PLURAL}""#))
    };
    let count = |line: &str| line.rsplit(' ').next().and_then(|number| number.parse::<f64>().ok());
    metrics.lines().filter(is_ours).map(|line| count(line).with_context(|| format!("{line:?} has no count"))).sum()
}

/// The kind that the guest `status` manages.
pub(crate) fn kind() -> Kind {
    Kind::new(GROUP, "v1", "Measured")
}

fn definition() -> Value {
    let number = json!({"type": "object", "properties": {"characters": {"type": "integer"}}});
    let text = json!({"type": "object", "properties": {"text": {"type": "string"}}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{PLURAL}.{GROUP}")},
        "spec": {
            "group": GROUP, "scope": "Namespaced",
            "names": {"plural": PLURAL, "singular": "measured", "kind": "Measured", "listKind": "MeasuredList"},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": text, "status": number}}},
            }],
        },
    })
}

/// Returns resource number `number` with a text of this length.
pub(crate) fn resource(number: usize, text_bytes: usize) -> Value {
    let ((namespace, name), kind) = (keys::parts(number), kind());
    json!({
        "apiVersion": kind.api_version(), "kind": kind.name,
        "metadata": {"namespace": namespace, "name": name, "labels": {"app": "measured", "part-of": "peers"}},
        "spec": {"text": "x".repeat(text_bytes)},
    })
}

fn change(number: usize, text_bytes: usize) -> Write {
    let key: Key = key(&kind(), number);
    let change = Change::Merge(json!({"spec": {"text": "x".repeat(text_bytes)}}));
    Write::Patch { key, change, precondition: Precondition::default() }
}

/// Returns the length of texts after so many changes. Consecutive ones differ.
fn text_bytes(generation: usize) -> usize {
    TEXT_BYTES + generation % LENGTHS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_about_the_kind_are_counted_whatever_their_verb() {
        let metrics = r#"
# TYPE apiserver_request_total counter
apiserver_request_total{code="200",group="demo.homeostat.dev",resource="measureds",subresource="status",verb="PATCH"} 12
apiserver_request_total{code="200",group="demo.homeostat.dev",resource="measureds",subresource="",verb="LIST"} 1e+00
apiserver_request_total{code="200",group="demo.homeostat.dev",resource="others",subresource="",verb="LIST"} 5
apiserver_request_duration{group="demo.homeostat.dev",resource="measureds"} 5
"#;
        assert_eq!(requests(metrics).unwrap(), 13.0);
        assert_eq!(requests("").unwrap(), 0.0);
    }

    #[test]
    fn a_resource_has_about_a_kibibyte_as_the_server_shows_it() {
        // The server adds a uid, times, the generation and the owners of the fields.
        let added = 350;
        let bytes = resource(1234, TEXT_BYTES).to_string().len() + added;
        assert!((900..1400).contains(&bytes), "{bytes}");
    }
}
