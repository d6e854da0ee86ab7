//! Continue tokens of lists that a server answers, past every cache.
//!
//! The token of a server may name a resource, and the holder of a continue token may not be allowed to know
//! it. So the store keeps the server's tokens, and callers get their numbers. A server's token leads to a
//! whole page. A caller that leaves out resources goes on inside of a page: its token also has the limit of
//! the page, and the path of the last resource that was used.

use std::collections::VecDeque;
use std::time::SystemTime;

use crate::model::Path;
use crate::{Error, Key, Kind, Page, Result};

/// Begins these tokens. No token of a store in this process begins so.
const MARK: char = '~';
/// Tokens of a server that are kept. Beyond this number, the oldest list has to begin again.
const TOKENS_MAX: usize = 1024;
/// Longest token of a server, in bytes.
const TOKEN_BYTES_MAX: usize = 4 << 10;

/// A continue token of a list that a server answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServerToken {
    /// The number of the server's token for the page.
    pub(crate) number: u64,
    /// Where to go on inside of the page; `None` for its beginning.
    pub(crate) rest: Option<PageRest>,
}

/// The rest of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PageRest {
    /// The limit of the page: only with it the server's token leads to the same resources.
    pub(crate) limit: usize,
    after: Path,
}

impl ServerToken {
    /// Returns whether a token is one of these.
    pub(crate) fn is_one(text: &str) -> bool {
        text.starts_with(MARK)
    }

    /// Parses a token.
    ///
    /// # Errors
    /// `Invalid` when it has another form.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        Self::read(text).ok_or_else(super::not_a_token)
    }

    fn read(text: &str) -> Option<Self> {
        let text = text.strip_prefix(MARK)?;
        let Some((number, rest)) = text.split_once(MARK) else {
            return Some(Self { number: text.parse().ok()?, rest: None });
        };
        let (limit, hex) = rest.split_once(MARK)?;
        let limit = limit.parse().ok().filter(|limit| *limit > 0)?;
        let rest = PageRest { limit, after: super::read_path(hex)? };
        Some(Self { number: number.parse().ok()?, rest: Some(rest) })
    }

    /// Returns the text of the token for the beginning of a page.
    pub(crate) fn write(number: u64) -> String {
        format!("{MARK}{number}")
    }

    /// Returns the text of the token that goes on after `last` in this page, which was asked for with `limit`.
    pub(super) fn after(&self, last: &Key, limit: usize) -> String {
        let limit = self.rest.as_ref().map_or(limit, |rest| rest.limit);
        format!("{MARK}{}{MARK}{limit}{MARK}{}", self.number, super::write_path(&Path::of(last)))
    }
}

impl PageRest {
    /// Removes what comes before the rest.
    pub(crate) fn cut(&self, page: &mut Page) {
        page.items.retain(|resource| Path::of(resource.key()) > self.after);
    }
}

/// The tokens of a server, by their numbers.
#[derive(Debug, Default)]
pub(crate) struct ServerTokens {
    /// The oldest one first, with the kinds of their lists.
    tokens: VecDeque<(Kind, String)>,
    /// The number of the oldest one.
    oldest: u64,
}

impl ServerTokens {
    /// Returns an empty set, whose numbers are those of no earlier process.
    pub(crate) fn starting_at(now: SystemTime) -> Self {
        let since = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Self { oldest: u64::try_from(since.as_micros()).unwrap_or_default(), tokens: VecDeque::new() }
    }

    /// Keeps a token, and returns its number.
    ///
    /// # Errors
    /// `Unavailable` for a token that is too long.
    pub(crate) fn add(&mut self, kind: &Kind, token: String) -> Result<u64> {
        if token.len() > TOKEN_BYTES_MAX {
            let length = token.len();
            return Err(Error::unavailable(format!("the continue token of the server has {length} bytes")));
        }
        if self.tokens.len() >= TOKENS_MAX {
            self.tokens.pop_front();
            self.oldest += 1;
        }
        self.tokens.push_back((kind.clone(), token));
        Ok(self.oldest + self.tokens.len() as u64 - 1)
    }

    /// Returns a token; `None` if it is not kept any more.
    ///
    /// # Errors
    /// `Invalid` for the number of a token that was never given for this kind.
    pub(crate) fn get(&self, kind: &Kind, number: u64) -> Result<Option<&str>> {
        let Some(at) = number.checked_sub(self.oldest) else { return Ok(None) };
        let found = usize::try_from(at).ok().and_then(|at| self.tokens.get(at));
        match found {
            Some((of, token)) if of.same_type(kind) => Ok(Some(token)),
            _ => Err(super::not_a_token()),
        }
    }
}

/// Returns the limit of a list with pages.
pub(super) fn page_limit(limit: Option<usize>) -> Result<usize> {
    limit.ok_or_else(|| Error::invalid("limit", "must be set for a list in pages"))
}
