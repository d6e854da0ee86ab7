//! The address of the host that a command talks to.

use std::path::PathBuf;

use homeostat_api::Address;
use rustix::process::geteuid;

use crate::exit;
use crate::global::Global;

/// Returns the default socket of hosts and clients.
///
/// It is in a folder of this user: `$XDG_RUNTIME_DIR/homeostat`, or `/tmp/homeostat-UID` if that variable is
/// not set.
#[expect(clippy::disallowed_methods, reason = "this is the binary: it reads the environment")]
pub(crate) fn default_socket() -> PathBuf {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|folder| folder.is_absolute());
    socket_in(runtime, geteuid().as_raw())
}

fn socket_in(runtime: Option<PathBuf>, user: u32) -> PathBuf {
    let folder =
        runtime.map_or_else(|| PathBuf::from(format!("/tmp/homeostat-{user}")), |runtime| runtime.join("homeostat"));
    folder.join("host.sock")
}

/// Returns the address of the host: that of `--server`, or the default socket.
///
/// # Errors
/// A usage error when `--server` is not a valid address.
pub(crate) fn server(global: &Global) -> anyhow::Result<Address> {
    match global.server.as_deref().filter(|text| !text.is_empty()) {
        Some(text) => parse(text),
        None => Ok(Address::Unix(default_socket())),
    }
}

/// Parses an address.
///
/// # Errors
/// A usage error when it is invalid.
pub(crate) fn parse(text: &str) -> anyhow::Result<Address> {
    text.parse().map_err(|error: homeostat_api::BadAddress| exit::usage(error.to_string()))
}

#[cfg(test)]
mod tests;
