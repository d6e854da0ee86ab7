//! Follows the sources of guests, and says which guests have to be built again.
//!
//! A source is `Cargo.toml`, `build.rs`, and everything below `src` and `wit`, of the guest and of what it depends on by path.
//! The output of cargo is never looked at.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime};

use crate::build::Guest;
use crate::looks::{FileChange, FileDebouncer, FileStamp};
use crate::watcher::Folders;

/// Files of all guests together that are followed. The rest is built at the next start.
const FILES_MAX: usize = 20_000;
/// Depth of folders below `src` and `wit`.
const DEPTH_MAX: usize = 16;
/// Files beside `src` that count.
const FILES: [&str; 2] = ["Cargo.toml", "build.rs"];
/// Folders whose files count.
const FOLDERS: [&str; 2] = ["src", "wit"];

/// The sources of some guests.
#[derive(Default)]
pub(crate) struct Sources {
    looks: FileDebouncer,
    primed: bool,
}

/// What a look at the sources found.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct SourceChanges {
    /// Guests to build again.
    pub(crate) guests: BTreeSet<String>,
    /// A `Cargo.toml` changed: there may be other guests now.
    pub(crate) crates: bool,
}

impl Sources {
    /// Looks at the sources. The first look takes note and finds nothing.
    pub(crate) fn update(&mut self, guests: &[Guest], now: Instant, wall_now: SystemTime) -> SourceChanges {
        let seen = snapshot(guests);
        if !self.primed {
            // Nothing is told twice: what is there now counts as built.
            self.looks = FileDebouncer::with_known_files(now, &seen);
            self.primed = true;
            return SourceChanges::default();
        }
        classify(guests, &self.looks.update(now, wall_now, &seen))
    }

    /// Returns whether everything that changed has been found.
    pub(crate) fn is_settled(&self) -> bool {
        self.looks.is_settled()
    }
}

/// Says what changed files mean.
fn classify(guests: &[Guest], changes: &[FileChange]) -> SourceChanges {
    let belongs = |guest: &&Guest, path: &Path| roots(guest).any(|root| path.starts_with(root));
    let mut found = SourceChanges::default();
    for path in changes.iter().map(FileChange::path) {
        found.guests.extend(guests.iter().filter(|guest| belongs(guest, path)).map(|guest| guest.name.clone()));
        found.crates |= path.file_name().is_some_and(|name| name == "Cargo.toml");
    }
    found
}

/// Returns the folders of the crates that a guest is made of.
fn roots(guest: &Guest) -> impl Iterator<Item = &Path> {
    std::iter::once(&guest.folder).chain(&guest.dependencies).map(PathBuf::as_path)
}

/// Returns the folders in which sources can change.
pub(crate) fn folders(guests: &[Guest]) -> Folders {
    let mut folders = Folders::new();
    for root in guests.iter().flat_map(roots) {
        folders.insert(root.to_owned(), false);
        folders.extend(FOLDERS.iter().map(|folder| (root.join(folder), true)));
    }
    folders
}

fn snapshot(guests: &[Guest]) -> BTreeMap<PathBuf, FileStamp> {
    let roots: BTreeSet<&Path> = guests.iter().flat_map(roots).collect();
    let mut seen = BTreeMap::new();
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
    // What cannot be read is not followed; cargo will say what it thinks of it.
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
