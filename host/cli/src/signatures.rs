//! `homeostat keygen`, `sign` and `verify-signature`: signatures of components.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, anyhow};
use clap::Args;
use homeostat_api::{BadFile, read_private};
use homeostat_registry::{Origin, Policy, PublicKey, SecretKey, TrustedKey, sign, verify};
use serde_json::json;

use crate::global::{Format, Global};
use crate::output;
use crate::registry;

/// Bytes of a key file, at most.
const KEY_BYTES_MAX: u64 = 1 << 20;

/// Generate a key pair for signatures
///
/// Writes Ed25519 keys in PEM, in the format of OpenSSL. Existing files are not replaced.
#[derive(Args, Clone, Debug)]
pub(crate) struct KeygenArgs {
    /// Name of the pair: NAME.key is the secret key, mode 0600; NAME.pub is the public key for verifiers
    #[arg(value_name = "NAME")]
    name: PathBuf,
}

/// Sign a component
///
/// The signature is put at the start of the component; signatures by other keys stay. The signed component
/// has a different digest, so sign first, then push.
#[derive(Args, Clone, Debug)]
pub(crate) struct SignArgs {
    /// The component
    #[arg(value_name = "FILE.wasm")]
    file: PathBuf,
    /// The secret key; only you may read the file (mode 0600)
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
    /// The file to write [default: FILE.wasm is replaced]
    #[arg(long, value_name = "FILE")]
    to: Option<PathBuf>,
}

/// Verify a component's signatures against trusted keys
///
/// The exit code is 3 if no trusted key signed it, or if it was changed after signing.
#[derive(Args, Clone, Debug)]
pub(crate) struct VerifyArgs {
    /// The component: a file, or a reference to a registry
    #[arg(value_name = "FILE.wasm|REFERENCE")]
    component: String,
    /// A trusted public key; can be given several times
    #[arg(long, value_name = "FILE", required_unless_present = "policy", conflicts_with = "policy")]
    key: Vec<PathBuf>,
    /// A host's signature policy, as for `homeostat run --signatures`
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
}

/// Runs `homeostat keygen`.
///
/// # Errors
/// When one of the files exists or cannot be written.
pub(crate) fn keygen(args: &KeygenArgs, global: &Global) -> Result<ExitCode> {
    global.format(&[Format::Table])?;
    let named = |end: &str| PathBuf::from(format!("{}.{end}", args.name.display()));
    let (secret, public) = (named("key"), named("pub"));
    let key = SecretKey::generate()?;
    create(&secret, 0o600, &key.to_pem()?)?;
    // A secret key without its public key is useless, and would block the next attempt.
    create(&public, 0o644, &key.public().to_pem()).inspect_err(|_| drop(fs::remove_file(&secret)))?;
    let id = key.public().id();
    output::print(&format!("{}  secret\n{}  public, {id}\n", secret.display(), public.display()))?;
    Ok(ExitCode::SUCCESS)
}

/// Creates a file atomically. An existing file is an error.
fn create(file: &Path, mode: u32, text: &str) -> Result<()> {
    let created = OpenOptions::new().write(true).create_new(true).mode(mode).open(file);
    let written =
        created.and_then(|mut created| created.write_all(text.as_bytes()).inspect_err(|_| drop(fs::remove_file(file))));
    written.map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => {
            anyhow!("{} already exists and is not replaced: choose another name", file.display())
        }
        _ => anyhow::Error::new(error).context(format!("{} cannot be created", file.display())),
    })
}

/// Runs `homeostat sign`.
///
/// # Errors
/// When the key or the component cannot be read, or the signed component cannot be written.
pub(crate) fn run_sign(args: &SignArgs, global: &Global) -> Result<ExitCode> {
    global.format(&[Format::Table])?;
    let SignArgs { file, key, to } = args;
    let secret = secret(key).with_context(|| format!("{} cannot be used", key.display()))?;
    let component = registry::read_file(file)?;
    let not_signed = || format!("{} is not signed", file.display());
    // Parses the whole component first, so that no truncated one is signed.
    Origin::of(&component).with_context(not_signed)?;
    let signed = sign(&component, &secret).with_context(not_signed)?;
    let to = to.as_deref().unwrap_or(file);
    registry::write(to, &signed)?;
    output::print(&format!("{} signed with {}\n", to.display(), secret.public().id()))?;
    Ok(ExitCode::SUCCESS)
}

/// Reads a secret key.
fn secret(file: &Path) -> Result<SecretKey> {
    let pem = match read_private(file) {
        Ok(pem) => String::from_utf8_lossy(&pem).into_owned(),
        // A public key is readable by all, and the error should name the wrong key, not its mode.
        Err(open @ BadFile::Open { .. }) => {
            let is_public = |pem: &String| PublicKey::from_pem(pem).is_ok();
            homeostat_files::read_text(file, KEY_BYTES_MAX).ok().filter(is_public).ok_or(open)?
        }
        Err(error) => return Err(error.into()),
    };
    Ok(SecretKey::from_pem(&pem)?)
}

/// Runs `homeostat verify-signature`.
///
/// # Errors
/// When no trusted key signed it, or something cannot be read.
pub(crate) async fn run_verify(args: VerifyArgs, global: &Global) -> Result<ExitCode> {
    let format = global.format(&[Format::Table, Format::Json])?;
    let VerifyArgs { component, key, policy } = args;
    let keys = key.iter().map(|file| trusted(file)).collect::<Result<Vec<_>>>()?;
    let policy = policy.map(|file| Policy::read(&file)).transpose()?;
    let (name, bytes) = registry::component(&component).await?;
    let checked = match &policy {
        Some(policy) => policy.check(&bytes),
        None => verify(&bytes, &keys),
    };
    let signers = checked.with_context(|| name.clone())?;
    match format {
        Format::Json => output::print(&output::json(&json!({ "component": name, "signedBy": signers })))?,
        _ if signers.is_empty() => output::print(&format!("{name}: not signed, which the policy allows\n"))?,
        _ => output::print(&format!("{name}: signed by {}\n", signers.join(", ")))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Reads a public key. Its name is the file's.
fn trusted(file: &Path) -> Result<TrustedKey> {
    let pem = homeostat_files::read_text(file, KEY_BYTES_MAX);
    let pem = pem.with_context(|| format!("{} cannot be read", file.display()))?;
    let key = PublicKey::from_pem(&pem).with_context(|| format!("{} cannot be used", file.display()))?;
    Ok(TrustedKey { name: file.display().to_string(), key })
}
