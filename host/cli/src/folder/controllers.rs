//! Puts the controllers of a folder into the host, and swaps them.

use std::path::{Path, PathBuf};
use std::time::Duration;

use homeostat_component::{Component, Digest};
use homeostat_runtime::manifest::Manifest;
use homeostat_runtime::{Definition, Error, Put};
use tokio::time::Instant;

use super::{Change, Document, Folder, PATIENCE};
use crate::manifest::Place;

/// Bytes of a component that are read. A larger file is refused.
const COMPONENT_BYTES_MAX: u64 = 256 << 20;

/// How long the folder waits for a controller to end.
const REMOVAL: Duration = Duration::from_secs(15);

/// A controller of the folder, and how far it has come.
pub(super) struct Installed {
    manifest: Box<Manifest>,
    manifest_file: PathBuf,
    /// Where its name stands in that file.
    place: Place,
    file: PathBuf,
    /// What runs, and the digest of the file that it was loaded from.
    running: Option<(Digest, Component)>,
    refused: Option<Refusal>,
}

/// Why the manifest and component, as they are now, are not what runs.
struct Refusal {
    since: Instant,
    why: Why,
    told: bool,
}

/// What was refused, and the reason. Two that are equal are told once.
#[derive(PartialEq)]
struct Why {
    /// `None`: there was nothing to read.
    digest: Option<Digest>,
    reason: String,
}

impl Refusal {
    /// Returns the refusal of what is there now. `before`: of what was there when it was last tried.
    fn after(before: Option<Self>, why: Why, now: Instant) -> Self {
        let told = before.is_some_and(|before| before.told && before.why == why);
        Self { since: now, why, told }
    }
}

impl Installed {
    fn new(document: &Document, manifest: &Manifest) -> Self {
        let folder = document.file.parent().unwrap_or(Path::new("."));
        Self {
            file: folder.join(&manifest.spec.component.file),
            manifest: Box::new(manifest.clone()),
            manifest_file: document.file.clone(),
            place: document.name_place,
            running: None,
            refused: None,
        }
    }

    /// Returns the component's file.
    pub(super) fn file(&self) -> &Path {
        &self.file
    }

    /// Returns the file that names this controller.
    pub(super) fn manifest_file(&self) -> &Path {
        &self.manifest_file
    }

    /// Returns whether what is there now was refused.
    pub(super) fn is_refused(&self) -> bool {
        self.refused.is_some()
    }

    /// Returns whether it was refused and that has not been told yet.
    pub(super) fn is_suspect(&self) -> bool {
        self.refused.as_ref().is_some_and(|refusal| !refusal.told)
    }
}

impl Folder {
    /// Puts in the controllers that are new, or whose manifest or component changed. Returns whether any was.
    pub(super) async fn install(&mut self, documents: &[Document], changes: &[Change], now: Instant) -> bool {
        let mut put = false;
        for document in documents {
            let Some(manifest) = document.controller.as_deref() else { continue };
            let name = &manifest.metadata.name;
            let mut next = Installed::new(document, manifest);
            let mut before = None;
            if let Some(known) = self.controllers.remove(name) {
                let same = known.manifest == next.manifest && known.file == next.file;
                let touched = changes.iter().any(|change| change.path() == known.file);
                if same && !touched {
                    self.controllers.insert(
                        name.clone(),
                        Installed { manifest_file: next.manifest_file, place: next.place, ..known },
                    );
                    continue;
                }
                let reload = known.manifest.spec.grants != next.manifest.spec.grants;
                next.running = known.running.map(|(digest, component)| {
                    // Imports are checked against the grants, so that other grants need another look.
                    (if reload { Digest::of(&[]) } else { digest }, component)
                });
                before = known.refused;
            }
            match self.try_put(&mut next).await {
                Ok(()) => put = true,
                Err(why) => next.refused = Some(Refusal::after(before, why, now)),
            }
            self.controllers.insert(name.clone(), next);
        }
        put
    }

    /// Loads the component and puts the controller in.
    async fn try_put(&self, installed: &mut Installed) -> Result<(), Why> {
        let (name, spec) = (&installed.manifest.metadata.name, &installed.manifest.spec);
        let nothing = |reason| Why { digest: None, reason };
        let checked = spec.check().map_err(|problems| nothing(list(&problems)))?;
        let bytes = read_component(&installed.file).await.map_err(nothing)?;
        let digest = Digest::of(&bytes);
        let refused = |reason| Why { digest: Some(digest.clone()), reason };
        let component = match &installed.running {
            Some((running, component)) if *running == digest => component.clone(),
            _ => self.host.load(bytes, &checked.grants).await.map_err(|error| refused(list(&error.reasons)))?,
        };
        let definition = Definition {
            name: name.clone(),
            component: component.clone(),
            grants: checked.grants,
            limits: checked.limits,
            config: checked.config,
            overrides: checked.overrides,
            suspend: checked.suspend,
        };
        match self.host.put(definition).await.map_err(|error| refused(list(&[chain(&error)])))? {
            Put::Added => self.screen.say(&format!("controller/{name} added ({})", short(component.digest().as_str()))),
            Put::Changed(swapped) if swapped.from == swapped.to => {
                self.screen.say(&format!("controller/{name} changed"))
            }
            Put::Changed(swapped) => self.screen.say(&format!(
                "controller/{name} swapped: generation {}, {} -> {}",
                swapped.generation,
                short(&swapped.from),
                short(&swapped.to)
            )),
            Put::Unchanged => {}
        }
        installed.running = Some((digest, component));
        Ok(())
    }

    /// Tells what was refused, once it is clear that nobody is still writing it.
    pub(super) fn tell_refused(&mut self, now: Instant) {
        for (name, installed) in &mut self.controllers {
            let Some(refusal) = installed.refused.as_mut().filter(|refusal| !refusal.told) else { continue };
            if now.duration_since(refusal.since) < PATIENCE {
                continue;
            }
            refusal.told = true;
            let rest = if installed.running.is_some() { "the one that runs goes on" } else { "it does not run" };
            let (manifest, Place { line, column }) = (installed.manifest_file.display(), installed.place);
            self.screen.warn(&format!(
                "{manifest}:{line}:{column}: controller/{name} refused, {rest}: {}\n{}",
                installed.file.display(),
                refusal.why.reason
            ));
            self.host.refused(name, &refusal.why.reason);
        }
    }

    /// Takes a controller out.
    pub(super) async fn uninstall(&mut self, name: &str) {
        self.controllers.remove(name);
        let Ok(removed) = tokio::time::timeout(REMOVAL, self.host.remove(name)).await else {
            return self.screen.warn(&format!("controller/{name} takes long to end; it takes no keys any more"));
        };
        match removed {
            Ok(removed) => {
                let dropped = removed.dropped.len() + removed.interrupted.len();
                let keys = if dropped == 0 { String::new() } else { format!(", {dropped} keys were left") };
                self.screen.say(&format!("controller/{name} removed{keys}"));
            }
            // It never ran.
            Err(Error::UnknownController(_)) => self.screen.say(&format!("controller/{name} removed")),
            Err(error) => self.screen.warn(&format!("controller/{name} could not be removed: {}", chain(&error))),
        }
    }
}

async fn read_component(file: &Path) -> Result<Vec<u8>, String> {
    let path = file.to_owned();
    let read = tokio::task::spawn_blocking(move || {
        let bytes = std::fs::metadata(&path)?.len();
        if bytes > COMPONENT_BYTES_MAX {
            let text = format!("it has {} MiB, and at most {} are read", bytes >> 20, COMPONENT_BYTES_MAX >> 20);
            return Err(std::io::Error::other(text));
        }
        std::fs::read(&path)
    });
    let read = read.await.expect("reading a file does not panic");
    read.map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => {
            "  - the file is not there; build the guest, or run `homeostat dev`, which does".to_owned()
        }
        _ => format!("  - the file cannot be read: {error}"),
    })
}

/// Writes reasons as a list, one below the other.
fn list<T: ToString>(reasons: &[T]) -> String {
    reasons
        .iter()
        .map(|reason| format!("  - {}", reason.to_string().replace('\n', "\n    ")))
        .collect::<Vec<_>>()
        .join("\n")
}

/// Writes an error with its causes.
pub(super) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text = format!("{text}: {cause}");
        next = cause.source();
    }
    text
}

/// Cuts a digest to what people compare.
pub(crate) fn short(digest: &str) -> &str {
    digest.get(.."sha256:".len() + 12).unwrap_or(digest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_told_is_told_again_only_when_it_is_something_else() {
        let now = Instant::now();
        let why = |bytes: &[u8], reason: &str| Why { digest: Some(Digest::of(bytes)), reason: reason.to_owned() };
        let told = || Refusal { since: now, why: why(b"1", "cut off"), told: true };
        let later = now + Duration::from_secs(1);
        assert!(Refusal::after(Some(told()), why(b"1", "cut off"), later).told);
        assert!(!Refusal::after(Some(told()), why(b"2", "cut off"), later).told);
        assert!(!Refusal::after(Some(told()), why(b"1", "other"), later).told);
        assert!(!Refusal::after(None, why(b"1", "cut off"), later).told);
    }

    #[test]
    fn patience_starts_anew_with_every_change() {
        let now = Instant::now();
        let why = || Why { digest: None, reason: "gone".to_owned() };
        let untold = Refusal { since: now, why: why(), told: false };
        let later = now + Duration::from_secs(1);
        let after = Refusal::after(Some(untold), why(), later);
        assert!(after.since == later && !after.told);
    }

    #[test]
    fn reasons_are_a_list_and_digests_are_short() {
        assert_eq!(list(&["one", "two\nlines"]), "  - one\n  - two\n    lines");
        assert_eq!(short("sha256:0123456789abcdef"), "sha256:0123456789ab");
        assert_eq!(short("odd"), "odd");
    }
}
