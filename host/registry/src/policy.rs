//! The signature policy: a YAML file with the public keys that components must be signed by.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::error::Error;
use crate::keys::PublicKey;
use crate::signature::verify;

/// Maximum length of a policy file, and of a key file, in bytes.
const BYTES_MAX: u64 = 1 << 20;

/// A public key with a local name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrustedKey {
    /// The name of the key's owner in messages.
    pub name: String,
    /// The key.
    pub key: PublicKey,
}

/// The trusted keys, and whether a signature is required.
#[derive(Clone, Debug)]
pub struct Policy {
    keys: Vec<TrustedKey>,
    require: bool,
}

/// A policy file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PolicyFile {
    require: bool,
    keys: Vec<KeyEntry>,
}

/// A key has one of `file` and `pem`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct KeyEntry {
    name: String,
    file: Option<PathBuf>,
    pem: Option<String>,
}

impl Policy {
    /// Reads a policy and the key files that it names, relative to its folder.
    ///
    /// # Errors
    /// [`Error::Policy`] if a file cannot be read, if a key appears twice, or if the policy requires
    /// signatures and has no key.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let wrong = |reason: String| Error::Policy { path: path.to_owned(), reason };
        let text = read(path).map_err(wrong)?;
        let options = serde_saphyr::options! { with_snippet: false };
        let PolicyFile { require, keys: written } =
            serde_saphyr::from_str_with_options(&text, options).map_err(|error| wrong(error.to_string()))?;
        let folder = path.parent().unwrap_or(Path::new("."));
        let mut keys: Vec<TrustedKey> = Vec::new();
        for KeyEntry { name, file, pem } in written {
            let pem = match (file, pem) {
                (Some(file), None) => {
                    let file = folder.join(file);
                    read(&file).map_err(|reason| format!("{} {reason}", file.display()))
                }
                (None, Some(pem)) => Ok(pem),
                _ => Err("must have one of `file` and `pem`".to_owned()),
            };
            let key = pem.and_then(|pem| PublicKey::from_pem(&pem).map_err(|error| error.to_string()));
            let key = key.map_err(|reason| wrong(format!("the key {name:?}: {reason}")))?;
            if let Some(other) = keys.iter().find(|other| other.name == name || other.key == key) {
                return Err(wrong(format!(
                    "the keys {:?} and {name:?} have the same name or are the same",
                    other.name
                )));
            }
            keys.push(TrustedKey { name, key });
        }
        if require && keys.is_empty() {
            return Err(wrong("it requires signatures and has no key: nothing could run".to_owned()));
        }
        Ok(Self { keys, require })
    }

    /// Returns the names of the trusted keys that signed a component; empty if there are none and no
    /// signature is required.
    ///
    /// A component that was changed after a trusted key signed it is refused in any case.
    ///
    /// # Errors
    /// Those of [`verify`]. Without `require`, [`Error::Unsigned`] and [`Error::Untrusted`] are not errors.
    pub fn check(&self, component: &[u8]) -> Result<Vec<&str>, Error> {
        match verify(component, &self.keys) {
            Err(Error::Unsigned | Error::Untrusted { .. }) if !self.require => Ok(Vec::new()),
            checked => checked,
        }
    }
}

fn read(path: &Path) -> Result<String, String> {
    let told = |error: std::io::Error| format!("cannot be read: {error}");
    homeostat_files::read_text(path, BYTES_MAX).map_err(told)
}

#[cfg(test)]
mod tests;
