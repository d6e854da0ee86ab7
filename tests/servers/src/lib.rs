//! Real servers as processes on loopback, with their data in temporary folders: a Kubernetes without nodes, and NATS.
//! Also the foreign programs that tests run, which are built on demand.
//! Proxies between a client and a server lose, delay and count what passes.
//!
//! The servers are started by plain calls that block, so that tests with any executor can use them, and with a
//! paused clock too. They are killed with the value that stands for them, and when the test process ends in any way.

mod certificates;
mod cluster;
mod etcd;
mod http;
mod http_proxy;
mod nats;
mod ports;
mod process;
mod projects;
mod proxy;
mod server;
mod tools;

use std::path::Path;
use std::sync::OnceLock;

use parking_lot::{Condvar, Mutex};

pub use certificates::{Authority, CertificatePair};
pub use cluster::{ApiServer, CLUSTER_USERS, Cluster, ClusterOptions};
pub use etcd::{Etcd, Flush};
pub use http::{Answer, Client, Request, ask_plain, ask_plain_with};
pub use http_proxy::{HttpProxy, HttpReply, HttpRule};
pub use nats::{Nats, NatsAccess, NatsCluster, NatsOptions, NatsUser};
pub use projects::project_definitions;
pub use proxy::{NetworkFault, Proxy, Traffic};
pub use server::Server;
pub use tools::{
    crane, distribution_registry, elector, end_to_end_tests, helm, informer, kinds_writer, kube,
    kube_controller_manager, kube_scheduler, kubectl, manager, node_packages, node_tool, oras, python, python_tool,
    snapshot_controller, snapshot_definitions, test_go_environment, typed_documents,
};

/// The most private clusters at a time in one test process. A cluster takes half a GiB of memory.
const CLUSTERS_MAX: usize = 2;

/// Returns the root of the repository.
///
/// # Panics
/// Never: this crate is two folders below it.
pub fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("this crate is a folder of the repository")
}

/// Returns a cluster with controllers that the tests of this process share. A test that harms it starts its own one.
///
/// # Panics
/// When it cannot be built or started.
pub fn shared_cluster() -> &'static Cluster {
    static SHARED: OnceLock<Cluster> = OnceLock::new();
    SHARED.get_or_init(|| {
        Cluster::start_with(ClusterOptions { with_controllers: true, ..ClusterOptions::default() }, None)
    })
}

/// Returns a cluster without controllers that the tests of this process share: nobody but its clients changes anything
/// in it.
///
/// # Panics
/// When it cannot be built or started.
pub fn shared_bare_cluster() -> &'static Cluster {
    static SHARED: OnceLock<Cluster> = OnceLock::new();
    SHARED.get_or_init(|| Cluster::start_with(ClusterOptions::default(), None))
}

/// Returns a NATS server, open to everybody, that the tests of this process share. A test that harms it starts its
/// own one.
///
/// # Panics
/// When it cannot be built or started.
pub fn shared_nats() -> &'static Nats {
    static SHARED: OnceLock<Nats> = OnceLock::new();
    SHARED.get_or_init(Nats::start)
}

/// The right to run a private cluster, until it is dropped.
struct Permit;

static TAKEN: Mutex<usize> = Mutex::new(0);
static GIVEN_BACK: Condvar = Condvar::new();

impl Permit {
    /// Waits until fewer than [`CLUSTERS_MAX`] are taken.
    fn acquire() -> Self {
        let mut taken = TAKEN.lock();
        GIVEN_BACK.wait_while(&mut taken, |taken| *taken >= CLUSTERS_MAX);
        *taken += 1;
        Self
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        *TAKEN.lock() -= 1;
        GIVEN_BACK.notify_one();
    }
}
