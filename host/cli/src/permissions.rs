//! Restricts the host's data folder to its owner. It contains everything that users store, secrets of
//! requests included.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::layout::{COMPILED, COMPONENTS, DATA, PULLED, SERVICE_ACCOUNT_KEY, STORE};

/// The modes of folders and files: access for the owner alone.
const FOLDER: u32 = 0o700;
const FILE_MODE: u32 = 0o600;
/// The permission bits of group and others.
const OTHERS: u32 = 0o077;
/// The host's self-signed certificate, and its key.
const CERTIFICATE: [&str; 2] = ["tls.crt", "tls.key"];

/// Files and folders that others could read or write before the repair.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Repair {
    /// The first of them.
    pub(crate) first: PathBuf,
    /// How many.
    pub(crate) count: usize,
}

/// Removes the access of group and others to the host's files in a folder. The folder itself is included,
/// unless the user chose it and it contains other files. Symbolic links are not followed.
///
/// # Errors
/// Errors of the file system, for example when a file belongs to another user.
pub(crate) fn restrict(data: &Path) -> io::Result<Option<Repair>> {
    let (mut mended, mut is_ours_alone) = (Repair::default(), true);
    let mut names = Vec::new();
    for entry in fs::read_dir(data)? {
        let entry = entry?;
        let is_kept = is_kept(&entry.file_name().to_string_lossy());
        is_ours_alone &= is_kept;
        names.extend(is_kept.then(|| entry.path()));
    }
    if is_ours_alone || data.ends_with(DATA) {
        // The folder comes first: from then on, other users cannot add anything to it.
        restrict_one(data, &mut mended)?;
    }
    let mut left = names;
    while let Some(path) = left.pop() {
        let found = match path.symlink_metadata() {
            // Another process of the same host has deleted it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            found => found?,
        };
        if found.is_dir() || found.is_file() {
            restrict_one(&path, &mut mended)?;
        }
        if found.is_dir() {
            left.extend(fs::read_dir(&path)?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?);
        }
    }
    Ok((mended.count > 0).then_some(mended))
}

/// Returns whether a name belongs to the host. Names of store drafts start with the store's name.
fn is_kept(name: &str) -> bool {
    name.starts_with(STORE)
        || CERTIFICATE.contains(&name)
        || [COMPILED, COMPONENTS, PULLED, SERVICE_ACCOUNT_KEY].contains(&name)
}

fn restrict_one(path: &Path, mended: &mut Repair) -> io::Result<()> {
    let found = path.symlink_metadata()?;
    if found.permissions().mode() & OTHERS == 0 {
        return Ok(());
    }
    let mode = if found.is_dir() { FOLDER } else { FILE_MODE };
    match fs::set_permissions(path, Permissions::from_mode(mode)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        set => set?,
    }
    if mended.count == 0 {
        mended.first = path.to_owned();
    }
    mended.count += 1;
    Ok(())
}

#[cfg(test)]
mod tests;
