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
mod tools;

pub use artifacts::{compiled_folder, embed, guest, homeostat, renamed, repository};
pub use distribution::{Distribution, TcpProxy};
pub use host::{TestHost, all_resources};
pub use process::{HostProcess, Output, run, run_with, run_with_open_umask};
pub use registry::{Access, RegistryFault, RegistryRequest, TestRegistry};
pub use sources::copy_of_sources;
pub use tokens::Tokens;
pub use toolchains::{c_guest, go_guest, javascript_guest, python_guest};
pub use tools::{crane, informer, kube, kubectl, oras, python};
