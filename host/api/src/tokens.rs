//! Who may ask, by the tokens of a file.
//!
//! The file is YAML: a list of `{name: alice, token: …, access: read}`. It is read when the server starts, and again when it has changed.
//! In memory there are SHA-256 digests alone, and a token is looked for by its digest, so that how long it takes tells nothing about
//! the tokens. No error and no line of the log has a part of the file in it but names.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::http::{HeaderMap, header};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_saphyr::{Location, Spanned};
use sha2::{Digest, Sha256};
use tokio::time::Instant;

use crate::secret::{self, BadFile};

/// Characters that a token has at least.
const TOKEN_CHARS_MIN: usize = 16;

/// The least time between two looks at the file.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// What a token lets its owner do.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Access {
    /// Read everything, change nothing.
    Read,
    /// Everything.
    Write,
}

/// Whose token it is.
#[derive(Debug, Eq, PartialEq)]
pub(crate) struct Caller {
    pub(crate) name: String,
    pub(crate) access: Access,
}

/// A token that a request came with, and whose it is.
#[derive(Clone)]
pub(crate) struct Pass {
    pub(crate) caller: Arc<Caller>,
    tokens: Arc<Tokens>,
    digest: [u8; 32],
}

impl Pass {
    /// Waits until the token is taken out of the file, which is looked at for that as often as may be.
    ///
    /// *Cancel safety*: nothing is lost.
    pub(crate) async fn over(&self) {
        while self.tokens.known.lock().callers.contains_key(&self.digest) {
            tokio::time::sleep(LOOK_EVERY).await;
            self.tokens.look_again().await;
        }
    }
}

/// Callers by the digests of their tokens.
type Callers = BTreeMap<[u8; 32], Arc<Caller>>;

/// The tokens of one file.
pub(crate) struct Tokens {
    path: PathBuf,
    known: Mutex<Known>,
}

/// What is known of the file.
struct Known {
    looked: Instant,
    /// The file that was looked at last; `None` when there was none.
    stamp: Option<Stamp>,
    callers: Callers,
}

/// What changes when a file does: its number, its length, and when it was written and changed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Stamp([i128; 4]);

/// One entry as it is written. It cannot be printed: it has a token.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    name: String,
    token: String,
    access: Access,
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokens").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Tokens {
    /// Reads the tokens of a file.
    ///
    /// # Errors
    /// A [`BadFile`] when there is none, when others can read it, or when it is not a list of tokens.
    pub(crate) fn open(path: &Path) -> Result<Self, BadFile> {
        // In this order: what is written in between is read again.
        let stamp = Some(stamp(path)?);
        let callers = read(path)?;
        Ok(Self { path: path.into(), known: Mutex::new(Known { looked: Instant::now(), stamp, callers }) })
    }

    /// Returns which token a request has; `None` when it has none, or one that is not known.
    pub(crate) async fn pass(self: &Arc<Self>, headers: &HeaderMap) -> Option<Pass> {
        let digest: [u8; 32] = Sha256::digest(bearer(headers)?).into();
        self.look_again().await;
        let caller = self.known.lock().callers.get(&digest).cloned()?;
        Some(Pass { caller, tokens: self.clone(), digest })
    }

    /// Reads the file again if it is time to and it has changed.
    async fn look_again(self: &Arc<Self>) {
        {
            let mut known = self.known.lock();
            if known.looked.elapsed() < LOOK_EVERY {
                return;
            }
            known.looked = Instant::now();
        }
        let tokens = self.clone();
        // It does not panic; and if it did, the tokens of before would stay.
        drop(tokio::task::spawn_blocking(move || tokens.read_again()).await);
    }

    /// Takes the file over as it is now. One that is gone or cannot be used is told, and the tokens of before stay.
    fn read_again(&self) {
        let found = stamp(&self.path);
        let now = found.as_ref().ok().copied();
        if std::mem::replace(&mut self.known.lock().stamp, now) == now {
            return;
        }
        let path = self.path.display();
        match found.map_err(BadFile::from).and_then(|_| read(&self.path)) {
            Ok(callers) => {
                tracing::info!(%path, tokens = callers.len(), "the tokens have changed");
                self.known.lock().callers = callers;
            }
            Err(error) => {
                tracing::error!(%path, %error, "the tokens cannot be read again, those of before stay");
                if matches!(error, BadFile::Io(_)) {
                    // Not for what is in it: the next look tries again.
                    self.known.lock().stamp = None;
                }
            }
        }
    }
}

/// Returns the token that a request carries.
fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    let value = headers.get(header::AUTHORIZATION)?.as_bytes();
    let (scheme, token) = value.split_at_checked("Bearer ".len())?;
    scheme.eq_ignore_ascii_case(b"Bearer ").then(|| token.trim_ascii())
}

fn stamp(path: &Path) -> io::Result<Stamp> {
    let found = fs::metadata(path)?;
    let nanos = |seconds: i64, nanos: i64| i128::from(seconds) * 1_000_000_000 + i128::from(nanos);
    let written = nanos(found.mtime(), found.mtime_nsec());
    let changed = nanos(found.ctime(), found.ctime_nsec());
    Ok(Stamp([found.ino().into(), found.size().into(), written, changed]))
}

/// Reads a file of tokens.
fn read(path: &Path) -> Result<Callers, BadFile> {
    let bytes = secret::read(path)?;
    let text = str::from_utf8(&bytes).map_err(|_| BadFile::Content("it is not UTF-8".into()))?;
    parse(text)
}

/// Reads a list of tokens.
fn parse(text: &str) -> Result<Callers, BadFile> {
    if text.trim().is_empty() {
        // Not nobody's: it may be in the middle of being written.
        return Err(bad(None, "it is empty: write `[]` where nobody may ask"));
    }
    let options = serde_saphyr::options! { with_snippet: false };
    let entries = serde_saphyr::from_str_with_options::<Vec<Spanned<Written>>>(text, options).map_err(|error| {
        // Not in the words of the error: they quote what stands there.
        let what =
            "expected a list of `{name: …, token: …, access: read or write}`, each with these three and no others";
        bad(error.location(), what)
    })?;
    let (mut callers, mut names) = (Callers::new(), BTreeSet::new());
    for entry in entries {
        let place = Some(entry.referenced);
        let Written { name, token, access } = entry.value;
        check(&name, &token).map_err(|what| bad(place, &what))?;
        if !names.insert(name.clone()) {
            return Err(bad(place, &format!("the name `{name}` stands here twice")));
        }
        let digest = Sha256::digest(&token).into();
        if let Some(other) = callers.insert(digest, Arc::new(Caller { name: name.clone(), access })) {
            return Err(bad(place, &format!("{name} has the token of {}: give each its own", other.name)));
        }
    }
    Ok(callers)
}

/// Says what is wrong with one entry.
fn check(name: &str, token: &str) -> Result<(), String> {
    if name.is_empty() || name.chars().any(char::is_control) {
        return Err("the name is empty, or has a character that nobody can read".into());
    }
    if token.len() < TOKEN_CHARS_MIN {
        return Err(format!(
            "the token of {name} has less than {TOKEN_CHARS_MIN} characters: take one that nobody can guess, as from `openssl rand -hex 32`"
        ));
    }
    if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(format!("the token of {name} has a character that no header can have"));
    }
    Ok(())
}

fn bad(place: Option<Location>, what: &str) -> BadFile {
    BadFile::Content(match place {
        Some(place) => format!("line {}, column {}: {what}", place.line(), place.column()),
        None => what.to_owned(),
    })
}

#[cfg(test)]
mod tests;
