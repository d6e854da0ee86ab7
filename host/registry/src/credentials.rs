//! Credentials for registries, from the files of Docker and Podman, and from their credential helpers.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use base64::Engine;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use serde::Deserialize;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;

use crate::error::Error;
use crate::reference::Reference;

/// Maximum length of a credentials file, and of a helper's output, in bytes.
const BYTES_MAX: u64 = 1 << 20;
/// How long a helper may take. It may use the network, but never prompts a person.
const HELPER_MAX: Duration = Duration::from_secs(10);
/// The output of a helper that has no credentials. Source: docker-credential-helpers.
const NONE_FOUND: &str = "credentials not found";
/// The user name that marks a helper's secret as an identity token. Source: docker-credential-helpers.
const TOKEN_USER: &str = "<token>";

/// A credential. It is never printed.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Credential {
    /// A name and a password.
    Basic { username: String, password: String },
    /// An identity token, which is exchanged for access tokens.
    Identity { token: String },
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credential")
    }
}

/// The used part of a credentials file.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct AuthFile {
    auths: BTreeMap<String, Entry>,
    creds_store: Option<String>,
    cred_helpers: BTreeMap<String, String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Entry {
    auth: Option<String>,
    username: Option<String>,
    password: Option<String>,
    identitytoken: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct HelperOutput {
    username: String,
    secret: String,
}

/// Returns the credential for an artifact, from the first of `files` that has one. `None` means anonymous
/// access.
///
/// # Errors
/// [`Error::Credentials`] if an existing file, or a helper that it names, cannot be used.
pub(crate) async fn find(files: &[PathBuf], reference: &Reference) -> Result<Option<Credential>, Error> {
    for file in files {
        let Some(written) = read(file).await.map_err(|reason| wrong(reference, file, &reason))? else { continue };
        let found = find_in_file(written, reference).await.map_err(|reason| wrong(reference, file, &reason))?;
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}

fn wrong(reference: &Reference, file: &Path, reason: &str) -> Error {
    Error::Credentials { registry: reference.registry().to_owned(), reason: format!("{}: {reason}", file.display()) }
}

async fn read(file: &Path) -> Result<Option<AuthFile>, String> {
    let path = file.to_owned();
    let read = tokio::task::spawn_blocking(move || homeostat_files::read(&path, BYTES_MAX)).await;
    let bytes = match read.expect("reading a file does not panic") {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        read => read.map_err(|error| error.to_string())?,
    };
    let bytes = bytes.ok_or_else(|| format!("it has more than {BYTES_MAX} bytes"))?;
    // Only the position is reported, because the parser's message may contain a part of the file.
    let unreadable = |error: serde_json::Error| format!("line {}, column {} is not JSON", error.line(), error.column());
    serde_json::from_slice(&bytes).map(Some).map_err(unreadable)
}

async fn find_in_file(written: AuthFile, reference: &Reference) -> Result<Option<Credential>, String> {
    let AuthFile { auths, creds_store, cred_helpers } = written;
    let server = match reference.registry() {
        // Docker's name for it.
        "docker.io" => "https://index.docker.io/v1/",
        registry => registry,
    };
    if let Some(helper) = cred_helpers.get(reference.registry()).or_else(|| cred_helpers.get(server)) {
        return ask_helper(helper, server).await;
    }
    let entries = keys(reference).into_iter().filter_map(|key| auths.iter().find(|(name, _)| bare(name) == key));
    for (_, entry) in entries {
        if let Some(credential) = credential(entry)? {
            return Ok(Some(credential));
        }
    }
    match creds_store.filter(|helper| !helper.is_empty()) {
        Some(helper) => ask_helper(&helper, server).await,
        None => Ok(None),
    }
}

/// Returns the keys of an artifact in a credentials file, the most specific first. Source:
/// containers-auth.json(5).
fn keys(reference: &Reference) -> Vec<String> {
    let registry = match reference.registry() {
        "docker.io" => "index.docker.io",
        registry => registry,
    };
    let whole = format!("{registry}/{}", reference.repository());
    let ends = whole.match_indices('/').map(|(at, _)| at).chain([whole.len()]);
    let mut keys: Vec<String> = ends.map(|end| whole[..end].to_owned()).collect();
    keys.reverse();
    if registry == "index.docker.io" {
        keys.push("docker.io".to_owned());
    }
    keys
}

/// Removes the scheme and API path that tools add to the name of a registry.
fn bare(name: &str) -> &str {
    let name = name.strip_prefix("https://").or_else(|| name.strip_prefix("http://")).unwrap_or(name);
    let name = name.trim_end_matches('/');
    name.strip_suffix("/v1").or_else(|| name.strip_suffix("/v2")).unwrap_or(name)
}

fn credential(entry: &Entry) -> Result<Option<Credential>, String> {
    let Entry { auth, username, password, identitytoken } = entry;
    if let Some(token) = identitytoken.clone().filter(|token| !token.is_empty()) {
        return Ok(Some(Credential::Identity { token }));
    }
    if let Some(auth) = auth.as_deref().filter(|auth| !auth.is_empty()) {
        let lenient = GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
        let decoded = GeneralPurpose::new(&base64::alphabet::STANDARD, lenient).decode(auth).ok();
        let text = decoded.and_then(|bytes| String::from_utf8(bytes).ok());
        let pair = text.as_deref().and_then(|text| text.split_once(':'));
        let (username, password) = pair.ok_or("an `auth` is not NAME:PASSWORD in base64")?;
        return Ok(Some(Credential::Basic { username: username.to_owned(), password: password.to_owned() }));
    }
    let both = username.clone().zip(password.clone());
    Ok(both.map(|(username, password)| Credential::Basic { username, password }))
}

/// Runs a credential helper.
async fn ask_helper(helper: &str, server: &str) -> Result<Option<Credential>, String> {
    let of_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    if helper.is_empty() || !helper.bytes().all(of_name) {
        return Err(format!("{helper:?} is not the name of a helper"));
    }
    let program = format!("docker-credential-{helper}");
    let told = tokio::time::timeout(HELPER_MAX, run_helper(&program, server)).await;
    let (succeeded, said) = told.map_err(|_| format!("{program} took more than {} s", HELPER_MAX.as_secs()))??;
    if !succeeded {
        let knows_none = String::from_utf8_lossy(&said).contains(NONE_FOUND);
        // The output is dropped, because it may contain a secret.
        return if knows_none { Ok(None) } else { Err(format!("{program} failed")) };
    }
    let answer = serde_json::from_slice(&said);
    let HelperOutput { username, secret } = answer.map_err(|_| format!("{program} did not print credentials"))?;
    Ok(Some(match username.as_str() {
        TOKEN_USER => Credential::Identity { token: secret },
        _ => Credential::Basic { username, password: secret },
    }))
}

async fn run_helper(program: &str, server: &str) -> Result<(bool, Vec<u8>), String> {
    let failed = |error: std::io::Error| format!("{program} cannot be run: {error}");
    let mut child = Command::new(program)
        .arg("get")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .map_err(failed)?;
    let (mut stdin, stdout) = (child.stdin.take().expect("it is piped"), child.stdout.take().expect("it is piped"));
    // A write error is ignored: a helper that does not read its input reports that in its output.
    drop(stdin.write_all(server.as_bytes()).await);
    drop(stdin);
    let mut said = Vec::new();
    stdout.take(BYTES_MAX).read_to_end(&mut said).await.map_err(failed)?;
    Ok((child.wait().await.map_err(failed)?.success(), said))
}

#[cfg(test)]
mod tests;
