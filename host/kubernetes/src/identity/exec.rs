//! Plugins that print credentials: `client.authentication.k8s.io` of a kubeconfig.
//!
//! The client library runs a plugin several times for one client, without a bound, and puts what it printed into
//! errors. So this crate runs it.

use std::process::Stdio;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::ByteString;
use kube::config::{AuthInfo, ExecConfig};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::process::Command;

/// Longest run of a plugin.
const RUN_MAX: Duration = Duration::from_secs(30);

/// The document that a plugin prints, and that it gets in its environment.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ExecCredential {
    api_version: Option<String>,
    kind: String,
    #[serde(default, skip_serializing_if = "Value::is_null")]
    spec: Value,
    #[serde(default, skip_serializing)]
    status: Option<ExecCredentialStatus>,
}

/// The credentials that a plugin prints: `status` of an `ExecCredential`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ExecCredentialStatus {
    expiration_timestamp: Option<Timestamp>,
    token: Option<String>,
    client_certificate_data: Option<String>,
    client_key_data: Option<String>,
}

impl std::fmt::Debug for ExecCredentialStatus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ExecCredentialStatus")
    }
}

/// Runs a plugin.
///
/// # Errors
/// The reason, for a person, without what the plugin printed.
pub(super) async fn run(plugin: &ExecConfig) -> Result<ExecCredentialStatus, String> {
    let name = plugin.command.as_deref().ok_or("the plugin for credentials has no command")?;
    let mut command = Command::new(name);
    command.args(plugin.args.iter().flatten());
    let pairs = plugin.env.iter().flatten().filter_map(|pair| Some((pair.get("name")?, pair.get("value")?)));
    command.envs(pairs).env("KUBERNETES_EXEC_INFO", info(plugin)?);
    // A host has no person at its terminal to ask.
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
    let output = tokio::time::timeout(RUN_MAX, command.output()).await;
    let output = output.map_err(|_| format!("the plugin {name:?} did not end within {RUN_MAX:?}"))?;
    let output = output.map_err(|error| format!("the plugin {name:?} cannot be run: {error}"))?;
    if !output.status.success() {
        return Err(format!("the plugin {name:?} failed with {}", output.status));
    }
    let printed: ExecCredential = serde_json::from_slice(&output.stdout)
        .map_err(|_| format!("the plugin {name:?} printed no ExecCredential in JSON"))?;
    printed.status.ok_or_else(|| format!("the plugin {name:?} printed no status"))
}

/// Returns what the plugin gets in its environment.
fn info(plugin: &ExecConfig) -> Result<String, String> {
    let cluster = plugin.provide_cluster_info.then_some(&plugin.cluster);
    let spec = serde_json::json!({ "interactive": false, "cluster": cluster });
    let spec = match spec {
        Value::Object(fields) => Value::Object(fields.into_iter().filter(|(_, value)| !value.is_null()).collect()),
        other => other,
    };
    let info = ExecCredential {
        api_version: plugin.api_version.clone(),
        kind: "ExecCredential".to_owned(),
        spec,
        status: None,
    };
    serde_json::to_string(&info).map_err(|error| error.to_string())
}

impl ExecCredentialStatus {
    /// Puts the credentials into a configuration, and returns when they expire.
    ///
    /// # Errors
    /// The reason, for a person.
    pub(super) fn put_into(self, auth: &mut AuthInfo) -> Result<Option<Timestamp>, String> {
        let Self { expiration_timestamp, token, client_certificate_data, client_key_data } = self;
        if token.is_none() && client_certificate_data.is_none() {
            return Err("the plugin for credentials printed neither a token nor a certificate".to_owned());
        }
        auth.token = token.map(Into::into);
        if let (Some(certificate), Some(key)) = (client_certificate_data, client_key_data) {
            auth.client_certificate_data = Some(base64(certificate)?);
            auth.client_key_data = Some(base64(key)?.into());
        }
        Ok(expiration_timestamp)
    }
}

/// Encodes a text as kubeconfigs have it.
fn base64(text: String) -> Result<String, String> {
    match serde_json::to_value(ByteString(text.into_bytes())) {
        Ok(Value::String(encoded)) => Ok(encoded),
        _ => Err("a certificate cannot be encoded".to_owned()),
    }
}

#[cfg(test)]
mod tests;
