//! The components of controllers, stored by digest: one file for each component that a revision names. A
//! missing component is read from its file or pulled from a registry.
//!
//! Files are written atomically, so that a crash leaves no partial file. Readers verify the digest.

use std::collections::BTreeSet;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use homeostat_component::Digest;
use homeostat_files::BlobFolder;
use homeostat_registry::{Policy, Reference, Registry};
use homeostat_runtime::CodeSource;
use homeostat_runtime::manifest::ComponentSource;

/// Bytes of a component, at most. A larger file is refused.
const BYTES_MAX: u64 = 256 << 20;
/// The age at which an unused file is removed. A component is stored a moment before a revision names it.
const AGE_MIN: Duration = Duration::from_secs(600);

/// A folder of components, beside the served folder whose files resources may name.
#[derive(Clone, Debug)]
pub(crate) struct Components {
    blobs: BlobFolder,
    /// The served folder: a resource's `file` is below it.
    served: PathBuf,
    registry: Registry,
    /// The signature policy for every component, wherever it comes from.
    policy: Option<Arc<Policy>>,
}

impl Components {
    /// Stores components in `folder`, which is created with the first one.
    pub(crate) fn new(folder: PathBuf, served: PathBuf, registry: Registry, policy: Option<Policy>) -> Self {
        Self { blobs: blobs(folder), served, registry, policy: policy.map(Arc::new) }
    }

    /// Stores a component. Returns when it is durable.
    ///
    /// # Errors
    /// Errors of the file system.
    pub(crate) async fn keep(&self, bytes: Vec<u8>) -> Result<Digest, String> {
        let this = self.clone();
        let kept = tokio::task::spawn_blocking(move || this.write(Digest::of(&bytes), &bytes)).await;
        kept.expect("writing a file does not panic")
            .map_err(|error| format!("the component cannot be stored in {}: {error}", self.blobs.folder.display()))
    }

    fn write(&self, digest: Digest, bytes: &[u8]) -> io::Result<Digest> {
        if matches!(self.blobs.read(&digest, BYTES_MAX), Ok(Some(_))) {
            // Renews the age, so that the file is not removed before a revision names it.
            self.blobs.mark_used(&digest)?;
        } else {
            homeostat_files::make_private_folder(&self.blobs.folder)?;
            self.blobs.put_durable(&digest, bytes)?;
        }
        Ok(digest)
    }

    /// Returns a component that is on this machine; `None` if it must be pulled from a registry.
    fn read(&self, source: &ComponentSource) -> Result<Option<Vec<u8>>, String> {
        let ComponentSource { file, digest, oci } = source;
        let digest = digest.as_deref().and_then(Digest::parse);
        let kept = digest.as_ref().map(|digest| (digest, self.blobs.read(digest, BYTES_MAX)));
        match (kept, file, oci) {
            (Some((_, Ok(Some(bytes)))), ..) => Ok(Some(bytes)),
            (_, Some(file), _) => read(&self.below(file)?).map(Some),
            (_, None, Some(_)) => Ok(None),
            (Some((digest, _)), None, None) => Err(format!(
                "no component with the digest {digest} is stored here: put it into the served folder, and name its `file`"
            )),
            (None, None, None) => {
                Err("none of `file`, `oci` and `digest` is set: one must say where the component is".to_owned())
            }
        }
    }

    async fn pull(&self, reference: &str) -> Result<Vec<u8>, String> {
        let reference: Reference = reference.parse().map_err(|error: homeostat_registry::Error| error.to_string())?;
        let fetched =
            self.registry.fetch(&reference).await.map_err(|error| format!("{:#}", anyhow::Error::from(error)))?;
        tracing::info!(%reference, manifest = %fetched.manifest, digest = %fetched.component, "pulled");
        Ok(fetched.bytes)
    }

    /// Checks the signature policy and stores the component.
    fn admit(&self, bytes: Vec<u8>) -> Result<Vec<u8>, String> {
        let digest = Digest::of(&bytes);
        if let Some(policy) = &self.policy {
            let signers = policy.check(&bytes).map_err(|error| format!("the signature policy refuses it: {error}"))?;
            tracing::info!(%digest, ?signers, "the signatures satisfy the policy");
        }
        self.write(digest, &bytes).map_err(|error| format!("the component cannot be stored: {error}"))?;
        Ok(bytes)
    }

    /// Returns the path of a file below the served folder.
    fn below(&self, file: &str) -> Result<PathBuf, String> {
        if !is_below(file) {
            return Err(self.outside(file));
        }
        let path = self.served.join(file);
        let real = path.canonicalize().map_err(|error| format!("{} cannot be read: {error}", path.display()))?;
        let served = self.served.canonicalize().map_err(|error| error.to_string())?;
        if real.starts_with(served) { Ok(real) } else { Err(self.outside(file)) }
    }

    fn outside(&self, file: &str) -> String {
        format!("{file} is not below {}, the folder that is served", self.served.display())
    }
}

#[async_trait]
impl CodeSource for Components {
    fn check(&self, source: &ComponentSource) -> Result<(), String> {
        if let Some(reference) = &source.oci {
            reference.parse::<Reference>().map_err(|error| error.to_string())?;
        }
        match &source.file {
            Some(file) if !is_below(file) => Err(self.outside(file)),
            _ => Ok(()),
        }
    }

    async fn fetch(&self, source: &ComponentSource) -> Result<Vec<u8>, String> {
        let (this, wanted) = (self.clone(), source.clone());
        let here =
            tokio::task::spawn_blocking(move || this.read(&wanted)).await.expect("reading a file does not panic")?;
        let bytes = match (here, &source.oci) {
            (None, Some(reference)) => self.pull(reference).await?,
            (here, _) => here.expect("what is not here is in a registry"),
        };
        let this = self.clone();
        tokio::task::spawn_blocking(move || this.admit(bytes)).await.expect("verifying and writing do not panic")
    }

    async fn sweep(&self, named: &BTreeSet<Digest>) {
        let (this, named) = (self.clone(), named.clone());
        let swept = tokio::task::spawn_blocking(move || {
            this.blobs.remove_unused(AGE_MIN, SystemTime::now(), |digest| named.contains(digest))
        })
        .await;
        if let Err(error) = swept.expect("removing files does not panic") {
            tracing::warn!(%error, folder = %self.blobs.folder.display(), "unused components cannot be removed");
        }
    }
}

/// Returns the components that are stored in `folder`.
pub(crate) fn blobs(folder: PathBuf) -> BlobFolder {
    BlobFolder { folder, prefix: "sha256-", suffix: ".wasm" }
}

/// Returns whether a relative path stays below its folder.
fn is_below(file: &str) -> bool {
    Path::new(file).components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir))
}

/// Reads a component.
///
/// # Errors
/// A message for the user.
pub(crate) fn read(file: &Path) -> Result<Vec<u8>, String> {
    let too_large = || io::Error::other(format!("it has more than {} MiB", BYTES_MAX >> 20));
    let read = homeostat_files::read(file, BYTES_MAX).and_then(|bytes| bytes.ok_or_else(too_large));
    read.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => {
            "the file does not exist; build the guest, or run `homeostat dev`, which builds it".to_owned()
        }
        _ => format!("the file cannot be read: {error}"),
    })
}

#[cfg(test)]
mod tests;
