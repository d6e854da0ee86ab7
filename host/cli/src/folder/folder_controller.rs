//! A controller of a folder, and why its current files were rejected.

use std::path::{Path, PathBuf};

use homeostat_component::Digest;
use homeostat_runtime::manifest::Manifest;
use homeostat_store::Revision;
use tokio::time::Instant;

use super::Document;
use crate::manifest::TextPosition;

/// A controller of the folder, and the state of its installation.
pub(super) struct FolderController {
    pub(super) manifest: Box<Manifest>,
    pub(super) manifest_file: PathBuf,
    /// The position of its name in that file.
    pub(super) place: TextPosition,
    /// The component's file. `None`: the manifest names its component by digest or OCI reference.
    pub(super) file: Option<PathBuf>,
    /// The revision of the last write.
    pub(super) written: Option<Revision>,
    pub(super) refused: Option<Rejection>,
}

/// The current manifest and component were rejected.
pub(super) struct Rejection {
    pub(super) since: Instant,
    pub(super) why: RejectionCause,
    pub(super) told: bool,
}

/// The rejected component and the reason. Equal causes are reported once.
#[derive(PartialEq)]
pub(super) struct RejectionCause {
    /// `None`: the component could not be read.
    pub(super) digest: Option<Digest>,
    pub(super) reason: String,
    pub(super) stage: Stage,
}

/// The stage at which a controller was rejected.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Stage {
    /// The component could not be read or stored.
    Read,
    /// The resource could not be written.
    Write,
    /// The host refused to run it.
    Run,
}

impl Rejection {
    /// Returns a rejection for the current files. `before` is the rejection of the previous attempt.
    pub(super) fn after(before: Option<Self>, why: RejectionCause, now: Instant) -> Self {
        let told = before.is_some_and(|before| before.told && before.why == why);
        Self { since: now, why, told }
    }
}

impl FolderController {
    pub(super) fn new(document: &Document, manifest: &Manifest) -> Self {
        let folder = document.file.parent().unwrap_or(Path::new("."));
        Self {
            file: manifest.spec.component.file.as_ref().map(|file| folder.join(file)),
            manifest: Box::new(manifest.clone()),
            manifest_file: document.file.clone(),
            place: document.name_place,
            written: None,
            refused: None,
        }
    }

    /// Returns whether it was rejected and that has not been reported yet.
    pub(super) fn is_suspect(&self) -> bool {
        self.refused.as_ref().is_some_and(|refusal| !refusal.told)
    }

    /// Returns whether its component could be read and its resource could not be written.
    pub(super) fn is_unwritten(&self) -> bool {
        self.refused.as_ref().is_some_and(|refusal| refusal.why.stage == Stage::Write)
    }
}
