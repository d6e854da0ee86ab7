//! The MAC key of a cache folder, and the bytes it authenticates.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::hmac::{self, HMAC_SHA256, Tag};
use homeostat_files::BlobFolder;

use super::{EntryName, OTHERS};

/// The length of the MAC in front of every entry.
pub(super) const TAG_BYTES: usize = 32;
const KEY_BYTES: usize = 32;
/// The file of the key.
const KEY: &str = "key";

/// Bytes that were tagged with [`MacKey::tag`] under the same name before.
pub(crate) struct AuthenticBytes {
    /// The MAC, followed by the bytes.
    sealed: Vec<u8>,
}

impl AuthenticBytes {
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.sealed[TAG_BYTES..]
    }
}

/// A random key. Its holders can create entries.
pub(super) struct MacKey([u8; KEY_BYTES]);

impl MacKey {
    /// Reads the key of a folder of `owner`, and creates one if there is no valid key that only its owner can
    /// read.
    ///
    /// # Errors
    /// When the disk fails.
    pub(super) fn read_or_create(blobs: &BlobFolder, owner: u32) -> io::Result<Self> {
        let path = blobs.folder.join(KEY);
        if let Some(key) = read(&path, owner) {
            return Ok(key);
        }
        let mut key = Self([0; KEY_BYTES]);
        wasmtime_wasi::thread_rng().fill_bytes(&mut key.0);
        let mut draft = blobs.draft()?;
        draft.write_all(&key.0)?;
        let Err(failed) = draft.persist_noclobber(&path) else { return Ok(key) };
        if let Some(theirs) = read(&path, owner) {
            // Another process created the key first.
            return Ok(theirs);
        }
        // The existing file is no valid key: it is replaced, and in time so is every entry.
        failed.file.persist(&path).map_err(|failed| failed.error)?;
        Ok(key)
    }

    /// Returns the MAC of `compiled` under `name`, [`TAG_BYTES`] long.
    ///
    /// All names have the same length, so no bytes of a name can pass for bytes of an entry.
    pub(super) fn tag(&self, name: &EntryName, compiled: &[u8]) -> Tag {
        let mut mac = hmac::Context::with_key(&hmac::Key::new(HMAC_SHA256, &self.0));
        mac.update(name.0.digits().as_bytes());
        mac.update(compiled);
        mac.sign()
    }

    /// Verifies the MAC of an entry. Returns its bytes, or `None` if it does not match.
    pub(super) fn open(&self, name: &EntryName, sealed: Vec<u8>) -> Option<AuthenticBytes> {
        let (tag, compiled) = sealed.split_at_checked(TAG_BYTES)?;
        verify_slices_are_equal(self.tag(name, compiled).as_ref(), tag).ok()?;
        Some(AuthenticBytes { sealed })
    }
}

/// Returns the existing key, unless other users may have read or created it.
fn read(path: &Path, owner: u32) -> Option<MacKey> {
    let mut file = File::open(path).ok()?;
    let facts = file.metadata().ok()?;
    if !facts.is_file() || facts.uid() != owner || facts.mode() & OTHERS != 0 || facts.len() != KEY_BYTES as u64 {
        return None;
    }
    let mut key = [0; KEY_BYTES];
    file.read_exact(&mut key).ok()?;
    Some(MacKey(key))
}
