//! What a host remembers of the kinds that were moved: where each lives, and which store has a former copy.
//!
//! The file is written before a step has effects elsewhere. So a copy counts only if the kind has had no writes
//! since: a host that starts with the former route forgets the copy before it serves a request.

mod former_uids;
mod kind_digest;
mod revision_offset;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tokio::sync::Mutex;

use self::former_uids::FormerUids;
pub(crate) use self::former_uids::References;
pub(crate) use self::kind_digest::KindDigest;
pub(crate) use self::revision_offset::RevisionOffset;
use crate::routes::{HOME, KindPattern, RULES_MAX, Routes};
use crate::{Error, Kind, Query, ResourcePages, Result, Store};

/// Bytes of the file at most.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The kinds of a host that were moved between its stores.
#[derive(Debug, Default)]
pub struct MovedKinds {
    /// `None` for a host that remembers nothing.
    path: Option<PathBuf>,
    /// How often each kind was moved. Fixed when the host starts.
    moves: Vec<(Kind, u64)>,
    records: Mutex<Records>,
    former_uids: FormerUids,
}

/// The file. Fields that this version does not know are ignored.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Records {
    kinds: Vec<Record>,
}

/// One kind that was moved, or is about to be.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Record {
    kind: Kind,
    /// How often it was moved.
    moves: u64,
    /// The store in which it lives.
    lives: Arc<str>,
    /// The store that has a former or an unfinished copy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    former: Option<Arc<str>>,
    /// A complete copy, to which no route leads yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    copy: Option<CopyRecord>,
    /// Whom dependents name, after a move into a store that gave its copies uids of their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    references: Option<References>,
}

/// A complete copy of a kind.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct CopyRecord {
    to: Arc<str>,
    resources: u64,
    digest: String,
    /// Whether the copies have uids of their own.
    #[serde(default)]
    has_new_uids: bool,
}

impl Record {
    /// Drops the copy: writes may follow that it does not have.
    fn void(&mut self) {
        if let Some(copy) = self.copy.take() {
            self.former = Some(copy.to);
        }
    }

    /// Follows the routes with which the host starts.
    ///
    /// # Errors
    /// The reason, for a person, why the kind cannot live there.
    async fn follow_routes(&mut self, lives: Arc<str>, home: &dyn Store) -> std::result::Result<(), String> {
        if lives == self.lives {
            self.void();
            return Ok(());
        }
        match &self.copy {
            Some(copy) if copy.to == lives => {
                if *self.lives == *HOME {
                    let digest = digest_of(home, &self.kind).await.map_err(|error| error.to_string())?;
                    // A store in memory is empty now.
                    let is_same = (digest.resources, &digest.text()) == (copy.resources, &copy.digest);
                    if !is_same && digest.resources > 0 {
                        let kind = &self.kind;
                        return Err(format!(
                            "{kind} was changed in store `{HOME}` after it was copied: route it to `{HOME}`, and copy it again"
                        ));
                    }
                }
                self.references = copy.has_new_uids.then_some(References::Former);
                self.copy = None;
                self.former = Some(std::mem::replace(&mut self.lives, lives));
            }
            _ if self.former.as_ref() == Some(&lives) => {
                let Self { kind, lives: now, .. } = self;
                return Err(format!(
                    "{kind} lives in store `{now}`, and store `{lives}` has an old or unfinished copy: route it to `{now}`, and run `homeostat stores copy {} --to {lives}` first",
                    KindPattern::of(kind)
                ));
            }
            _ => {
                self.void();
                self.references = None;
                self.lives = lives;
            }
        }
        self.moves += 1;
        Ok(())
    }
}

/// Returns the digest of the resources of a kind.
async fn digest_of(store: &dyn Store, kind: &Kind) -> Result<KindDigest> {
    let mut digest = KindDigest::default();
    let mut pages = ResourcePages::new(store, Query::all(kind.clone()));
    while let Some(resource) = pages.next().await? {
        digest.add(&resource);
    }
    Ok(digest)
}

impl MovedKinds {
    /// Reads the file, if there is one.
    ///
    /// # Errors
    /// When it cannot be read or parsed.
    pub fn open(path: PathBuf) -> io::Result<Self> {
        let records: Records = match homeostat_files::read_text(&path, FILE_BYTES_MAX) {
            Ok(text) => serde_json::from_str(&text)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Records::default(),
            Err(error) => return Err(error),
        };
        let former_uids = FormerUids::default();
        Ok(Self { path: Some(path), moves: Vec::new(), records: Mutex::new(records), former_uids })
    }

    /// Returns whether no kind was ever moved.
    pub fn is_empty(&self) -> bool {
        self.records.try_lock().is_ok_and(|records| records.kinds.is_empty())
    }

    /// Follows the routes with which the host starts. A copy to which a route now leads becomes the kind.
    ///
    /// # Errors
    /// The kind, and the reason for a person: the routes would show an old copy of it. Nothing is changed.
    pub async fn follow_routes(
        &mut self,
        routes: &Routes,
        home: &dyn Store,
    ) -> std::result::Result<(), (Kind, String)> {
        let mut records = self.records.get_mut().clone();
        for record in &mut records.kinds {
            let lives = routes.of(&record.kind).store;
            record.follow_routes(lives, home).await.map_err(|reason| (record.kind.clone(), reason))?;
        }
        self.moves = records.kinds.iter().map(|record| (record.kind.clone(), record.moves)).collect();
        self.former_uids.set(&records);
        if let Some(first) = records.kinds.first().map(|record| record.kind.clone()) {
            let written = write(self.path.as_deref(), &records).await;
            written.map_err(|error| (first, error.to_string()))?;
        }
        *self.records.get_mut() = records;
        Ok(())
    }

    /// Returns the offset of the revisions of a kind, by how often it had been moved when the host started.
    pub(crate) fn offset(&self, kind: &Kind) -> RevisionOffset {
        let moves = self.moves.iter().find(|(moved, _)| moved.same_type(kind)).map_or(0, |(_, moves)| *moves);
        RevisionOffset::of(moves)
    }

    /// Returns the store that has a former or an unfinished copy of a kind.
    pub async fn former(&self, kind: &Kind) -> Option<Arc<str>> {
        let records = self.records.lock().await;
        records.kinds.iter().find(|record| record.kind.same_type(kind))?.former.clone()
    }

    /// Notes that the copy of a kind does not count any more.
    pub(crate) async fn void(&self, kind: &Kind) -> Result<()> {
        self.change(kind, |record| record.void()).await
    }

    /// Notes that a store is about to get an unfinished copy of a kind.
    pub(crate) async fn begin(&self, kind: &Kind, lives: &Arc<str>, to: &Arc<str>) -> Result<()> {
        let mut records = self.records.lock().await;
        let mut changed = records.clone();
        if !changed.kinds.iter().any(|record| record.kind.same_type(kind)) {
            if changed.kinds.len() >= RULES_MAX {
                return Err(Error::invalid("kind", format!("{RULES_MAX} kinds were moved already")));
            }
            let lives = Arc::clone(lives);
            let kind = kind.clone();
            changed.kinds.push(Record { kind, moves: 0, lives, former: None, copy: None, references: None });
        }
        for record in changed.kinds.iter_mut().filter(|record| record.kind.same_type(kind)) {
            (record.copy, record.former) = (None, Some(Arc::clone(to)));
        }
        write(self.path.as_deref(), &changed).await?;
        *records = changed;
        Ok(())
    }

    /// Notes that the copy of a kind is complete. The writes of the kind are held until the host ends.
    pub(crate) async fn complete(
        &self,
        kind: &Kind,
        to: &Arc<str>,
        digest: &KindDigest,
        has_new_uids: bool,
    ) -> Result<()> {
        let (to, resources, digest) = (Arc::clone(to), digest.resources, digest.text());
        let copy = CopyRecord { to, resources, digest, has_new_uids };
        self.change(kind, |record| (record.copy, record.former) = (Some(copy), None)).await
    }

    /// Notes that a store has no copy of a kind any more.
    pub(crate) async fn pruned(&self, kind: &Kind, store: &str) -> Result<()> {
        self.change(kind, |record| {
            record.void();
            record.former = record.former.take().filter(|former| **former != *store);
            record.references = record.references.filter(|_| record.former.is_some());
        })
        .await
    }

    /// Returns whom the dependents of a kind name; `None` for a kind whose resources have the uids of before.
    pub(crate) fn references(&self, kind: &Kind) -> Option<References> {
        self.former_uids.of(kind)
    }

    /// Returns the kinds whose dependents may name former uids.
    pub(crate) fn waiting(&self) -> Vec<Kind> {
        self.former_uids.waiting()
    }

    /// Notes that the dependents of a kind name the uids that its resources have now.
    pub(crate) async fn follow_uids(&self, kind: &Kind) -> Result<()> {
        self.change(kind, |record| record.references = record.references.map(|_| References::Current)).await
    }

    /// Changes the record of a kind, if there is one. Returns when that is durable.
    async fn change(&self, kind: &Kind, change: impl FnOnce(&mut Record)) -> Result<()> {
        // The lock is held while the file is written, so that no older state replaces a newer one.
        let mut records = self.records.lock().await;
        let mut changed = records.clone();
        let Some(record) = changed.kinds.iter_mut().find(|record| record.kind.same_type(kind)) else { return Ok(()) };
        change(record);
        write(self.path.as_deref(), &changed).await?;
        self.former_uids.set(&changed);
        *records = changed;
        Ok(())
    }
}

async fn write(path: Option<&Path>, records: &Records) -> Result<()> {
    let Some(path) = path.map(Path::to_owned) else { return Ok(()) };
    let shown = path.display().to_string();
    let bytes = serde_json::to_vec_pretty(records).map_err(Error::unavailable)?;
    let written = tokio::task::spawn_blocking(move || {
        path.parent().map_or(Ok(()), homeostat_files::make_private_folder)?;
        homeostat_files::replace_durable(&path, &bytes)
    });
    let written = written.await.map_err(io::Error::other).and_then(|written| written);
    written.map_err(|error| Error::unavailable(format!("the move cannot be remembered in {shown}: {error}")))
}
