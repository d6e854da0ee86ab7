//! A backup of the running store, as one stream of bytes.
//!
//! The copy is made beside the store's file and loses its name before the first byte is sent, so nothing of it stays, however the answer
//! ends. One is made at a time.

use std::convert::Infallible;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use axum::body::Body;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream;
use homeostat_store::embedded::{BackupError, BackupReport, backup};
use homeostat_store::{Source, SystemSource};

use crate::router::Api;
use crate::status::Failure;

/// Bytes that are read and sent at once.
const PIECE_BYTES: usize = 256 << 10;

/// Answers with a backup of the store.
pub(crate) async fn answer(State(api): State<Api>) -> Result<Response, Failure> {
    let store = api.backups.clone();
    let store = store.ok_or_else(|| refused(StatusCode::NOT_IMPLEMENTED, "this host's store keeps no file"))?;
    let Ok(_one) = api.backing_up.try_lock() else {
        return Err(refused(StatusCode::TOO_MANY_REQUESTS, "another backup is being made: try again later"));
    };
    let path = store.path().ok_or_else(|| refused(StatusCode::NOT_IMPLEMENTED, "this host's store keeps no file"))?;
    let copy = Copy(beside(path));
    let BackupReport { revision, resources, bytes, .. } = backup(&store, &copy.0).await.map_err(failed)?;
    let file = File::open(&copy.0).map_err(|error| failed(BackupError::Io { path: copy.0.clone(), source: error }))?;
    // Who has it open can read it to the end.
    drop(copy);
    let pieces = stream::unfold(Some(file), async |file| {
        let mut file = file?;
        let read = tokio::task::spawn_blocking(move || {
            let mut piece = vec![0; PIECE_BYTES];
            let read = file.read(&mut piece).map(|length| piece.truncate(length));
            (read.map(|()| piece), file)
        });
        match read.await {
            Ok((Ok(piece), file)) if !piece.is_empty() => Some((Ok::<_, Infallible>(Bytes::from(piece)), Some(file))),
            // What is missing at the end shows in the length.
            _ => None,
        }
    });
    let headers = [
        (header::CONTENT_TYPE.as_str(), "application/octet-stream".to_owned()),
        (header::CONTENT_LENGTH.as_str(), bytes.to_string()),
        ("homeostat-revision", revision.to_string()),
        ("homeostat-resources", resources.to_string()),
    ];
    Ok((headers, Body::from_stream(pieces)).into_response())
}

/// A file that goes when this does.
struct Copy(PathBuf);

impl Drop for Copy {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_file(&self.0)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            tracing::warn!(path = %self.0.display(), %error, "a backup that is not needed any more stays");
        }
    }
}

fn beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}.backup", SystemSource.uid()));
    PathBuf::from(name)
}

fn failed(error: BackupError) -> Failure {
    let message = match std::error::Error::source(&error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    };
    refused(StatusCode::SERVICE_UNAVAILABLE, message)
}

fn refused(code: StatusCode, message: impl Into<String>) -> Failure {
    let reason = match code {
        StatusCode::NOT_IMPLEMENTED => "NotImplemented",
        StatusCode::TOO_MANY_REQUESTS => "TooManyRequests",
        _ => "ServiceUnavailable",
    };
    Failure::new(code, reason, message)
}
