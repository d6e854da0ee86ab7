//! Lists and their pages. Every page of a list shows the revision of the first page, unless its caller goes on in the present.
//!
//! Stores keep only the present. A later page, or a list at a former revision, reconstructs the past: for every key that changed since, the
//! `previous` of its first change after that revision is the state to show. So a list is consistent for as
//! long as the history reaches back to its first page. [`changes_since`] caches the changed keys between pages. Beyond that,
//! [`continue_in_present`] has the token of a page that shows the present.

pub(crate) mod changes_since;
mod pages;
mod server_token;
#[cfg(test)]
mod tests;

use std::sync::Arc;

pub use self::pages::ResourcePages;
pub(crate) use self::server_token::{ServerToken, ServerTokens};
use crate::index::ExaminedResources;
use crate::model::Path;
use crate::{Error, Key, PAGE_BYTES_MAX, Page, Query, Resource, Result, Revision};

/// The start of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Start {
    /// The revision that the list shows; `None` for the present.
    pub(crate) revision: Option<Revision>,
    /// The path prefix of the kind, or of one of its namespaces.
    pub(crate) prefix: Path,
    /// The last path of the page before.
    pub(crate) after: Option<Path>,
    /// The number of resources after that page; `None` if it was not counted.
    pub(crate) remaining: Option<u64>,
}

impl Start {
    /// Checks a query and parses its continue token.
    pub(crate) fn of(query: &Query, store: &str, oldest: Revision) -> Result<Self> {
        query.selector.validate()?;
        if query.limit == Some(0) {
            return Err(Error::invalid("limit", "must be 1 or more"));
        }
        let prefix = Path::prefix(&query.kind, query.selector.namespace.as_deref());
        let Some(token) = &query.from else {
            return Ok(Self { revision: query.at, prefix, after: None, remaining: None });
        };
        let (revision, remaining, origin, after) = read_token(token).ok_or_else(not_a_token)?;
        if revision.is_some() && origin != store {
            return Err(Error::Expired { oldest });
        }
        if !after.0.starts_with(&prefix.0) {
            return Err(Error::invalid("continue", "belongs to another list"));
        }
        Ok(Self { revision, prefix, after: Some(after), remaining })
    }

    /// Returns the last path before the page, which is no path of the list, and the first one after the list.
    pub(crate) fn range(&self) -> (&Path, Path) {
        (self.after.as_ref().unwrap_or(&self.prefix), self.prefix.end())
    }

    /// Counts the resources after a page, if a query asks for it. `count` counts the present rows after a path.
    ///
    /// A later page shows the past, so it continues the count of the page before.
    pub(crate) fn finish(
        &self,
        query: &Query,
        mut page: Page,
        count: impl FnOnce(&Path) -> Result<Option<u64>>,
    ) -> Result<Page> {
        let (Some(next), Some(last)) = (&page.next, page.items.last()) else { return Ok(page) };
        if !(query.count && query.selector.is_unconditional()) {
            return Ok(page);
        }
        let last = Path::of(last.key());
        page.remaining = match (self.revision, self.remaining) {
            (None, _) => count(&last)?,
            (Some(_), before) => before.map(|before| before.saturating_sub(page.items.len() as u64)),
        };
        if let (Some(remaining), Some((_, _, store, _))) = (page.remaining, read_token(next)) {
            page.next = Some(write_token(Some(page.revision), Some(remaining), store, &last));
        }
        Ok(page)
    }

    /// Returns whether a path belongs to this list and comes after the pages so far.
    pub(crate) fn covers(&self, path: &Path) -> bool {
        path.0.starts_with(&self.prefix.0) && self.after.as_ref().is_none_or(|after| path > after)
    }
}

/// A path, and its resource at the revision of a list; `None` if there was none.
pub(crate) type PastRow = (Path, Option<Arc<Resource>>);

/// Builds a page from the present rows and the past rows, both in the order of paths.
///
/// `now` has the rows that [`Start::covers`]; it may omit rows that the selector does not match. `past` has
/// the rows that differed at the revision of the list. A page with a limit ends before it exceeds
/// [`PAGE_BYTES_MAX`], so that memory stays bounded for large documents. `examined` counts the rows.
pub(crate) fn page(
    query: &Query,
    (store, examined): (&str, &ExaminedResources),
    revision: Revision,
    now: impl Iterator<Item = Result<(Path, Arc<Resource>)>>,
    past: impl Iterator<Item = Result<PastRow>>,
) -> Result<Page> {
    let mut items = Vec::new();
    let mut bytes = 0;
    let mut last = None;
    let rows = MergedRows { now: now.peekable(), past: past.peekable() };
    for row in rows {
        let (path, resource) = row?;
        examined.count();
        if !query.selector.matches(&resource) {
            continue;
        }
        bytes += resource.bytes();
        if query.limit.is_some_and(|limit| items.len() == limit || (bytes > PAGE_BYTES_MAX && !items.is_empty())) {
            let next = last.map(|last: Path| write_token(Some(revision), None, store, &last));
            return Ok(Page { items, revision, next, remaining: None });
        }
        items.push(resource);
        last = Some(path);
    }
    Ok(Page { items, revision, next: None, remaining: None })
}

/// The present rows, replaced by the past rows of the same path, in the order of paths.
struct MergedRows<N: Iterator, P: Iterator> {
    now: std::iter::Peekable<N>,
    past: std::iter::Peekable<P>,
}

impl<N, P> Iterator for MergedRows<N, P>
where
    N: Iterator<Item = Result<(Path, Arc<Resource>)>>,
    P: Iterator<Item = Result<PastRow>>,
{
    type Item = Result<(Path, Arc<Resource>)>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let past_first = match (self.now.peek(), self.past.peek()) {
                (Some(Ok((now, _))), Some(Ok((past, _)))) => past <= now,
                (Some(Ok(_)) | None, Some(Err(_))) | (None, Some(Ok(_))) => true,
                (_, None) | (Some(Err(_)), _) => false,
            };
            if !past_first {
                return self.now.next();
            }
            let (path, resource) = match self.past.next()? {
                Ok(was) => was,
                Err(error) => return Some(Err(error)),
            };
            // The present row of this path is newer than the list.
            self.now.next_if(|row| matches!(row, Ok((now, _)) if *now == path));
            if let Some(resource) = resource {
                return Some(Ok((path, resource)));
            }
        }
    }
}

/// Returns a [`Page::next`] that continues directly after `last`, for the list of the token `next` with
/// `limit` items per page. `last` is in the page that `next` leads to.
///
/// # Errors
/// [`Error::Invalid`] when `next` is not a continue token of a store, and for a server's list without a limit.
pub fn continue_after(next: &str, last: &Key, limit: Option<usize>) -> Result<String> {
    if ServerToken::is_one(next) {
        return Ok(ServerToken::parse(next)?.after(last, server_token::page_limit(limit)?));
    }
    let (revision, _, store, _) = read_token(next).ok_or_else(not_a_token)?;
    Ok(write_token(revision, None, store, &Path::of(last)))
}

/// Returns the token of a page that goes on after the same resource as an expired token, and shows the present. `None` for
/// one that shows the present itself, and for one of a server.
///
/// The list is not consistent: a resource that was created before this position is missing, and one that an earlier page showed
/// may be gone.
pub fn continue_in_present(expired: &str) -> Option<String> {
    let (revision, .., after) = read_token(expired)?;
    revision.map(|_| write_token(None, None, "", &after))
}

/// Returns whether the page of a token shows the present.
pub(crate) fn shows_present(token: &str) -> bool {
    read_token(token).is_some_and(|(revision, ..)| revision.is_none())
}

/// Checks that a continue token is one of a store.
pub(crate) fn check_token(token: &str) -> Result<()> {
    read_token(token).map(|_| ()).ok_or_else(not_a_token)
}

fn not_a_token() -> Error {
    Error::invalid("continue", "is not a continue token of this store")
}

/// A token for the present has this word in place of its revision.
const PRESENT: &str = "present";

/// Returns `REVISION[-REMAINING].STORE.PATH`. A token for the present names no store.
fn write_token(revision: Option<Revision>, remaining: Option<u64>, store: &str, last: &Path) -> String {
    let revision = revision.map_or_else(|| PRESENT.to_owned(), |revision| revision.to_string());
    let remaining = remaining.map_or(String::new(), |remaining| format!("-{remaining}"));
    format!("{revision}{remaining}.{store}.{}", write_path(last))
}

fn write_path(path: &Path) -> String {
    path.0.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn read_token(token: &str) -> Option<(Option<Revision>, Option<u64>, &str, Path)> {
    let (position, rest) = token.split_once('.')?;
    let (revision, remaining) = match position.split_once('-') {
        Some((revision, remaining)) => (revision, Some(remaining.parse().ok()?)),
        None => (position, None),
    };
    let revision = if revision == PRESENT { None } else { Some(revision.parse().ok()?) };
    let (store, hex) = rest.rsplit_once('.')?;
    Some((revision, remaining, store, read_path(hex)?))
}

fn read_path(hex: &str) -> Option<Path> {
    let digits = hex.as_bytes();
    if !digits.len().is_multiple_of(2) {
        return None;
    }
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    digits.chunks(2).map(byte).collect::<Option<Vec<u8>>>().map(Path)
}
