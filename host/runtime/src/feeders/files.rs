//! The feeder `files`: adds keys when files of a folder appear, change or vanish.
//!
//! A manifest names files below one folder of the machine, which the operator of the host allows. The
//! feeder reads no file: a key comes from the name of its file. It compares the folder with the last look, so changes
//! that nothing reported are found, and a restarted host adds the keys of all files again.

use std::collections::BTreeMap;
use std::sync::Arc;

use homeostat_component::{Severity, matches_glob};
use homeostat_store::{Key, check_key};
use parking_lot::Mutex;

use super::key_adder::KeyAdder;
use super::{Feeder, FeederError, Intake};
use crate::clock::WallClock;
use crate::feeder_definition::{FeederKeys, Files, ListedKey};
use crate::feeder_sources::{FeederFolder, NameFilter};

/// Maximum number of files that one feeder follows.
pub const FILES_MAX: usize = 100_000;

pub(crate) struct FilesFeeder {
    /// For events and logs.
    name: String,
    files: Files,
    adder: KeyAdder,
    /// `None`: the operator allows no folder.
    folder: Option<Arc<dyn FeederFolder>>,
    clock: WallClock,
    /// The files whose keys were added, with their stamps. At most [`FILES_MAX`], and those of one more list.
    known: Mutex<BTreeMap<String, u64>>,
}

impl FilesFeeder {
    pub(crate) fn new(files: Files, adder: KeyAdder, folder: Option<Arc<dyn FeederFolder>>, clock: WallClock) -> Self {
        let name = format!("files {}", adder.definition.name);
        Self { name, files, adder, folder, clock, known: Mutex::default() }
    }

    /// Adds the keys of the files that differ from the last look.
    async fn compare(&self, intake: &Intake, found: BTreeMap<String, u64>) -> Result<(), FeederError> {
        let changed: Vec<(String, Option<u64>)> = {
            let known = self.known.lock();
            let new = found.iter().filter(|(name, stamp)| known.get(*name) != Some(*stamp));
            let new = new.map(|(name, stamp)| (name.clone(), Some(*stamp)));
            let gone = known.keys().filter(|name| !found.contains_key(*name)).map(|name| (name.clone(), None));
            new.chain(gone).collect()
        };
        if changed.is_empty() {
            return Ok(());
        }
        intake.note_run(self.clock.now());
        if !matches!(self.adder.definition.keys, FeederKeys::OfMessage(_)) {
            // The same keys for every file.
            self.adder.add_all(intake).await?;
        }
        for (name, stamp) in changed {
            self.add_file(intake, &name).await;
            // After its key: a feeder that ends in between adds the key again.
            let mut known = self.known.lock();
            match stamp {
                Some(stamp) => {
                    known.insert(name, stamp);
                }
                None => {
                    known.remove(&name);
                }
            }
        }
        Ok(())
    }

    /// Adds the key that the templates make of a file's name. Waits while the queue is full.
    async fn add_file(&self, intake: &Intake, name: &str) {
        let FeederKeys::OfMessage(templates) = &self.adder.definition.keys else { return };
        let word = |word: &str| match word {
            "file" => Some(name.to_owned()),
            "stem" => Some(name.rsplit_once('.').map_or(name, |(stem, _)| stem).to_owned()),
            _ => None,
        };
        let refused = |reason: String| {
            intake.note_rejected();
            let message = format!("{}: the file {name:?} makes no key: {reason}", self.name);
            intake.emit_event(Severity::Warning, "KeyRefused", &message);
        };
        match templates.of_message(&[], word) {
            Err(error) => refused(error.to_string()),
            Ok(keys) => {
                for ListedKey { namespace, name } in keys {
                    let key = Key::new(intake.manages().clone(), &namespace, &name);
                    match check_key(&key) {
                        // A dropped key is reported, and a closed queue takes none.
                        Ok(()) => {
                            let _ = self.adder.add(intake, &key).await;
                        }
                        Err(error) => refused(error.to_string()),
                    }
                }
            }
        }
    }
}

impl Feeder for FilesFeeder {
    fn name(&self) -> &str {
        &self.name
    }

    async fn run(&self, intake: &Intake) -> Result<(), FeederError> {
        let folder = self.folder.as_ref().ok_or_else(|| {
            FeederError("the operator of this host allows no folder: it needs `--feeder-files FOLDER`".to_owned())
        })?;
        let (path, pattern) = self.files.path.rsplit_once('/').unwrap_or(("", &self.files.path));
        let mut watch = folder.open(path).await.map_err(FeederError)?;
        let pattern = pattern.to_owned();
        // Hidden files are those that are being written, as of editors.
        let accepts: NameFilter = Arc::new(move |name| !name.starts_with('.') && matches_glob(&pattern, name));
        loop {
            let found = watch.list(accepts.clone(), FILES_MAX).await.map_err(FeederError)?;
            self.compare(intake, found).await?;
            intake.mark_healthy();
            watch.changed().await;
        }
    }
}

impl Files {
    /// Checks a path: folders with plain names, and a pattern in its last segment.
    ///
    /// # Errors
    /// The reason, for a person.
    pub(crate) fn check_path(path: &str) -> Result<(), String> {
        const PATH_BYTES_MAX: usize = 1024;
        if path.is_empty() || path.len() > PATH_BYTES_MAX {
            return Err(format!("must have 1 to {PATH_BYTES_MAX} bytes"));
        }
        let folders = path.rsplit_once('/').map_or("", |(folders, _)| folders);
        let is_bad = |segment: &str| matches!(segment, "" | "." | "..") || segment.contains(['\\', '\0']);
        if path.split('/').any(is_bad) {
            return Err(format!("{path:?} must be a relative path without `.`, `..` and empty parts"));
        }
        if folders.contains('*') {
            return Err(format!("{path:?} has a `*` in a folder, and only the last part may have one"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
