//! The folder whose files the feeders of manifests may follow: `--feeder-files`.

use std::collections::BTreeMap;
use std::fs::Metadata;
use std::hash::{DefaultHasher, Hasher};
use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;
use homeostat_runtime::feeder_sources::{FeederFolder, FolderWatch, NameFilter};

use crate::watcher::Watcher;

/// The pause between two looks at a folder that changes all the time.
const PAUSE: Duration = Duration::from_millis(50);

/// The folder that the operator allows.
pub(crate) struct AllowedFolder(pub(crate) PathBuf);

struct WatchedFolder {
    path: PathBuf,
    watcher: Watcher,
}

#[async_trait]
impl FeederFolder for AllowedFolder {
    async fn open(&self, path: &str) -> Result<Box<dyn FolderWatch>, String> {
        let (root, below) = (self.0.clone(), self.0.join(path));
        let path = tokio::task::spawn_blocking(move || contained(&root, &below)).await;
        let path = path.map_err(|_| "the folder could not be looked at".to_owned())??;
        let mut watcher = Watcher::new();
        watcher.set([(path.clone(), false)].into());
        Ok(Box::new(WatchedFolder { path, watcher }))
    }
}

#[async_trait]
impl FolderWatch for WatchedFolder {
    async fn list(&mut self, accepts: NameFilter, most: usize) -> Result<BTreeMap<String, u64>, String> {
        let path = self.path.clone();
        let listed = tokio::task::spawn_blocking(move || list(&path, &accepts, most)).await;
        listed.map_err(|_| "the folder could not be listed".to_owned())?
    }

    async fn changed(&mut self) {
        tokio::time::sleep(PAUSE).await;
        drop(tokio::time::timeout(self.watcher.poll_every(), self.watcher.changed()).await);
    }
}

/// Returns the real path of a folder, which must lie in `root`.
fn contained(root: &Path, folder: &Path) -> Result<PathBuf, String> {
    let real = |path: &Path| path.canonicalize().map_err(|error| format!("{}: {error}", path.display()));
    let (root, real_folder) = (real(root)?, real(folder)?);
    if !real_folder.starts_with(&root) {
        return Err(format!("{} leads out of {}", folder.display(), root.display()));
    }
    if real_folder.is_dir() { Ok(real_folder) } else { Err(format!("{} is not a folder", folder.display())) }
}

/// Returns the regular files of a folder.
fn list(folder: &Path, accepts: &NameFilter, most: usize) -> Result<BTreeMap<String, u64>, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        // A name that is no text makes no key.
        let Some(name) = entry.file_name().to_str().map(str::to_owned) else { continue };
        if !accepts(&name) {
            continue;
        }
        // Of the entry itself: a symbolic link is no regular file. A file may vanish meanwhile.
        let Ok(metadata) = entry.metadata() else { continue };
        if metadata.is_file() {
            found.insert(name, stamp(&metadata));
        }
        if found.len() > most {
            return Err(format!("{} has more than {most} such files", folder.display()));
        }
    }
    Ok(found)
}

/// Returns a number that changes with the file.
fn stamp(metadata: &Metadata) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let mut hasher = DefaultHasher::new();
    for part in [metadata.ino(), metadata.size()] {
        hasher.write_u64(part);
    }
    for part in [metadata.mtime(), metadata.mtime_nsec(), metadata.ctime(), metadata.ctime_nsec()] {
        hasher.write_i64(part);
    }
    hasher.finish()
}

#[cfg(test)]
mod tests;
