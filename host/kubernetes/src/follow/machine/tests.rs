use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use homeostat_fixtures::{demo, demo_kind};
use homeostat_store::cached::{Delta, LastState, Start};
use homeostat_store::{Error, Kind, Resource, Revision};
use proptest::prelude::{Just, Strategy, any, prop};
use proptest::{prop_assert, prop_assert_eq, prop_oneof, proptest};
use serde_json::json;

use super::{ListStrategy, ListWatchMachine, PAGE_LIMIT_LARGE, StreamAction, StreamEvent, StreamRequest};
use crate::document::{ListedPage, UnreadableDocument, WatchLine};
use crate::errors::{Cause, Details, RequestError, Status};

const NOW: Start = Start::Now { not_before: None };
const PAGES: ListStrategy = ListStrategy { streaming: false, page_limit: Some(2) };
const LONG: Duration = Duration::from_secs(240);

fn kind() -> Kind {
    demo_kind("Widget")
}

fn widget(name: &str, at: u64) -> Arc<Resource> {
    let mut document = demo("Widget", name, json!({}));
    (document["metadata"]["uid"], document["metadata"]["resourceVersion"]) = (json!(name), json!(at.to_string()));
    Arc::new(Resource::from_document(document).unwrap())
}

fn refused(code: u16, message: &str) -> StreamEvent {
    StreamEvent::Failed(RequestError::Refused(Box::new(Status {
        code,
        message: message.to_owned(),
        ..Status::default()
    })))
}

fn future() -> RequestError {
    let cause = Cause { reason: "ResourceVersionTooLarge".to_owned(), ..Cause::default() };
    let details = Some(Details { causes: vec![cause], ..Details::default() });
    RequestError::Refused(Box::new(Status { code: 504, details, ..Status::default() }))
}

fn page(items: Vec<Arc<Resource>>, at: u64, next: Option<&str>) -> StreamEvent {
    StreamEvent::Page(ListedPage {
        items,
        unreadable: Vec::new(),
        at: Revision(at),
        next: next.map(str::to_owned),
        remaining: None,
    })
}

fn bookmark(at: u64, ends_list: bool) -> StreamEvent {
    StreamEvent::Line(WatchLine::Bookmark { at: Revision(at), ends_list })
}

fn watch(after: u64) -> StreamAction {
    StreamAction::Send(StreamRequest::Watch { after: Revision(after) })
}

fn list(from: Option<&str>) -> StreamAction {
    StreamAction::Send(StreamRequest::Page { exactly: None, from: from.map(str::to_owned), limit: PAGES.page_limit })
}

/// A machine with the deltas that it has delivered.
struct Stream(ListWatchMachine, VecDeque<Delta>);

impl Stream {
    fn new(start: Start, strategy: ListStrategy) -> (Self, StreamRequest) {
        let (machine, request) = ListWatchMachine::new(kind(), start, strategy);
        (Self(machine, VecDeque::new()), request)
    }

    fn watching(after: u64) -> Self {
        let (mut stream, request) = Self::new(Start::After(Revision(after)), PAGES);
        assert_eq!(request, StreamRequest::Watch { after: Revision(after) });
        assert_eq!(stream.step(StreamEvent::Opened), StreamAction::Read);
        stream
    }

    fn step(&mut self, event: StreamEvent) -> StreamAction {
        self.0.step(event, &mut self.1)
    }

    fn deltas(&mut self) -> Vec<Delta> {
        self.1.drain(..).collect()
    }
}

#[test]
fn a_list_comes_as_the_beginning_of_a_watch() {
    let (mut stream, request) = Stream::new(Start::Now { not_before: Some(Revision(3)) }, ListStrategy::default());
    assert_eq!(request, StreamRequest::Stream { not_before: Some(Revision(3)) });
    assert_eq!(stream.step(StreamEvent::Opened), StreamAction::Read);
    assert_eq!(stream.step(StreamEvent::Line(WatchLine::Changed(widget("a", 2)))), StreamAction::Read);
    assert_eq!(stream.step(bookmark(4, false)), StreamAction::Read);
    assert_eq!(stream.step(bookmark(5, true)), StreamAction::Read, "the same watch goes on");
    assert_eq!(stream.step(StreamEvent::Line(WatchLine::Changed(widget("b", 6)))), StreamAction::Read);
    let expected = [Delta::Listed(widget("a", 2)), Delta::ListEnd { at: Revision(5) }, Delta::Put(widget("b", 6))];
    assert_eq!(stream.deltas(), expected);
}

#[test]
fn a_line_that_cannot_be_read_is_told_once_and_the_watch_goes_on() {
    let key = widget("a", 7).key().clone();
    let reason = "no".to_owned();
    let line = || {
        let document = UnreadableDocument { key: key.clone(), at: Revision(7), reason: reason.clone() };
        StreamEvent::Line(WatchLine::Unreadable(document))
    };
    let left_out = Delta::Unreadable { key: key.clone(), reason: reason.clone(), at: Revision(7) };
    let mut stream = Stream::watching(5);
    assert_eq!([stream.step(line()), stream.step(line())], [StreamAction::Read, StreamAction::Read]);
    let gone = WatchLine::Gone { key: key.clone(), at: Revision(8) };
    assert_eq!(stream.step(StreamEvent::Line(gone)), StreamAction::Read);
    let deleted = Delta::Deleted { key: key.clone(), last: LastState::Unknown, at: Revision(8) };
    assert_eq!(stream.deltas(), [left_out.clone(), deleted]);
    let (mut list, _) = Stream::new(NOW, ListStrategy::default());
    assert_eq!(list.step(line()), StreamAction::Read);
    assert_eq!(list.step(bookmark(9, true)), StreamAction::Read);
    assert_eq!(list.deltas(), [left_out, Delta::ListEnd { at: Revision(9) }]);
}

#[test]
fn a_server_without_streamed_lists_is_listed_in_pages() {
    let feature_off = refused(
        422,
        "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled",
    );
    for event in [feature_off, StreamEvent::Silent] {
        let (mut stream, _) = Stream::new(NOW, ListStrategy { streaming: true, ..PAGES });
        assert_eq!(stream.step(event), list(None));
        assert!(!stream.0.strategy().streaming, "and is not asked again");
        assert_eq!(stream.step(page(vec![widget("a", 1)], 9, Some("t"))), list(Some("t")));
        assert_eq!(stream.step(page(vec![widget("b", 2)], 9, None)), watch(9));
        let expected =
            [Delta::Listed(widget("a", 1)), Delta::Listed(widget("b", 2)), Delta::ListEnd { at: Revision(9) }];
        assert_eq!(stream.deltas(), expected);
    }
}

#[test]
fn a_streamed_list_that_cannot_be_finished_is_listed_in_pages_next_time() {
    let (mut stream, _) = Stream::new(NOW, ListStrategy::default());
    stream.step(StreamEvent::Line(WatchLine::Changed(widget("a", 1))));
    assert!(matches!(stream.step(StreamEvent::Silent), StreamAction::Fail(Error::Unavailable { .. })));
    assert!(!stream.0.strategy().streaming);
}

#[test]
fn a_deletion_during_a_streamed_list_is_told() {
    let (mut stream, _) = Stream::new(NOW, ListStrategy::default());
    stream.step(StreamEvent::Line(WatchLine::Changed(widget("a", 1))));
    assert_eq!(stream.step(StreamEvent::Line(WatchLine::Deleted(widget("a", 2)))), StreamAction::Read);
    let gone = widget("a", 2);
    let gone = Delta::Deleted { key: gone.key().clone(), last: LastState::Whole(gone), at: Revision(2) };
    assert_eq!(stream.deltas(), [Delta::Listed(widget("a", 1)), gone]);
}

#[test]
fn a_list_of_one_revision_expires_and_can_be_in_the_future() {
    let (mut stream, request) = Stream::new(Start::Exactly(Revision(7)), ListStrategy::default());
    let asked =
        StreamRequest::Page { exactly: Some(Revision(7)), from: None, limit: ListStrategy::default().page_limit };
    assert_eq!(request, asked);
    assert!(matches!(stream.step(refused(410, "")), StreamAction::Fail(Error::Expired { .. })));
    let next = stream.step(StreamEvent::Failed(future()));
    assert!(matches!(next, StreamAction::Fail(Error::FutureRevision { asked: Revision(7), .. })));
}

#[test]
fn an_expired_page_is_no_expired_watch_and_pages_get_larger() {
    let mut strategy = PAGES;
    for expected in [Some(PAGE_LIMIT_LARGE), None, None] {
        let (mut stream, _) = Stream::new(NOW, strategy);
        stream.step(page(vec![widget("a", 1)], 9, Some("t")));
        assert!(matches!(stream.step(refused(410, "")), StreamAction::Fail(Error::Unavailable { .. })));
        strategy = stream.0.strategy();
        assert_eq!(strategy.page_limit, expected);
    }
}

#[test]
fn a_page_that_is_too_long_is_asked_for_in_smaller_ones() {
    let mut strategy = ListStrategy { streaming: false, page_limit: Some(500) };
    for expected in [62, 7, 1, 1] {
        let (mut stream, _) = Stream::new(NOW, strategy);
        assert!(matches!(
            stream.step(StreamEvent::Failed(RequestError::TooLong(1))),
            StreamAction::Fail(Error::Unavailable { .. })
        ));
        strategy = stream.0.strategy();
        assert_eq!(strategy.page_limit, Some(expected));
    }
}

#[test]
fn a_watch_goes_on_after_each_ordinary_end() {
    let mut stream = Stream::watching(5);
    stream.step(StreamEvent::Line(WatchLine::Changed(widget("a", 6))));
    assert_eq!(stream.step(StreamEvent::Ended { lived: Duration::ZERO }), watch(6));
    assert_eq!(stream.step(StreamEvent::Opened), StreamAction::Read);
    assert_eq!(stream.step(StreamEvent::Ended { lived: LONG }), watch(6), "a quiet watch that lived is a good one");
}

#[test]
fn a_silent_watch_is_opened_again_if_the_server_has_what_it_had() {
    let probe = || StreamAction::Send(StreamRequest::Page { exactly: None, from: None, limit: Some(1) });
    let mut stream = Stream::watching(5);
    assert_eq!(stream.step(StreamEvent::Silent), probe());
    assert_eq!(stream.step(page(vec![widget("a", 3)], 5, Some("t"))), watch(5));
    assert_eq!(stream.step(StreamEvent::Silent), probe());
    assert!(matches!(stream.step(page(vec![], 4, None)), StreamAction::Fail(Error::Expired { .. })));
    assert!(stream.deltas().is_empty());
}

#[test]
fn a_server_that_has_not_reached_a_revision_is_listed_as_it_is() {
    let (mut stream, _) =
        Stream::new(Start::Now { not_before: Some(Revision(9)) }, ListStrategy { streaming: true, ..PAGES });
    assert_eq!(stream.step(StreamEvent::Failed(future())), list(None));
    assert_eq!(stream.step(page(vec![], 4, None)), watch(4));
    assert_eq!(stream.deltas(), [Delta::ListEnd { at: Revision(4) }], "its reader decides");
}

#[test]
fn a_server_that_ends_each_watch_at_once_is_asked_no_more_than_twice() {
    let mut stream = Stream::watching(5);
    assert_eq!(stream.step(StreamEvent::Ended { lived: Duration::ZERO }), watch(5));
    stream.step(StreamEvent::Opened);
    assert!(matches!(
        stream.step(StreamEvent::Ended { lived: Duration::ZERO }),
        StreamAction::Fail(Error::Unavailable { .. })
    ));
}

#[test]
fn a_server_that_ends_each_watch_after_a_bookmark_is_asked_no_more_than_twice() {
    let mut stream = Stream::watching(5);
    stream.step(bookmark(6, false));
    assert_eq!(stream.step(StreamEvent::Ended { lived: Duration::ZERO }), watch(6));
    stream.step(StreamEvent::Opened);
    stream.step(bookmark(7, false));
    assert!(matches!(
        stream.step(StreamEvent::Ended { lived: Duration::ZERO }),
        StreamAction::Fail(Error::Unavailable { .. })
    ));
}

#[test]
fn changes_that_were_delivered_are_dropped_and_bookmarks_move_the_position() {
    let mut stream = Stream::watching(5);
    stream.step(StreamEvent::Line(WatchLine::Changed(widget("a", 5))));
    stream.step(bookmark(8, false));
    stream.step(bookmark(8, false));
    stream.step(StreamEvent::Line(WatchLine::Deleted(widget("a", 7))));
    stream.step(StreamEvent::Line(WatchLine::Deleted(widget("a", 9))));
    let gone = widget("a", 9);
    let expected = [
        Delta::Bookmark(Revision(8)),
        Delta::Deleted { key: gone.key().clone(), last: LastState::Whole(gone), at: Revision(9) },
    ];
    assert_eq!(stream.deltas(), expected);
    assert_eq!(stream.step(StreamEvent::Ended { lived: LONG }), watch(9));
}

#[test]
fn each_refusal_of_a_watch_ends_the_stream_with_its_error() {
    let error = |code| {
        let over_http = Stream::watching(5).step(refused(code, ""));
        let status = Status { code, ..Status::default() };
        let in_body = Stream::watching(5).step(StreamEvent::Line(WatchLine::Error(Box::new(status))));
        assert_eq!(over_http, in_body);
        let StreamAction::Fail(error) = over_http else { panic!("{over_http:?}") };
        error
    };
    assert!(matches!(error(410), Error::Expired { .. }));
    assert!(matches!(error(403), Error::Forbidden { what, .. } if what == "watch of demo.homeostat.dev/v1/Widget"));
    for code in [429, 500, 503, 504] {
        assert!(matches!(error(code), Error::Unavailable { .. }), "{code}");
    }
}

/// The next act of a server, besides its answers.
#[derive(Debug, Clone)]
enum Act {
    Put(u8),
    Delete(u8),
    Serve,
    Cut,
    Silence,
    Bookmark,
    Compact,
    Refuse(u16),
}

/// A server with a log of changes.
#[derive(Default)]
struct Server {
    revision: u64,
    log: Vec<(u64, String, bool)>,
    compacted: u64,
    streams_lists: bool,
}

impl Server {
    fn write(&mut self, name: u8, exists: bool) {
        let name = format!("w{}", name % 5);
        if exists || self.state(self.revision).contains_key(&name) {
            self.revision += 1;
            self.log.push((self.revision, name, exists));
        }
    }

    fn state(&self, at: u64) -> BTreeMap<String, u64> {
        let mut state = BTreeMap::new();
        for (revision, name, exists) in self.log.iter().filter(|(revision, ..)| *revision <= at) {
            if *exists {
                state.insert(name.clone(), *revision)
            } else {
                state.remove(name)
            };
        }
        state
    }

    /// Returns the event after a revision.
    fn after(&self, after: u64) -> Option<WatchLine> {
        let (revision, name, exists) = self.log.iter().find(|(revision, ..)| *revision > after)?;
        let resource = widget(name, *revision);
        Some(if *exists { WatchLine::Changed(resource) } else { WatchLine::Deleted(resource) })
    }
}

/// A reader of streams that behaves as the cache does, with the connection to the server.
struct Reader {
    machine: ListWatchMachine,
    request: Option<StreamRequest>,
    /// The list that the server still has to stream, and the revision that the watch has sent.
    unsent: VecDeque<Arc<Resource>>,
    list_end: Option<u64>,
    sent: u64,
    listing: BTreeMap<String, u64>,
    known: BTreeMap<String, u64>,
    through: Option<u64>,
}

impl Reader {
    fn new() -> Self {
        let (machine, request) =
            ListWatchMachine::new(kind(), NOW, ListStrategy { streaming: true, page_limit: Some(2) });
        Self {
            machine,
            request: Some(request),
            unsent: VecDeque::new(),
            list_end: None,
            sent: 0,
            listing: BTreeMap::new(),
            known: BTreeMap::new(),
            through: None,
        }
    }

    fn see(&mut self, event: StreamEvent) {
        let mut out = VecDeque::new();
        let next = self.machine.step(event, &mut out);
        for delta in out {
            self.take(delta);
        }
        match next {
            StreamAction::Read => self.request = None,
            StreamAction::Send(request) => self.request = Some(request),
            StreamAction::Fail(error) => {
                let start = match (self.through, error) {
                    (Some(through), Error::Expired { .. }) => Start::Now { not_before: Some(Revision(through)) },
                    (Some(through), _) => Start::After(Revision(through)),
                    (None, _) => NOW,
                };
                self.through = self.through.filter(|_| matches!(start, Start::After(_)));
                let (machine, request) = ListWatchMachine::new(kind(), start, self.machine.strategy());
                (self.machine, self.request, self.listing) = (machine, Some(request), BTreeMap::new());
            }
        }
        if self.request.is_some() {
            (self.unsent, self.list_end) = (VecDeque::new(), None);
        }
    }

    fn take(&mut self, delta: Delta) {
        let name = |resource: &Resource| resource.key().name().to_owned();
        let at = match delta {
            Delta::Listed(resource) => {
                self.listing.insert(name(&resource), resource.revision().0);
                return;
            }
            Delta::ListEnd { at } => {
                self.known = std::mem::take(&mut self.listing);
                assert!(self.known.values().all(|revision| *revision <= at.0), "the list shows its revision");
                self.through = Some(at.0);
                return;
            }
            Delta::Put(resource) => {
                self.known.insert(name(&resource), resource.revision().0);
                resource.revision()
            }
            Delta::Deleted { key, at, .. } | Delta::Unreadable { key, at, .. } => {
                self.known.remove(key.name());
                at
            }
            Delta::Bookmark(at) => at,
        };
        assert!(self.through.is_some_and(|through| at.0 > through), "changes come in order, each once");
        self.through = Some(at.0);
    }

    /// Lets the server do one thing.
    fn serve(&mut self, server: &Server) {
        match self.request.take() {
            Some(StreamRequest::Page { from, .. }) => self.see(serve_page(server, from)),
            Some(StreamRequest::Stream { .. }) if !server.streams_lists => {
                self.see(refused(422, "sendInitialEvents: Forbidden"));
            }
            Some(StreamRequest::Stream { .. }) => {
                self.see(StreamEvent::Opened);
                self.unsent = server.state(server.revision).iter().map(|(name, at)| widget(name, *at)).collect();
                (self.list_end, self.sent) = (Some(server.revision), server.revision);
            }
            Some(StreamRequest::Watch { after }) if after.0 < server.compacted => self.see(refused(410, "")),
            Some(StreamRequest::Watch { after }) => {
                self.see(StreamEvent::Opened);
                self.sent = after.0;
            }
            None => self.send_line(server),
        }
    }

    fn send_line(&mut self, server: &Server) {
        if let Some(resource) = self.unsent.pop_front() {
            self.see(StreamEvent::Line(WatchLine::Changed(resource)));
        } else if let Some(at) = self.list_end.take() {
            self.see(bookmark(at, true));
        } else if let Some(line) = server.after(self.sent) {
            self.sent = match &line {
                WatchLine::Changed(resource) | WatchLine::Deleted(resource) => resource.revision().0,
                other => unreachable!("{other:?}"),
            };
            self.see(StreamEvent::Line(line));
        }
    }
}

/// Serves a page of two; the token has the revision of the list and the number of resources before.
fn serve_page(server: &Server, from: Option<String>) -> StreamEvent {
    let (at, skip) = match &from {
        None => (server.revision, 0),
        Some(token) => {
            let (at, skip) = token.split_once(' ').unwrap();
            (at.parse().unwrap(), skip.parse().unwrap())
        }
    };
    if from.is_some() && at < server.compacted {
        return refused(410, "");
    }
    let state = server.state(at);
    let items: Vec<_> = state.iter().skip(skip).take(2).map(|(name, at)| widget(name, *at)).collect();
    let next = (skip + items.len() < state.len()).then(|| format!("{at} {}", skip + items.len()));
    page(items, at, next.as_deref())
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        4 => any::<u8>().prop_map(Act::Put),
        2 => any::<u8>().prop_map(Act::Delete),
        8 => Just(Act::Serve),
        1 => Just(Act::Cut),
        1 => Just(Act::Silence),
        1 => Just(Act::Bookmark),
        1 => Just(Act::Compact),
        1 => prop::sample::select(vec![403, 410, 429, 500, 504]).prop_map(Act::Refuse),
    ]
}

proptest! {
    #[test]
    fn a_reader_ends_with_the_state_of_the_server(acts in prop::collection::vec(act(), 0..200), streams_lists in any::<bool>()) {
        let mut server = Server { streams_lists, ..Server::default() };
        let mut reader = Reader::new();
        for act in acts {
            let is_watching = reader.request.is_none();
            match act {
                Act::Put(name) => server.write(name, true),
                Act::Delete(name) => server.write(name, false),
                Act::Serve => reader.serve(&server),
                Act::Cut if is_watching => reader.see(StreamEvent::Ended { lived: LONG }),
                Act::Silence => reader.see(StreamEvent::Silent),
                Act::Bookmark if is_watching && reader.list_end.is_none() && reader.sent == server.revision => {
                    reader.see(bookmark(server.revision, false));
                }
                Act::Compact => server.compacted = server.revision,
                Act::Refuse(code) if !is_watching => reader.see(refused(code, "")),
                Act::Cut | Act::Bookmark | Act::Refuse(_) => {}
            }
        }
        for _ in 0..1000 {
            reader.serve(&server);
        }
        prop_assert_eq!(reader.known, server.state(server.revision));
        prop_assert!(reader.through.is_some());
    }
}
