//! The operations on a store: writes, watches, lists, restarts.

use homeostat_store::{Change, Key, Precondition, Propagation, Request, Revision, Write};
use proptest::prelude::*;
use serde_json::json;

use crate::{kind, thing};

pub(super) const KINDS: [&str; 2] = ["Thing", "Other"];
const NAMES: [&str; 3] = ["a", "b", "c"];

/// The resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Id {
    pub(super) kind: &'static str,
    pub(super) name: &'static str,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Verb {
    Create {
        spec: u64,
        held: bool,
    },
    Spec(u64),
    Status(u64),
    /// Adds a finalizer.
    Hold,
    /// Removes the finalizer.
    Release,
    Delete,
}

/// One write.
#[derive(Debug, Clone)]
pub(super) struct Traffic {
    pub(super) id: Id,
    pub(super) verb: Verb,
    /// The precondition is a revision that no resource has.
    pub(super) stale: bool,
    pub(super) dry_run: bool,
}

/// The start of a watch.
#[derive(Debug, Clone, Copy)]
pub(super) enum Begin {
    Zero,
    Now,
    Oldest,
    BeforeOldest,
    Future(u64),
    /// A percentage of the current revision.
    Part(u64),
}

/// How a store ends before it is reopened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Closed,
    Dropped,
    Killed,
}

#[derive(Debug, Clone)]
pub(super) enum Step {
    /// Writes that are submitted together.
    Burst(Vec<Traffic>),
    /// Opens a watch of everything, or of one kind.
    Watch(Option<&'static str>, Begin),
    /// Reads so many events of one watch.
    Read(usize, usize),
    /// Reopens a watch at its last event.
    Resume(usize),
    /// Starts a list with pages of this size.
    List(&'static str, usize),
    /// Reads the next page of one list.
    Page(usize),
    /// Advances the clock by so many seconds.
    Advance(u64),
    /// Ends the store and reopens it, if it is durable.
    Restart(End),
}

impl Traffic {
    pub(super) fn request(&self) -> Request {
        let mut document = thing(self.id.name, json!({"n": 0}));
        document["kind"] = json!(self.id.kind);
        let key = Key::new(kind(self.id.kind), "default", self.id.name);
        let precondition = Precondition { uid: None, revision: self.stale.then_some(Revision(1_000_000)) };
        let patch = |change| Write::Patch {
            key: key.clone(),
            change: Change::Merge(change),
            precondition: precondition.clone(),
        };
        let held = json!(["example.dev/held"]);
        let write = match self.verb {
            Verb::Create { spec, held: is_held } => {
                document["spec"]["n"] = json!(spec);
                if is_held {
                    document["metadata"]["finalizers"] = held;
                }
                Write::Create { document }
            }
            Verb::Spec(spec) => patch(json!({"spec": {"n": spec}})),
            Verb::Status(status) => Write::UpdateStatus { key, status: json!({"n": status}), precondition },
            Verb::Hold => patch(json!({"metadata": {"finalizers": held}})),
            Verb::Release => patch(json!({"metadata": {"finalizers": null}})),
            Verb::Delete => {
                Write::Delete { key, precondition, propagation: Propagation::Background, grace_seconds: None }
            }
        };
        Request { dry_run: self.dry_run, ..write.into() }
    }
}

fn traffic() -> impl Strategy<Value = Traffic> {
    let verb = prop_oneof![
        4 => (0..3_u64, any::<bool>()).prop_map(|(spec, held)| Verb::Create { spec, held }),
        3 => (0..3_u64).prop_map(Verb::Spec),
        2 => (0..3_u64).prop_map(Verb::Status),
        1 => Just(Verb::Hold),
        2 => Just(Verb::Release),
        3 => Just(Verb::Delete),
    ];
    let id = (prop::sample::select(&KINDS[..]), prop::sample::select(&NAMES[..]));
    (id, verb, prop::bool::weighted(0.05), prop::bool::weighted(0.1))
        .prop_map(|((kind, name), verb, stale, dry_run)| Traffic { id: Id { kind, name }, verb, stale, dry_run })
}

fn begin() -> impl Strategy<Value = Begin> {
    prop_oneof![
        1 => Just(Begin::Zero),
        1 => Just(Begin::Now),
        2 => Just(Begin::Oldest),
        1 => Just(Begin::BeforeOldest),
        1 => (1..5_u64).prop_map(Begin::Future),
        2 => (0..=100_u64).prop_map(Begin::Part),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let scope = prop::option::of(prop::sample::select(&KINDS[..]));
    let end = prop::sample::select(&[End::Closed, End::Dropped, End::Killed][..]);
    prop_oneof![
        12 => prop::collection::vec(traffic(), 1..12).prop_map(Step::Burst),
        5 => (scope, begin()).prop_map(|(scope, begin)| Step::Watch(scope, begin)),
        8 => (0..8_usize, 1..20_usize).prop_map(|(watch, count)| Step::Read(watch, count)),
        2 => (0..8_usize).prop_map(Step::Resume),
        2 => (prop::sample::select(&KINDS[..]), 1..3_usize).prop_map(|(kind, limit)| Step::List(kind, limit)),
        4 => (0..4_usize).prop_map(Step::Page),
        2 => prop_oneof![Just(20), Just(400)].prop_map(Step::Advance),
        2 => end.prop_map(Step::Restart),
    ]
}

pub(super) fn steps() -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(step(), 1..100)
}
