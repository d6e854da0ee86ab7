//! A folder of secrets: each file is one, under its name, as systemd's credentials and Kubernetes' volumes lay them out.

use std::path::PathBuf;

use async_trait::async_trait;
use homeostat_api::{BadFile, read_private};
use homeostat_component::layers::Secrets;
use homeostat_component::{Blob, is_secret_name};

/// Bytes of one secret: no header that carries more is taken anywhere.
const BYTES_MAX: usize = 16 << 10;

/// Reads a secret from its file whenever it is asked for, so that one that is replaced is used from then on, and none is kept in memory.
pub(crate) struct SecretFolder(pub(crate) PathBuf);

impl SecretFolder {
    fn read(&self, name: &str) -> Result<Blob, String> {
        // A name is part of a path from here on.
        if !is_secret_name(name) {
            return Err(format!("{name:?} is not a valid secret name"));
        }
        let path = self.0.join(name);
        let why = |error: &BadFile| format!("{}: {error}", path.display());
        let mut secret = read_private(&path).map_err(|error| why(&error))?;
        if secret.ends_with(b"\n") {
            // Editors and `echo` leave one, and no header can have one.
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
