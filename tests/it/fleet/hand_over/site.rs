//! A private server that a fleet shares: a nats-server, or a kube-apiserver with etcd.

use std::sync::Arc;

use homeostat_kubernetes::{ClusterSettings, Credentials};
use homeostat_nats::settings::Create;
use homeostat_nats::{Bucket, BucketSettings};
use homeostat_store::SystemClockAndIds;
use homeostat_store::cached::Upstream;
use homeostat_store::schema::Schemas;
use homeostat_tests::{Cluster, ClusterOptions, Nats, Proxy};
use serde_json::{Value, json};

use super::super::define;

const BUCKET: &str = "fleet";
const NAMESPACE: &str = "default";

/// A server, and a connection of the test to it.
pub(super) struct Site {
    server: Server,
    upstream: Arc<dyn Upstream>,
}

enum Server {
    Nats(Box<Nats>),
    Cluster(Box<Cluster>),
}

impl Site {
    pub(super) fn nats() -> Self {
        let nats = Nats::start();
        let settings = BucketSettings { create: Some(Create::default()), ..BucketSettings::new(nats.url(), BUCKET) };
        let bucket = Bucket::new(settings, Schemas::default(), Arc::new(SystemClockAndIds)).unwrap();
        Self { server: Server::Nats(Box::new(nats)), upstream: Arc::new(bucket) }
    }

    pub(super) fn cluster() -> Self {
        let cluster = Cluster::start(ClusterOptions::default());
        define(&cluster, "Fetcher");
        let credentials = Credentials::Kubeconfig { files: vec![cluster.kubeconfig("admin")], context: None };
        let settings =
            ClusterSettings { namespace: Some(NAMESPACE.to_owned()), ..ClusterSettings::new("cluster", credentials) };
        let upstream = Arc::new(homeostat_kubernetes::Cluster::new(settings));
        Self { server: Server::Cluster(Box::new(cluster)), upstream }
    }

    pub(super) fn name(&self) -> &'static str {
        match &self.server {
            Server::Nats(_) => "nats",
            Server::Cluster(_) => "kubernetes",
        }
    }

    pub(super) fn namespace(&self) -> &'static str {
        NAMESPACE
    }

    pub(super) fn upstream(&self) -> &Arc<dyn Upstream> {
        &self.upstream
    }

    pub(super) fn port(&self) -> u16 {
        match &self.server {
            Server::Nats(nats) => nats.port(),
            Server::Cluster(cluster) => cluster.apiserver().port(),
        }
    }

    /// Returns the store of a host that connects through a proxy.
    pub(super) fn store_behind(&self, proxy: &Proxy) -> Value {
        match &self.server {
            Server::Nats(_) => {
                let servers = [format!("nats://{}", proxy.address())];
                json!({"name": "bus", "nats": {"servers": servers, "bucket": BUCKET, "create": {}}})
            }
            Server::Cluster(cluster) => {
                let user = json!({"token": Cluster::token("admin")});
                let kubeconfig = cluster.kubeconfig_with(&format!("https://{}", proxy.address()), &user);
                json!({"name": "cluster", "kubernetes": {"kubeconfig": kubeconfig, "namespace": NAMESPACE}})
            }
        }
    }

    /// Kills the server, starts it, and waits until it answers.
    pub(super) fn restart(&self) {
        let server = match &self.server {
            Server::Nats(nats) => nats.server(),
            Server::Cluster(cluster) => cluster.apiserver().server(),
        };
        server.kill();
        server.start();
    }
}
