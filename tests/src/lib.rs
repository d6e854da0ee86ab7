//! Helpers of the tests over several crates: guests that are built once, a host in this process, a host in its
//! own process, and foreign programs.

mod artifacts;
mod distribution;
mod host;
mod process;
mod registry;
mod sources;
mod tokens;
mod toolchains;

pub use artifacts::{compiled_folder, embed, guest, homeostat, renamed};
pub use distribution::Distribution;
pub use homeostat_servers::{
    Answer, ApiServer, Authority, CLUSTER_USERS, CertificatePair, Client, Cluster, ClusterOptions, Etcd, Flush,
    HttpProxy, HttpReply, HttpRule, Nats, NatsAccess, NatsCluster, NatsOptions, NatsUser, NetworkFault, Proxy, Request,
    Server, Traffic, ask_plain, ask_plain_with, crane, elector, end_to_end_tests, helm, informer, kinds_writer, kube,
    kube_controller_manager, kube_scheduler, kubectl, manager, node_packages, node_tool, oras, project_definitions,
    python, python_tool, repository, shared_bare_cluster, shared_cluster, shared_nats, snapshot_controller,
    snapshot_definitions, test_go_environment, typed_documents,
};
pub use host::{TestHost, all_resources, routed_stores};
pub use process::{HostProcess, Output, run, run_with, run_with_open_umask};
pub use registry::{Access, RegistryFault, RegistryRequest, TestRegistry};
pub use sources::copy_of_sources;
pub use tokens::Tokens;
pub use toolchains::{c_guest, go_guest, javascript_guest, python_guest};
