//! What the host keeps below its folder of data is its owner's alone: whatever people store stands in it, secrets of requests too.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::layout::{COMPILED, COMPONENTS, DATA, PULLED, STORE};

/// What the owner of a folder and of a file may do; nobody else may do anything.
const FOLDER: u32 = 0o700;
const FILE_MODE: u32 = 0o600;
/// What others may do.
const OTHERS: u32 = 0o077;
/// The certificate that the host makes, and its key.
const CERTIFICATE: [&str; 2] = ["tls.crt", "tls.key"];

/// What others could read or write until it was repaired.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Repair {
    /// The first of them.
    pub(crate) first: PathBuf,
    /// How many.
    pub(crate) count: usize,
}

/// Makes a folder for its owner alone, and those above it that are missing. One that is there stays as it is.
///
/// # Errors
/// What the file system says.
pub(crate) fn make_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(FOLDER).create(path)
}

/// Takes away what others may do with what the host keeps in a folder; with the folder as well, unless it also holds what is not the host's and
/// somebody has chosen it.
/// Links are left alone.
///
/// # Errors
/// What the file system says: of a file of somebody else, that it cannot be changed.
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
        // First: nobody else can put anything in its way from then on.
        restrict_one(data, &mut mended)?;
    }
    let mut left = names;
    while let Some(path) = left.pop() {
        let found = match path.symlink_metadata() {
            // Another process of the same host has finished with it.
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

/// Returns whether the host keeps something of this name. Drafts of the store begin as the store does.
fn is_kept(name: &str) -> bool {
    name.starts_with(STORE) || CERTIFICATE.contains(&name) || [COMPILED, COMPONENTS, PULLED].contains(&name)
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
