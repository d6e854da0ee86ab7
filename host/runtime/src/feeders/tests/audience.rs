//! Feeders pass a guest only keys that its grants cover: random grants, kinds, mappings, follows and changes,
//! compared with a model.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use homeostat_component::{Changes, Disclosure, Grants, Mapping, Watch};
use homeostat_fixtures::{demo_kind, memory_store};
use homeostat_store::memory::MemoryStore;
use homeostat_store::{Key, Kind, Precondition, Propagation, Resource, Selector, Store, Write};
use homeostat_workqueue::{Next, Queue};
use parking_lot::{Mutex, RwLock};
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::super::guest_map::Guest;
use super::{managed, ticket};
use crate::feeders::{
    Feeder, FollowFeeder, GuestMap, Intake, KeyMapper, ResyncFeeder, SuspendFilter, SyncBarrier, WatchFeeder,
};
use crate::follows::{Follows, Target};
use crate::mapping::ManagedKind;
use crate::shared_watches::SharedWatches;
use crate::slot::Audience;

const CASES: u32 = 10_000;
const PERIOD: Duration = Duration::from_secs(60);
/// The resource that follows others.
const FOLLOWER: &str = "follower";

fn part() -> Kind {
    demo_kind("Part")
}

/// One line of grants, as the model reads it.
#[derive(Clone, Debug)]
struct Line {
    kinds: Vec<&'static str>,
    verbs: Vec<&'static str>,
    namespaces: Vec<&'static str>,
    names: Vec<&'static str>,
}

impl Line {
    fn covers(&self, verb: &str, key: &Key) -> bool {
        let any = |patterns: &[&str], text: &str| {
            patterns.iter().any(|pattern| match pattern.strip_suffix('*') {
                Some(beginning) => text.starts_with(beginning),
                None => *pattern == text,
            })
        };
        let kind = format!("{}/{}", key.kind().group, key.kind().name);
        any(&self.kinds, &kind)
            && any(&self.verbs, verb)
            && any(&self.namespaces, key.namespace())
            && any(&self.names, key.name())
    }
}

/// A set of grants in the model.
#[derive(Clone, Debug)]
struct Model(Vec<Line>);

impl Model {
    fn allows(&self, verb: &str, key: &Key) -> bool {
        self.0.iter().any(|line| line.covers(verb, key))
    }

    fn shows(&self, key: &Key, is_content: bool) -> bool {
        self.allows("watch", key) && (!is_content || self.allows("get", key) || self.allows("list", key))
    }

    fn grants(&self) -> Grants {
        let line = |line: &Line| {
            let Line { kinds, verbs, namespaces, names } = line;
            json!({ "kinds": kinds, "verbs": verbs, "namespaces": namespaces, "names": names })
        };
        serde_json::from_value(json!({ "resources": self.0.iter().map(line).collect::<Vec<_>>() })).unwrap()
    }
}

/// A change of one resource. The number makes the contents differ.
#[derive(Clone, Debug)]
enum Step {
    Write { is_part: bool, place: (usize, usize) },
    Delete { is_part: bool, place: (usize, usize) },
    Grant(Model),
}

#[derive(Clone, Debug)]
struct Case {
    first: Model,
    /// Which of the two kinds are namespaced.
    namespaced: (bool, bool),
    mapping: Mapping,
    follows: Vec<Target>,
    before: Vec<Step>,
    steps: Vec<Step>,
}

fn model() -> impl Strategy<Value = Model> {
    let some = |texts: &'static [&'static str], most: usize| subsequence(texts, 1..=most);
    let line = (
        some(&["demo.homeostat.dev/App", "demo.homeostat.dev/Part", "demo.homeostat.dev/*", "*"], 2),
        some(&["watch", "get", "list", "*", "delete"], 3),
        some(&["*", "a", "b", "", "a*"], 2),
        some(&["*", "x*", "y", "l*", "f*", "o*", "x1"], 3),
    );
    let line = line.prop_map(|(kinds, verbs, namespaces, names)| Line { kinds, verbs, namespaces, names });
    // Without a watch of its own kind a guest gets no keys at all: most cases have one.
    let own = prop::option::weighted(0.8, select(vec![vec!["*"], vec!["a"], vec![""], vec!["b", ""]]));
    let own = own.prop_map(|namespaces| {
        let line = |namespaces| Line {
            kinds: vec!["demo.homeostat.dev/App"],
            verbs: vec!["watch"],
            namespaces,
            names: vec!["*"],
        };
        namespaces.map(line)
    });
    (prop::collection::vec(line, 0..4), own).prop_map(|(lines, own)| Model(lines.into_iter().chain(own).collect()))
}

fn step() -> impl Strategy<Value = Step> {
    let place = || (0..2_usize, 0..3_usize);
    prop_oneof![
        6 => (any::<bool>(), place()).prop_map(|(is_part, place)| Step::Write { is_part, place }),
        2 => (any::<bool>(), place()).prop_map(|(is_part, place)| Step::Delete { is_part, place }),
        1 => model().prop_map(Step::Grant),
    ]
}

fn case() -> impl Strategy<Value = Case> {
    let mapping = select(vec![
        Mapping::Owner,
        Mapping::SameName,
        Mapping::Label("to".into()),
        Mapping::Annotation("to".into()),
        Mapping::Field("/spec/to".into()),
        Mapping::Guest,
    ]);
    let follows = prop::collection::vec(
        prop_oneof![
            (0..2_usize, 0..3_usize).prop_map(|place| Target::One(key_of(true, true, place))),
            Just(Target::All(part(), Selector::default())),
            Just(Target::All(
                part(),
                Selector { fields: vec![("/spec/color".into(), "red".into())], ..Selector::default() }
            )),
        ],
        0..3,
    );
    let before = prop::collection::vec(step(), 0..4);
    (model(), any::<(bool, bool)>(), mapping, follows, before, prop::collection::vec(step(), 1..6)).prop_map(
        |(first, namespaced, mapping, follows, before, steps)| Case {
            first,
            namespaced,
            mapping,
            follows,
            before,
            steps,
        },
    )
}

fn key_of(is_part: bool, namespaced: bool, (namespace, name): (usize, usize)) -> Key {
    let namespace = if namespaced { ["a", "b"][namespace] } else { "" };
    Key::new(if is_part { part() } else { managed() }, namespace, ["x1", "x2", "y"][name])
}

/// One version of a controller, whose grants change. Also its guest, which keeps the documents that it
/// receives.
struct Version {
    grants: RwLock<Grants>,
    manages: ManagedKind,
    shown: Mutex<Vec<Value>>,
}

impl Audience for Version {
    fn may_get(&self, key: &Key) -> bool {
        self.grants.read().may_get(key)
    }

    fn may_learn(&self, key: &Key, of: &Key, reveals: Disclosure) -> bool {
        self.grants.read().may_learn(key, of, reveals)
    }
}

#[async_trait]
impl Guest for Version {
    async fn map(&self, _: &Watch, changed: &Resource) -> Option<Result<Vec<Key>, String>> {
        self.shown.lock().push(changed.document().clone());
        let name = changed.document().pointer("/spec/to").and_then(Value::as_str).unwrap_or_default();
        Some(Ok(self.manages.named_from(changed.key().namespace(), name).into_iter().collect()))
    }

    fn refused(&self, _: &str) {}
}

struct World {
    case: Case,
    model: Model,
    store: Arc<MemoryStore>,
    version: Arc<Version>,
    queue: Queue<Key>,
    follows: Arc<Follows>,
    feeders: Vec<JoinHandle<()>>,
    /// Every version of every resource so far, with the names that it maps to.
    versions: BTreeMap<String, Key>,
    serial: u32,
}

impl World {
    fn new(case: Case) -> Self {
        let store = memory_store();
        let grants = RwLock::new(case.first.grants());
        let follows = Arc::<Follows>::default();
        let follower = Key::new(managed(), if case.namespaced.0 { "a" } else { "" }, FOLLOWER);
        for target in &case.follows {
            follows.gather(&follower, target.clone());
        }
        follows.keep(&follower);
        let manages = ManagedKind { kind: managed(), namespaced: case.namespaced.0 };
        Self {
            model: case.first.clone(),
            case,
            store,
            version: Arc::new(Version { grants, manages, shown: Mutex::default() }),
            queue: Queue::new(homeostat_workqueue::Options::default()),
            follows,
            feeders: Vec::new(),
            versions: BTreeMap::new(),
            serial: 0,
        }
    }

    fn key(&self, is_part: bool, place: (usize, usize)) -> Key {
        let (apps, parts) = self.case.namespaced;
        key_of(is_part, if is_part { parts } else { apps }, place)
    }

    fn start(&self, feeder: impl Feeder) -> JoinHandle<()> {
        let deletions = Arc::new(SuspendFilter::of(self.queue.clone()));
        let intake =
            Intake::new(deletions, self.version.clone(), self.version.manages.clone(), SyncBarrier::new(), ticket());
        tokio::spawn(async move {
            // A failed feeder delivers nothing.
            drop(feeder.run(&intake).await);
        })
    }

    /// Starts the watches of a controller with these grants.
    fn start_watches(&self) -> Vec<JoinHandle<()>> {
        let watches = SharedWatches::of(self.store.clone());
        let grants = self.model.grants().for_kinds(&[&managed(), &part()]);
        let how = match &self.case.mapping {
            Mapping::Guest => KeyMapper::Guest(GuestMap::new(watch(), self.version.clone(), Queue::default())),
            mapping => KeyMapper::Declared(mapping.clone()),
        };
        let (all, manages) = (Changes::All, self.version.manages.clone());
        let apps = WatchFeeder::new(
            "apps",
            watches.clone(),
            managed(),
            manages.clone(),
            KeyMapper::Identity,
            all,
            grants.clone(),
        );
        let parts = WatchFeeder::new("parts", watches, part(), manages, how, all, grants);
        vec![self.start(apps), self.start(parts)]
    }

    /// Takes all keys. On a paused clock a sleep ends only when no other task can run.
    async fn drain(&self) -> BTreeSet<Key> {
        tokio::time::sleep(Duration::from_millis(1)).await;
        let mut keys = BTreeSet::new();
        while let Some(claim) = self.queue.try_claim() {
            keys.insert(claim.key().clone());
            claim.finish(Next::Done);
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        keys
    }

    /// Performs a step and returns the resource that it changed.
    async fn act(&mut self, step: &Step) -> Option<Key> {
        match step {
            Step::Write { is_part, place } => {
                let key = self.key(*is_part, *place);
                self.write(&key).await;
                Some(key)
            }
            Step::Delete { is_part, place } => {
                let key = self.key(*is_part, *place);
                let (precondition, propagation) = (Precondition::default(), Propagation::Orphan);
                // It may not exist.
                drop(
                    self.store
                        .write(Write::Delete { key: key.clone(), precondition, propagation, grace_seconds: None })
                        .await,
                );
                Some(key)
            }
            Step::Grant(model) => {
                self.model = model.clone();
                *self.version.grants.write() = model.grants();
                let anew = self.start_watches();
                let before = std::mem::replace(&mut self.feeders, anew);
                tokio::time::sleep(Duration::from_millis(1)).await;
                before.iter().for_each(JoinHandle::abort);
                None
            }
        }
    }

    async fn write(&mut self, key: &Key) {
        self.serial += 1;
        let (label, field, owner) =
            (format!("l{}", self.serial), format!("f{}", self.serial), format!("o{}", self.serial));
        let noted = format!("n{}", self.serial);
        for name in [&label, &field, &owner, &noted] {
            self.versions.insert(name.clone(), key.clone());
        }
        let noted = self.noted(&noted);
        let reference = format!("{}/{}", noted.namespace(), noted.name());
        let mut metadata = json!({
            "name": key.name(), "labels": { "to": label },
            "annotations": { "to": reference.trim_start_matches('/') },
            "ownerReferences": [{ "apiVersion": "demo.homeostat.dev/v1", "kind": "App", "name": owner, "uid": owner }],
        });
        if !key.namespace().is_empty() {
            metadata["namespace"] = json!(key.namespace());
        }
        let color = ["red", "blue"][self.serial as usize % 2];
        let document = json!({
            "apiVersion": "demo.homeostat.dev/v1", "kind": key.kind().name, "metadata": metadata, "spec": { "to": field, "color": color },
        });
        self.store.write(Write::Apply { document, manager: "test".into(), force: true }).await.unwrap();
    }

    /// Returns the key to which the annotation with a numbered name refers: in both namespaces by turns.
    fn noted(&self, name: &str) -> Key {
        let is_odd = number(name) % 2 == 1;
        Key::new(managed(), if self.case.namespaced.0 { ["a", "b"][usize::from(is_odd)] } else { "" }, name)
    }

    /// Checks that the guest may know of a key that followed a change of `of`, or a change of the grants.
    fn check(&self, key: &Key, of: Option<&Key>) -> Result<(), TestCaseError> {
        let model = &self.model;
        prop_assert!(model.allows("watch", key), "{} is a key that no watch covers", key);
        let name = key.name();
        if name == FOLLOWER {
            let Some(of) = of else { return Ok(()) };
            let is_known = self.case.follows.iter().any(|target| match target {
                Target::One(one) => one == of && model.shows(of, false),
                Target::All(_, selector) => model.shows(of, !selector.fields.is_empty()),
            });
            prop_assert!(is_known, "{} tells its follower something", of);
            return Ok(());
        }
        let Some(source) = self.versions.get(name) else {
            // Whether a resource has this name: the key itself, or a part with the same name.
            let has_name = |of: &Key| {
                let is_mapped = of.kind() == &part() && self.case.mapping == Mapping::SameName;
                is_mapped && self.version.manages.named_from(of.namespace(), of.name()).as_ref() == Some(key)
            };
            let is_known = of.is_none_or(|of| of == key || has_name(of) && model.shows(of, false));
            prop_assert!(is_known, "{} came by a change of {:?}", key, of);
            return Ok(());
        };
        prop_assert!(source.kind() == &part(), "{} stands in an app", key);
        prop_assert!(of.is_none_or(|of| of == source), "{} came by a change of {:?} and stands in {}", key, of, source);
        prop_assert!(model.shows(source, !name.starts_with('o')), "{} stands in {}", key, source);
        Ok(())
    }

    /// Checks the simple cases of the opposite: a key that the grants cover is delivered.
    fn check_told(&self, keys: &BTreeSet<Key>, of: &Key) -> Result<(), TestCaseError> {
        let is_told = of.kind() != &managed() || !self.model.allows("watch", of) || keys.contains(of);
        prop_assert!(is_told, "{} is watched and was not told", of);
        if of.kind() == &part() {
            let named = |name: &str| self.version.manages.named_from(of.namespace(), name);
            let (key, is_content) = match &self.case.mapping {
                Mapping::SameName => (named(of.name()), false),
                Mapping::Owner => (named(&newest(&self.versions, 'o', of)), false),
                Mapping::Label(_) => (named(&newest(&self.versions, 'l', of)), true),
                Mapping::Annotation(_) => (Some(self.noted(&newest(&self.versions, 'n', of))), true),
                Mapping::Field(_) | Mapping::Guest => (named(&newest(&self.versions, 'f', of)), true),
            };
            let Some(key) = key else { return Ok(()) };
            let is_granted = self.model.shows(of, is_content) && self.model.allows("watch", &key);
            prop_assert!(!is_granted || keys.contains(&key), "{} is granted and was not told", key);
        }
        Ok(())
    }

    /// Checks the documents that the guest's `map` received since the last check.
    fn check_shown(&self) -> Result<(), TestCaseError> {
        for document in self.version.shown.lock().drain(..) {
            let metadata = &document["metadata"];
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let key = Key::new(part(), &text(&metadata["namespace"]), &text(&metadata["name"]));
            prop_assert!(self.model.shows(&key, true), "map was shown {}", key);
        }
        Ok(())
    }
}

/// Returns the name that the newest version of a resource maps to.
fn newest(versions: &BTreeMap<String, Key>, letter: char, of: &Key) -> String {
    let of_it = versions.iter().filter(|(name, key)| name.starts_with(letter) && *key == of);
    of_it.max_by_key(|(name, _)| number(name)).map(|(name, _)| name.clone()).unwrap_or_default()
}

/// Returns the number of a name such as `l3`.
fn number(name: &str) -> u32 {
    name[1..].parse().unwrap_or_default()
}

fn watch() -> Box<Watch> {
    let of = serde_json::from_value(json!({
        "kind": { "group": "demo.homeostat.dev", "version": "v1", "name": "Part" }, "plural": "parts", "namespaced": true, "keysOnly": false, "schema": null,
    }));
    let (changes, role) = (Changes::All, homeostat_component::Role::Tertiary);
    Box::new(Watch { name: "parts".into(), of: of.unwrap(), mapping: Mapping::Guest, changes, role })
}

async fn run(case: Case) -> Result<(), TestCaseError> {
    let (before, steps) = (case.before.clone(), case.steps.clone());
    let mut world = World::new(case);
    for step in before.iter().filter(|step| !matches!(step, Step::Grant(_))) {
        world.act(step).await;
    }
    world.feeders = world.start_watches();
    let feeder = FollowFeeder::new(SharedWatches::of(world.store.clone()), part(), world.follows.clone());
    let follow = world.start(feeder);
    for key in world.drain().await {
        world.check(&key, None)?;
    }
    world.check_shown()?;
    for step in &steps {
        let of = world.act(step).await;
        let keys = world.drain().await;
        for key in &keys {
            world.check(key, of.as_ref())?;
        }
        world.check_shown()?;
        if let (Some(of), Step::Write { .. }) = (&of, step) {
            world.check_told(&keys, of)?;
        }
    }
    let resync = world.start(ResyncFeeder { store: world.store.clone(), kind: managed(), every: PERIOD });
    tokio::time::sleep(2 * PERIOD).await;
    for key in world.drain().await {
        prop_assert!(world.model.allows("watch", &key), "{} comes with the resync", key);
    }
    world.feeders.iter().chain([&resync, &follow]).for_each(JoinHandle::abort);
    Ok(())
}

#[test]
fn feeders_deliver_exactly_the_keys_that_the_grants_cover() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    let mut runner = TestRunner::new(Config { cases: CASES, failure_persistence: None, ..Config::default() });
    runner.run(&case(), |case| runtime.block_on(run(case))).unwrap_or_else(|failure| panic!("{failure}"));
}
