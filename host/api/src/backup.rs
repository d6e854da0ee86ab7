//! A backup of the running store, as one stream of bytes.
//!
//! The copy is made beside the store's file and unlinked before the first byte is sent, so it disappears when
//! the client disconnects. Only one backup exists at a time, and other requests are told to retry. It may
//! take as long as the client keeps reading. A client that stops reading loses its connection, which ends the
//! backup.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use homeostat_store::embedded::{BackupError, BackupReport, EmbeddedStore, backup};
use homeostat_store::{ClockAndIds, SystemClockAndIds};
use tokio::fs::File;
use tokio_util::io::ReaderStream;

use crate::limits::hold_until_sent;
use crate::state::Api;
use crate::status::Failure;

/// Bytes read from the copy and sent at once.
const PIECE_BYTES: usize = 256 << 10;

/// The `Retry-After` of a refused backup, in seconds. By about then a stalled reader has lost its connection.
const RETRY_AFTER_S: u32 = 10;

/// Responds with a backup of the store.
pub(crate) async fn answer(State(api): State<Arc<Api>>) -> Result<Response, Failure> {
    let no_file =
        || Failure::new(StatusCode::NOT_IMPLEMENTED, "NotImplemented", "this host's store has no file to back up");
    let store = api.backups.clone().ok_or_else(no_file)?;
    let path = store.path().ok_or_else(no_file)?.to_owned();
    let Ok(one) = api.backup_lock.clone().try_lock_owned() else {
        return Err(Failure::too_many(RETRY_AFTER_S, "another backup is being made or read: try again later"));
    };
    // This task outlives a client that disconnects, so the copy is always removed.
    let making = tokio::spawn(async move { Ok::<_, Failure>((make(&store, &path).await?, one)) });
    let ((file, report), one) = making.await.map_err(|_| Failure::unavailable("the backup task failed"))??;
    let BackupReport { revision, resources, bytes, .. } = report;
    // The lock is held until the copy is read: the unlinked file occupies disk space for as long.
    // If the file ends early, the response is shorter than its `Content-Length`.
    let pieces = ReaderStream::with_capacity(file, PIECE_BYTES);
    let headers = [
        (header::CONTENT_TYPE.as_str(), "application/octet-stream".to_owned()),
        (header::CONTENT_LENGTH.as_str(), bytes.to_string()),
        ("homeostat-revision", revision.to_string()),
        ("homeostat-resources", resources.to_string()),
    ];
    Ok(hold_until_sent((headers, Body::from_stream(pieces)).into_response(), one))
}

/// Makes a copy beside the store, opens it and unlinks it. The open file can still be read to its end.
async fn make(store: &EmbeddedStore, path: &Path) -> Result<(File, BackupReport), Failure> {
    let copy = TemporaryCopy(beside(path));
    let report = backup(store, &copy.0).await.map_err(failed)?;
    let file =
        File::open(&copy.0).await.map_err(|error| failed(BackupError::Io { path: copy.0.clone(), source: error }))?;
    Ok((file, report))
}

/// A file that is removed when this value is dropped.
struct TemporaryCopy(PathBuf);

impl Drop for TemporaryCopy {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_file(&self.0)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            tracing::warn!(path = %self.0.display(), %error, "a temporary backup could not be removed");
        }
    }
}

fn beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}.backup", SystemClockAndIds.uid()));
    PathBuf::from(name)
}

fn failed(error: BackupError) -> Failure {
    Failure::unavailable(match std::error::Error::source(&error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    })
}
