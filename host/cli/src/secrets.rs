//! A folder of secrets: one file for each secret, under its name, the layout of systemd credentials and
//! Kubernetes volumes.

use std::path::PathBuf;

use async_trait::async_trait;
use homeostat_api::{BadFile, read_private};
use homeostat_component::layers::Secrets;
use homeostat_component::{Blob, is_secret_name};

/// Bytes of one secret, at most. Servers accept no larger header.
const BYTES_MAX: usize = 16 << 10;

/// Reads a secret from its file at each use. A replaced file takes effect at once, and no secret stays in
/// memory.
pub(crate) struct SecretFolder(pub(crate) PathBuf);

impl SecretFolder {
    fn read(&self, name: &str) -> Result<Blob, String> {
        // From here on, the name is part of a path.
        if !is_secret_name(name) {
            return Err(format!("{name:?} is not a valid secret name"));
        }
        let path = self.0.join(name);
        let why = |error: &BadFile| format!("{}: {error}", path.display());
        let mut secret = read_private(&path).map_err(|error| why(&error))?;
        if secret.ends_with(b"\n") {
            // Editors and `echo` append a newline, which is not allowed in a header.
            secret.truncate(secret.len() - if secret.ends_with(b"\r\n") { 2 } else { 1 });
        }
        if secret.len() > BYTES_MAX {
            return Err(format!("{}: it has more than {BYTES_MAX} bytes", path.display()));
        }
        if secret.is_empty() || secret.iter().any(|byte| matches!(byte, 0..=8 | 10..=31 | 127)) {
            return Err(format!("{}: it is empty, or has characters that no header can carry", path.display()));
        }
        Ok(Blob::from(secret))
    }
}

#[async_trait]
impl Secrets for SecretFolder {
    async fn get(&self, name: &str) -> Result<Blob, String> {
        let (folder, name) = (Self(self.0.clone()), name.to_owned());
        let read = tokio::task::spawn_blocking(move || folder.read(&name)).await;
        read.map_err(|_| "reading it failed".to_owned())?
    }
}

#[cfg(test)]
mod tests;
