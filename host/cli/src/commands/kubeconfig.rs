//! `homeostat kubeconfig`: prints a kubeconfig for kubectl and client-go.

use std::process::ExitCode;

use anyhow::Context as _;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use homeostat_api::Address;
use serde_json::{Value, json};

use crate::client::{FILE_BYTES_MAX, token};
use crate::global::{Format, Global};
use crate::{address, exit, output};

/// Print a kubeconfig for the host
///
/// It contains the address of --server, the certificate of --certificate-authority, and the token of
/// --token-file or HOMEOSTAT_TOKEN. Keep it in a file with mode 0600: `homeostat kubeconfig > kubeconfig`,
/// then `kubectl --kubeconfig kubeconfig get pods`.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Args {}

/// Prints a kubeconfig, without contacting the host.
///
/// # Errors
/// When the host listens on a unix socket, which kubectl does not support, or a file cannot be read.
pub(crate) fn run(_args: Args, global: &Global) -> anyhow::Result<ExitCode> {
    let format = global.format(&[Format::Yaml, Format::Json])?;
    let document = document(global)?;
    output::print(&if format == Format::Json { output::json(&document) } else { output::yaml(&document)? })?;
    Ok(ExitCode::SUCCESS)
}

fn document(global: &Global) -> anyhow::Result<Value> {
    let server = address::server(global)?;
    if matches!(server, Address::Unix(_)) {
        return Err(exit::usage(format!(
            "kubectl cannot connect to {server}: serve a TCP port with --listen, and pass it with --server"
        )));
    }
    let mut cluster = json!({ "server": server.to_string() });
    if let Some(path) = &global.certificate_authority {
        let pem = homeostat_files::read_text(path, FILE_BYTES_MAX);
        let pem = pem.with_context(|| format!("the certificates in {} cannot be read", path.display()))?;
        cluster["certificate-authority-data"] = STANDARD.encode(pem).into();
    }
    let user = token(global, &server)?.map_or(json!({}), |token| json!({ "token": token }));
    let name = "homeostat";
    let context = json!({ "cluster": name, "user": name, "namespace": global.namespace() });
    Ok(json!({
        "apiVersion": "v1", "kind": "Config", "current-context": name,
        "clusters": [{ "name": name, "cluster": cluster }],
        "contexts": [{ "name": name, "context": context }],
        "users": [{ "name": name, "user": user }],
    }))
}

#[cfg(test)]
mod tests;
