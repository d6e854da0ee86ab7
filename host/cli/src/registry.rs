//! `homeostat push` and `pull`, and the access to registries that other commands share.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;
use homeostat_registry::{FetchedComponent, Options, Reference, Registry};
use serde_json::json;

use crate::compile;
use crate::components;
use crate::exit;
use crate::global::{Format, Global};
use crate::layout::PULLED;
use crate::output;

/// Push a component to a registry
///
/// The artifact has the CNCF layout for Wasm, which `wkg` writes and reads as well. Prints the reference with
/// the manifest's digest, which names exactly this component. Credentials come from `docker login` or `podman
/// login`.
#[derive(Args, Clone, Debug)]
pub(crate) struct PushArgs {
    /// The component
    #[arg(value_name = "FILE.wasm")]
    file: PathBuf,
    /// The target, as ghcr.io/acme/greeter:1.2
    reference: Reference,
}

/// Pull a component from a registry
///
/// Every digest is verified. Components are cached in this user's cache folder, so a reference with a digest
/// is fetched only once.
#[derive(Args, Clone, Debug)]
pub(crate) struct PullArgs {
    /// The component, as ghcr.io/acme/greeter:1.2 or ghcr.io/acme/greeter@sha256:…
    reference: Reference,
    /// The file to write [default: the last part of the repository's name, with .wasm]
    #[arg(long, value_name = "FILE")]
    to: Option<PathBuf>,
}

/// Returns a registry client that caches components in `cache`.
///
/// # Errors
/// When the HTTP client cannot be created.
pub(crate) fn registry(cache: Option<PathBuf>) -> Result<Registry> {
    Ok(Registry::new(Options { credentials: credentials(), cache })?)
}

/// Returns the credential files of Docker and Podman, in this order.
#[expect(clippy::disallowed_methods, reason = "this is the binary: it reads the environment")]
fn credentials() -> Vec<PathBuf> {
    let folder = |name| std::env::var_os(name).map(PathBuf::from).filter(|folder| folder.is_absolute());
    let docker = folder("DOCKER_CONFIG").or_else(|| folder("HOME").map(|home| home.join(".docker")));
    let podman = folder("XDG_RUNTIME_DIR").map(|runtime| runtime.join("containers/auth.json"));
    docker.map(|docker| docker.join("config.json")).into_iter().chain(podman).collect()
}

/// Runs `homeostat push`.
///
/// # Errors
/// When the file is not a component, or the registry refuses it.
pub(crate) async fn push(args: PushArgs, global: &Global) -> Result<ExitCode> {
    let format = global.format(&[Format::Table, Format::Json])?;
    let component = read_file(&args.file)?;
    let pushed = registry(None)?.push(&args.reference, component).await;
    let pushed = pushed.with_context(|| format!("{} was not pushed", args.file.display()))?;
    match format {
        Format::Json => output::print(&output::json(&json!({ "reference": pushed.to_string() })))?,
        _ => output::print(&format!("{pushed}\n"))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs `homeostat pull`.
///
/// # Errors
/// When the component cannot be pulled, or the file cannot be written.
pub(crate) async fn pull(args: PullArgs, global: &Global) -> Result<ExitCode> {
    let format = global.format(&[Format::Table, Format::Json])?;
    let PullArgs { reference, to } = args;
    let FetchedComponent { manifest, component, bytes } =
        registry(compile::user_cache(PULLED))?.fetch(&reference).await?;
    let name = reference.repository().rsplit('/').next().unwrap_or_default();
    let to = to.unwrap_or_else(|| PathBuf::from(format!("{name}.wasm")));
    write(&to, &bytes)?;
    let pinned = reference.at(manifest);
    match format {
        Format::Json => {
            let facts = json!({ "reference": pinned.to_string(), "digest": component.as_str(), "file": to, "sizeBytes": bytes.len() });
            output::print(&output::json(&facts))?;
        }
        _ => output::print(&format!("{pinned}\n{component}  {}\n", to.display()))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Reads a component, and returns it with its name for messages: an existing file, otherwise an artifact with
/// its manifest's digest.
///
/// # Errors
/// When neither can be read.
pub(crate) async fn component(file_or_reference: &str) -> Result<(String, Vec<u8>)> {
    let file = Path::new(file_or_reference);
    let reference = file_or_reference.parse::<Reference>();
    match reference {
        Ok(reference) if !file.exists() => {
            let fetched = registry(compile::user_cache(PULLED))?.fetch(&reference).await?;
            Ok((reference.at(fetched.manifest).to_string(), fetched.bytes))
        }
        _ => Ok((file_or_reference.to_owned(), read_file(file)?)),
    }
}

/// Reads the file of a component.
///
/// # Errors
/// When it cannot be read.
pub(crate) fn read_file(file: &Path) -> Result<Vec<u8>> {
    let told = |reason: String| exit::failed(format!("{}: {reason}", file.display()));
    components::read(file).map_err(told)
}

/// Writes a file atomically.
///
/// # Errors
/// Errors of the file system.
pub(crate) fn write(file: &Path, bytes: &[u8]) -> Result<()> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut builder = tempfile::Builder::new();
    // The usual mode of new files; the umask restricts it.
    let draft = builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666)).tempfile_in(folder);
    let written = draft.and_then(|mut draft| {
        draft.write_all(bytes)?;
        draft.persist(file).map_err(|failed| failed.error)
    });
    written.map(drop).with_context(|| format!("{} cannot be written", file.display()))
}
