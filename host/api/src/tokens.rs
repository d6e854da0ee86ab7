//! Bearer tokens, from a file.
//!
//! The file is YAML: a list of `{name: alice, token: …, access: read}`, or with `groups` and `rules` in place of or
//! beside `access`. It is read when the server starts, and again when it changes. Memory holds only SHA-256 digests, and tokens are looked up by digest, so the
//! time of a lookup tells nothing about them. Errors and logs contain no part of the file except names.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use serde::Deserialize;
use serde_saphyr::{Location, Spanned};

use crate::caller::{Access, Caller};
use crate::metrics::FileKind;
use crate::private_file::{self, BadFile};
use crate::rbac::{PolicyRule, RULES_MAX};
use crate::reloading_file::{CHECK_INTERVAL, ReloadingFile};
use crate::{Error, Metrics};

/// Minimum length of a token, in characters.
const TOKEN_CHARS_MIN: usize = 16;

/// Most groups of one token.
const GROUPS_MAX: usize = 100;

/// The token of a request, and its owner.
#[derive(Clone)]
pub(crate) struct KnownToken {
    pub(crate) owner: Arc<Caller>,
    tokens: Arc<Tokens>,
    digest: [u8; 32],
}

impl KnownToken {
    /// Waits until the token is removed from the file, or has other rights there. The file is checked every [`CHECK_INTERVAL`].
    ///
    /// *Cancel safety*: nothing is lost.
    pub(crate) async fn revoked(&self) {
        while self.tokens.0.current().await.get(&self.digest) == Some(&self.owner) {
            tokio::time::sleep(CHECK_INTERVAL).await;
        }
    }
}

/// Callers by the digests of their tokens.
type Callers = BTreeMap<[u8; 32], Arc<Caller>>;

/// The tokens of one file.
#[derive(Debug)]
pub(crate) struct Tokens(Arc<ReloadingFile<Callers>>);

/// One entry of the file. It has no `Debug`, because it contains a token.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TokenEntry {
    name: String,
    token: String,
    access: Option<Access>,
    #[serde(default)]
    groups: Vec<String>,
    #[serde(default)]
    rules: Vec<PolicyRule>,
}

impl Tokens {
    /// Reads the tokens of a file.
    ///
    /// # Errors
    /// [`Error::Tokens`] if the file does not exist, if other users can read it, or if it is not a list of
    /// tokens.
    pub(crate) fn open(path: PathBuf, metrics: Metrics) -> Result<Self, Error> {
        let paths = vec![path.clone()];
        let read = move || read(&path).map_err(|source| Error::Tokens { path: path.clone(), source });
        Ok(Self(Arc::new(ReloadingFile::open(FileKind::Tokens, paths, metrics, read)?)))
    }

    /// Returns a token and its owner; `None` for an unknown one.
    pub(crate) async fn find(self: &Arc<Self>, token: &str) -> Option<KnownToken> {
        let digest = sha256(token.as_bytes());
        let owner = self.0.current().await.get(&digest).cloned()?;
        Some(KnownToken { owner, tokens: self.clone(), digest })
    }

    /// Returns the owner of this name; `None` if no token has it.
    pub(crate) async fn owner(&self, name: &str) -> Option<Arc<Caller>> {
        self.0.current().await.values().find(|caller| caller.name == name).cloned()
    }
}

/// Returns the digest by which memory knows a token.
fn sha256(token: &[u8]) -> [u8; 32] {
    let mut bytes = [0; 32];
    bytes.copy_from_slice(digest(&SHA256, token).as_ref());
    bytes
}

/// Reads a file of tokens.
fn read(path: &Path) -> Result<Callers, BadFile> {
    let bytes = private_file::read(path)?;
    let text = str::from_utf8(&bytes).map_err(|_| BadFile::Content("it is not UTF-8".into()))?;
    parse(text)
}

/// Parses a list of tokens.
fn parse(text: &str) -> Result<Callers, BadFile> {
    if text.trim().is_empty() {
        // An empty file may be half-written, so it does not mean an empty list.
        return Err(bad(None, "it is empty: write `[]` to allow no client"));
    }
    let options = serde_saphyr::options! { with_snippet: false };
    let entries = serde_saphyr::from_str_with_options::<Vec<Spanned<TokenEntry>>>(text, options).map_err(|error| {
        // The parser's message is dropped, because it quotes the file.
        let what = "expected a list of `{name: …, token: …, access: read or write}`, each with these fields, `groups` and \
                    `rules`, and no others";
        bad(error.location(), what)
    })?;
    let (mut callers, mut names) = (Callers::new(), BTreeSet::new());
    for entry in entries {
        let place = Some(entry.referenced);
        let TokenEntry { name, token, access, groups, mut rules } = entry.value;
        check(&name, &token).map_err(|what| bad(place, &what))?;
        check_rights(&name, access, &groups, &rules).map_err(|what| bad(place, &what))?;
        rules.extend(access.map(Access::rule));
        if !names.insert(name.clone()) {
            return Err(bad(place, &format!("the name `{name}` appears twice")));
        }
        let caller = Arc::new(Caller { name: name.clone(), groups, access, rules, ..Caller::default() });
        if let Some(other) = callers.insert(sha256(token.as_bytes()), caller) {
            return Err(bad(place, &format!("{name} has the same token as {}: give each its own", other.name)));
        }
    }
    Ok(callers)
}

/// Checks one entry.
fn check(name: &str, token: &str) -> Result<(), String> {
    if name.is_empty() || name.chars().any(char::is_control) {
        return Err("the name is empty or has a control character".into());
    }
    if token.len() < TOKEN_CHARS_MIN {
        return Err(format!(
            "the token of {name} has fewer than {TOKEN_CHARS_MIN} characters: use a random one, as from `openssl rand -hex 32`"
        ));
    }
    if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(format!("the token of {name} has a character that is not allowed in a header"));
    }
    Ok(())
}

/// Checks the rights of one entry.
fn check_rights(name: &str, access: Option<Access>, groups: &[String], rules: &[PolicyRule]) -> Result<(), String> {
    if access.is_none() && groups.is_empty() && rules.is_empty() {
        return Err(format!("{name} has neither `access` nor `groups` nor `rules`"));
    }
    if groups.len() > GROUPS_MAX || rules.len() > RULES_MAX {
        return Err(format!("{name} has more than {GROUPS_MAX} groups or {RULES_MAX} rules"));
    }
    if groups.iter().any(|group| group.is_empty() || group.chars().any(char::is_control)) {
        return Err(format!("a group of {name} is empty or has a control character"));
    }
    if rules.iter().any(|rule| rule.verbs.is_empty()) {
        return Err(format!("a rule of {name} has no verbs"));
    }
    let is_about_resources = |rule: &PolicyRule| !rule.resources.is_empty() && !rule.api_groups.is_empty();
    if rules.iter().any(|rule| rule.paths.is_empty() && !is_about_resources(rule)) {
        return Err(format!("a rule of {name} needs `apiGroups` and `resources`, or `nonResourceURLs`"));
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
