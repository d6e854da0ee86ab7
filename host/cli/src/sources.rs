//! Watches the sources of guests and determines which guests must be rebuilt.
//!
//! Sources in Rust are `Cargo.toml`, `build.rs`, and everything below `src` and `wit`, of the guest and of its path
//! dependencies. Those of other languages are the files of the project. The output of tools is never scanned.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime};

use crate::build::Guest;
use crate::file_debouncer::{FileChange, FileDebouncer, FileStamp};
use crate::language::Language;
use crate::project_files::ProjectFiles;
use crate::watcher::Folders;

/// Files of all guests together that are tracked, at most. Changes of further files take effect at the next
/// start.
const FILES_MAX: usize = 20_000;
/// The depth of folders below `src` and `wit` that is scanned.
const DEPTH_MAX: usize = 16;
/// Source files beside `src`.
const FILES: [&str; 2] = ["Cargo.toml", "build.rs"];
/// Folders of source files.
const FOLDERS: [&str; 2] = ["src", "wit"];

/// The sources of the guests.
#[derive(Default)]
pub(crate) struct Sources {
    looks: FileDebouncer,
    primed: bool,
}

/// The changes that a scan found.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct SourceChanges {
    /// Guests to rebuild.
    pub(crate) guests: BTreeSet<String>,
    /// A `Cargo.toml` changed, so the set of guests may have changed.
    pub(crate) crates: bool,
}

impl Sources {
    /// Scans the sources. The first scan records them and reports no change.
    pub(crate) fn update(&mut self, guests: &[Guest], now: Instant, wall_now: SystemTime) -> SourceChanges {
        let seen = snapshot(guests);
        if !self.primed {
            // The current sources count as built.
            self.looks = FileDebouncer::with_known_files(now, &seen);
            self.primed = true;
            return SourceChanges::default();
        }
        classify(guests, &self.looks.update(now, wall_now, &seen))
    }

    /// Returns whether every change has been reported.
    pub(crate) fn is_settled(&self) -> bool {
        self.looks.is_settled()
    }
}

/// Maps changed files to guests.
fn classify(guests: &[Guest], changes: &[FileChange]) -> SourceChanges {
    let belongs = |guest: &&Guest, path: &Path| roots(guest).any(|root| path.starts_with(root));
    let mut found = SourceChanges::default();
    for path in changes.iter().map(FileChange::path) {
        found.guests.extend(guests.iter().filter(|guest| belongs(guest, path)).map(|guest| guest.name.clone()));
        found.crates |= path.file_name().is_some_and(|name| name == "Cargo.toml");
    }
    found
}

/// Returns the folders of a guest's crate and its path dependencies.
fn roots(guest: &Guest) -> impl Iterator<Item = &Path> {
    std::iter::once(&guest.folder).chain(&guest.dependencies).map(PathBuf::as_path)
}

fn is_crate(guest: &Guest) -> bool {
    guest.language == Language::Rust
}

/// Returns the folders to watch.
pub(crate) fn folders(guests: &[Guest]) -> Folders {
    let mut folders = Folders::new();
    let (crates, projects): (Vec<&Guest>, Vec<&Guest>) = guests.iter().partition(|guest| is_crate(guest));
    for root in crates.into_iter().flat_map(roots) {
        folders.insert(root.to_owned(), false);
        folders.extend(FOLDERS.iter().map(|folder| (root.join(folder), true)));
    }
    for guest in projects {
        folders.extend(ProjectFiles::scan(&guest.folder).folders.into_iter().map(|folder| (folder, false)));
    }
    folders
}

fn snapshot(guests: &[Guest]) -> BTreeMap<PathBuf, FileStamp> {
    let (crates, projects): (Vec<&Guest>, Vec<&Guest>) = guests.iter().partition(|guest| is_crate(guest));
    let roots: BTreeSet<&Path> = crates.into_iter().flat_map(roots).collect();
    let mut seen = BTreeMap::new();
    for file in projects.into_iter().flat_map(|guest| ProjectFiles::scan(&guest.folder).files) {
        seen.extend(FileStamp::read(&file).map(|stamp| (file, stamp)));
    }
    for root in roots {
        for file in FILES.iter().map(|file| root.join(file)) {
            if let Some(look) = FileStamp::read(&file) {
                seen.insert(file, look);
            }
        }
        for folder in FOLDERS {
            walk(&root.join(folder), DEPTH_MAX, &mut seen);
        }
    }
    seen
}

fn walk(folder: &Path, depth: usize, seen: &mut BTreeMap<PathBuf, FileStamp>) {
    // A folder that cannot be read is skipped; cargo will report it.
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.filter_map(Result::ok) {
        let hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
        if hidden || seen.len() >= FILES_MAX {
            continue;
        }
        let path = entry.path();
        match std::fs::metadata(&path) {
            Ok(metadata) if metadata.is_dir() && depth > 0 => walk(&path, depth - 1, seen),
            Ok(metadata) if metadata.is_file() => drop(seen.insert(path, FileStamp::of(&metadata))),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests;
