//! The requests that follow the resources of one kind, and the meaning of their answers. Pure: no clock, no
//! connection.
//!
//! A stream begins with a list, as [`Start`] says, and goes on with watches. The server sends the list as the
//! beginning of a watch where it can (one connection, no pages that expire), else in pages.
//!
//! A stream ends with its first error, and its reader opens another one after the last revision that it has
//! seen. An ordinary end of a watch is no error: the server ends each watch after some minutes.
//! A list does not begin again in the same stream, because the reader could not tell which of its resources
//! still exist.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use homeostat_store::cached::{Delta, LastState, Start};
use homeostat_store::{Error, Kind, Resource, Revision};

use crate::document::{ListedPage, UnreadableDocument, WatchLine};
use crate::errors::{RequestError, Status};

/// Resources in a page of a list.
pub(crate) const PAGE_LIMIT: u32 = 500;
/// The same once a continue token had expired before the last page: fewer pages take less time.
const PAGE_LIMIT_LARGE: u32 = 5000;
/// A watch that lived as long as this was a good one, even without events. A shorter one was not, even with some.
const LIFE_MIN: Duration = Duration::from_secs(5);

/// The form in which a kind is listed. Each stream passes it on to the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ListStrategy {
    /// Whether to ask for the list as the beginning of a watch.
    pub(crate) streaming: bool,
    /// Resources per page; `None` for all in one.
    pub(crate) page_limit: Option<u32>,
}

impl Default for ListStrategy {
    fn default() -> Self {
        Self { streaming: true, page_limit: Some(PAGE_LIMIT) }
    }
}

/// A request that a stream sends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StreamRequest {
    /// A page of a list.
    Page {
        /// The revision that the list has to show; `None` for the newest.
        exactly: Option<Revision>,
        /// The continue token of the page before.
        from: Option<String>,
        /// Resources per page; `None` for all in one.
        limit: Option<u32>,
    },
    /// A watch that begins with all resources and marks their end.
    Stream {
        /// The list shows this revision or a later one; `None` for the newest.
        not_before: Option<Revision>,
    },
    /// A watch of the changes after a revision.
    Watch {
        /// The revision.
        after: Revision,
    },
}

/// An event about the last request or its answer.
#[derive(Debug)]
pub(crate) enum StreamEvent {
    /// The page of a list.
    Page(ListedPage),
    /// A watch has begun.
    Opened,
    /// A line of the watch.
    Line(WatchLine),
    /// The request has no result.
    Failed(RequestError),
    /// The body of the watch ended, was cut, or has a line that cannot be used.
    Ended {
        /// How long the watch has lived.
        lived: Duration,
    },
    /// The watch sent nothing for longer than it may.
    Silent,
}

/// What to do next.
#[derive(Debug, PartialEq)]
pub(crate) enum StreamAction {
    /// Send a request, and drop the watch before it, if there is one.
    Send(StreamRequest),
    /// Read a line of the watch.
    Read,
    /// End the stream with the error.
    Fail(Error),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Pages are listed. Has the revision that the list has to show.
    Paging { exactly: Option<Revision>, is_first: bool },
    /// A watch sends the list.
    Streaming { not_before: Option<Revision>, has_listed: bool },
    /// A watch sends changes.
    Watching,
    /// The watch was silent. A list says whether the server has what the watch had.
    Probing,
}

/// The list and the watches of one stream.
#[derive(Debug)]
pub(crate) struct ListWatchMachine {
    kind: Kind,
    phase: Phase,
    strategy: ListStrategy,
    /// All changes up to here were delivered. Has a meaning while `Watching`.
    through: Revision,
    /// Watches in a row that ended at once.
    short_watches: u32,
}

impl ListWatchMachine {
    /// Creates the machine of a stream, and returns its first request.
    pub(crate) fn new(kind: Kind, start: Start, strategy: ListStrategy) -> (Self, StreamRequest) {
        let (phase, through) = match start {
            Start::Now { not_before } if strategy.streaming => {
                (Phase::Streaming { not_before, has_listed: false }, Revision::ZERO)
            }
            Start::Now { .. } => (Phase::Paging { exactly: None, is_first: true }, Revision::ZERO),
            Start::Exactly(at) => (Phase::Paging { exactly: Some(at), is_first: true }, Revision::ZERO),
            Start::After(after) => (Phase::Watching, after),
        };
        let machine = Self { kind, phase, strategy, through, short_watches: 0 };
        let request = match phase {
            Phase::Streaming { not_before, .. } => StreamRequest::Stream { not_before },
            Phase::Paging { exactly, .. } => machine.page(exactly, None),
            Phase::Watching | Phase::Probing => StreamRequest::Watch { after: through },
        };
        (machine, request)
    }

    /// Returns how to list the kind from now on.
    pub(crate) fn strategy(&self) -> ListStrategy {
        self.strategy
    }

    /// Returns whether the list is sent by a watch now.
    pub(crate) fn is_streaming(&self) -> bool {
        matches!(self.phase, Phase::Streaming { .. })
    }

    /// Takes what happened, adds deltas to `out`, and returns what to do next.
    pub(crate) fn step(&mut self, event: StreamEvent, out: &mut VecDeque<Delta>) -> StreamAction {
        match event {
            StreamEvent::Page(page) => self.page_listed(page, out),
            StreamEvent::Opened => StreamAction::Read,
            StreamEvent::Line(line) => self.line(line, out),
            StreamEvent::Failed(failure) => self.failed(failure),
            StreamEvent::Ended { lived } => self.ended(lived),
            StreamEvent::Silent => self.silent(),
        }
    }

    fn page(&self, exactly: Option<Revision>, from: Option<String>) -> StreamRequest {
        StreamRequest::Page { exactly, from, limit: self.strategy.page_limit }
    }

    fn page_listed(&mut self, page: ListedPage, out: &mut VecDeque<Delta>) -> StreamAction {
        let ListedPage { items, unreadable, at, next, remaining: _ } = page;
        let exactly = match self.phase {
            Phase::Paging { exactly, .. } => exactly,
            // The content of the server was replaced by an older one: no watch would send it the changes.
            Phase::Probing if at < self.through => return StreamAction::Fail(Error::Expired { oldest: at }),
            Phase::Probing | Phase::Streaming { .. } | Phase::Watching => return self.watch_after(self.through),
        };
        out.extend(items.into_iter().map(Delta::Listed));
        out.extend(unreadable.into_iter().map(left_out));
        match next {
            Some(token) => {
                self.phase = Phase::Paging { exactly, is_first: false };
                StreamAction::Send(self.page(exactly, Some(token)))
            }
            None => {
                out.push_back(Delta::ListEnd { at });
                self.watch_after(at)
            }
        }
    }

    fn watch_after(&mut self, at: Revision) -> StreamAction {
        self.phase = Phase::Watching;
        self.through = at;
        StreamAction::Send(StreamRequest::Watch { after: at })
    }

    fn line(&mut self, line: WatchLine, out: &mut VecDeque<Delta>) -> StreamAction {
        match (line, self.phase) {
            (WatchLine::Error(status), _) => return self.failed(RequestError::Refused(status)),
            (WatchLine::Changed(resource), Phase::Streaming { not_before, .. }) => {
                self.phase = Phase::Streaming { not_before, has_listed: true };
                out.push_back(Delta::Listed(resource));
            }
            (WatchLine::Unreadable(document), Phase::Streaming { not_before, .. }) => {
                self.phase = Phase::Streaming { not_before, has_listed: true };
                out.push_back(left_out(document));
            }
            (WatchLine::Deleted(resource), Phase::Streaming { .. }) => out.push_back(gone(resource)),
            (WatchLine::Gone { key, at }, Phase::Streaming { .. }) => {
                out.push_back(Delta::Deleted { key, last: LastState::Unknown, at });
            }
            (WatchLine::Bookmark { at, ends_list: true }, Phase::Streaming { .. }) => {
                out.push_back(Delta::ListEnd { at });
                self.phase = Phase::Watching;
                self.through = at;
            }
            (WatchLine::Bookmark { .. }, Phase::Streaming { .. }) => {}
            (WatchLine::Bookmark { at, .. }, _) => {
                if at > self.through {
                    self.through = at;
                    out.push_back(Delta::Bookmark(at));
                }
            }
            (WatchLine::Changed(resource), _) => {
                if self.is_new(resource.revision()) {
                    out.push_back(Delta::Put(resource));
                }
            }
            (WatchLine::Unreadable(document), _) => {
                if self.is_new(document.at) {
                    out.push_back(left_out(document));
                }
            }
            (WatchLine::Deleted(resource), _) => {
                if self.is_new(resource.revision()) {
                    out.push_back(gone(resource));
                }
            }
            (WatchLine::Gone { key, at }, _) => {
                if self.is_new(at) {
                    out.push_back(Delta::Deleted { key, last: LastState::Unknown, at });
                }
            }
        }
        StreamAction::Read
    }

    /// Returns whether a change was not delivered yet, and moves on to it.
    fn is_new(&mut self, at: Revision) -> bool {
        let is_new = at > self.through;
        self.through = self.through.max(at);
        is_new
    }

    fn failed(&mut self, failure: RequestError) -> StreamAction {
        let code = failure.status().map_or(0, |status| status.code);
        if let (RequestError::TooLong(_), Some(limit @ 2..)) = (&failure, self.strategy.page_limit) {
            self.strategy.page_limit = Some((limit / 8).max(1));
            return StreamAction::Fail(self.unavailable("a page of the list is too long"));
        }
        match self.phase {
            Phase::Streaming { has_listed: false, .. } if failure.status().is_some_and(cannot_stream) => {
                self.strategy.streaming = false;
                self.list_in_pages()
            }
            // A server that lags, or one with other content. A list of the newest state shows which.
            Phase::Streaming { has_listed: false, .. } if failure.status().is_some_and(is_future) => {
                self.list_in_pages()
            }
            Phase::Paging { is_first: false, .. } if code == 410 => {
                self.strategy.page_limit = match self.strategy.page_limit {
                    Some(limit) if limit < PAGE_LIMIT_LARGE => Some(PAGE_LIMIT_LARGE),
                    _ => None,
                };
                StreamAction::Fail(self.unavailable("the list expired before its last page"))
            }
            Phase::Paging { exactly: Some(asked), .. } if failure.status().is_some_and(is_future) => {
                StreamAction::Fail(Error::FutureRevision { asked, current: Revision::ZERO })
            }
            Phase::Paging { exactly: None, .. } | Phase::Streaming { .. } if code == 410 => {
                StreamAction::Fail(self.unavailable("the server does not list now"))
            }
            _ => {
                let is_list = matches!(self.phase, Phase::Paging { .. } | Phase::Probing);
                let verb = if is_list { "list" } else { "watch" };
                StreamAction::Fail(failure.about(&format!("{verb} of {}", self.kind)))
            }
        }
    }

    fn list_in_pages(&mut self) -> StreamAction {
        self.phase = Phase::Paging { exactly: None, is_first: true };
        StreamAction::Send(self.page(None, None))
    }

    fn ended(&mut self, lived: Duration) -> StreamAction {
        if self.phase != Phase::Watching {
            return StreamAction::Fail(self.unavailable("the server ended the list before its end"));
        }
        self.short_watches = if lived >= LIFE_MIN { 0 } else { self.short_watches + 1 };
        if self.short_watches > 1 {
            return StreamAction::Fail(self.unavailable("the server ends each watch at once"));
        }
        StreamAction::Send(StreamRequest::Watch { after: self.through })
    }

    fn silent(&mut self) -> StreamAction {
        match self.phase {
            // A server that does not know the parameter sends the resources, but never the mark of their end.
            Phase::Streaming { has_listed, .. } => {
                self.strategy.streaming = false;
                if has_listed {
                    StreamAction::Fail(self.unavailable("the list never ended"))
                } else {
                    self.list_in_pages()
                }
            }
            Phase::Paging { .. } | Phase::Probing => StreamAction::Fail(self.unavailable("the server does not answer")),
            Phase::Watching => {
                self.phase = Phase::Probing;
                StreamAction::Send(StreamRequest::Page { exactly: None, from: None, limit: Some(1) })
            }
        }
    }

    fn unavailable(&self, reason: &str) -> Error {
        Error::unavailable(format!("watch of {}: {reason}", self.kind))
    }
}

fn gone(last: Arc<Resource>) -> Delta {
    Delta::Deleted { key: last.key().clone(), at: last.revision(), last: LastState::Whole(last) }
}

fn left_out(UnreadableDocument { key, at, reason }: UnreadableDocument) -> Delta {
    Delta::Unreadable { key, reason, at }
}

/// Returns whether the server does not send lists by watches: its version is too old, or the feature is off.
fn cannot_stream(status: &Status) -> bool {
    let names_parameter = ["sendInitialEvents", "resourceVersionMatch"].iter().any(|one| status.message.contains(one));
    matches!(status.code, 400 | 422) && names_parameter
}

/// Returns whether the server has not reached the revision.
fn is_future(status: &Status) -> bool {
    status.has_cause("ResourceVersionTooLarge")
}

#[cfg(test)]
mod tests;
