//! The source files of a guest that cargo does not build, and their digest.
//!
//! Sources are all files of the project except hidden ones, manifests, documents, components, and the folders of tools
//! and of their output.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use homeostat_component::Digest;

/// Source files of one guest, at most. Further files do not count as sources.
const FILES_MAX: usize = 20_000;
/// Bytes of one source file, at most.
const FILE_BYTES_MAX: u64 = 64 << 20;
/// The depth of folders that is scanned.
const DEPTH_MAX: usize = 16;
/// Folders of tools and of their output.
const SKIPPED: [&str; 6] = ["__pycache__", "build", "node_modules", "target", "tests", "venv"];
/// Endings of files that are no sources: manifests, documents, components.
const NO_SOURCES: [&str; 4] = ["md", "wasm", "yaml", "yml"];

/// The source files of a guest.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ProjectFiles {
    /// The files, sorted.
    pub(crate) files: Vec<PathBuf>,
    /// The folders that were scanned.
    pub(crate) folders: Vec<PathBuf>,
}

impl ProjectFiles {
    /// Scans a folder. A subfolder that cannot be read is left out.
    pub(crate) fn scan(folder: &Path) -> Self {
        let mut found = Self::default();
        found.walk(folder, DEPTH_MAX);
        found.files.sort();
        found
    }

    fn walk(&mut self, folder: &Path, depth: usize) {
        self.folders.push(folder.to_owned());
        let Ok(entries) = std::fs::read_dir(folder) else { return };
        for path in entries.filter_map(Result::ok).map(|entry| entry.path()) {
            let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
            if name.starts_with('.') || self.files.len() >= FILES_MAX {
                continue;
            }
            let is_source = !NO_SOURCES.iter().any(|ending| path.extension().is_some_and(|found| found == *ending));
            match std::fs::metadata(&path) {
                Ok(metadata) if metadata.is_dir() && depth > 0 && !SKIPPED.contains(&name) => {
                    self.walk(&path, depth - 1)
                }
                Ok(metadata) if metadata.is_file() && is_source => self.files.push(path),
                _ => {}
            }
        }
    }

    /// Returns the digest of the names and contents of the files, and of `more`.
    ///
    /// # Errors
    /// When a file cannot be read, or is too large.
    pub(crate) fn digest(&self, folder: &Path, more: &str) -> io::Result<Digest> {
        let mut parts = BTreeMap::new();
        for path in &self.files {
            let bytes = homeostat_files::read(path, FILE_BYTES_MAX)?.ok_or_else(|| {
                let message = format!("{} has more than {} MiB", path.display(), FILE_BYTES_MAX >> 20);
                io::Error::new(io::ErrorKind::FileTooLarge, message)
            })?;
            let name = path.strip_prefix(folder).unwrap_or(path).to_string_lossy().into_owned();
            parts.insert(name, Digest::of(&bytes).to_string());
        }
        let lines: Vec<String> = parts.into_iter().map(|(name, digest)| format!("{digest} {name:?}\n")).collect();
        Ok(Digest::of(format!("{more}\n{}", lines.concat()).as_bytes()))
    }
}

#[cfg(test)]
mod tests;
