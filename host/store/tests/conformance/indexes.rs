//! Lists by indexed labels and fields: the same answers as without an index, at the cost of the answer.

use std::path::Path;
use std::sync::Arc;

use homeostat_conformance::{Make, create, delete, update, with_metadata};
use homeostat_store::embedded::{EmbeddedStore, fsck};
use homeostat_store::memory::MemoryStore;
use homeostat_store::{IndexTerm, LabelRequirement, Options, Query, Resource, Selector, Store, View};
use homeostat_testing::{Dice, eventually};
use redb::{Database, TableDefinition};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::{all, key, kind, on_every_store, thing};

fn label(name: &str) -> IndexTerm {
    IndexTerm::Label(name.to_owned())
}

fn declare(store: &dyn Store, terms: &[IndexTerm]) {
    store.schemas().unwrap().set_indexes(&kind("Thing"), terms);
}

fn terms() -> [IndexTerm; 2] {
    [label("app"), IndexTerm::Field("/spec/node".to_owned())]
}

fn equals(name: &str, value: &str) -> LabelRequirement {
    LabelRequirement::Equals(name.to_owned(), value.to_owned())
}

fn by_label(requirement: LabelRequirement) -> Selector {
    Selector { labels: vec![requirement], ..Selector::default() }
}

fn by_field(value: &str) -> Selector {
    Selector { fields: vec![("/spec/node".to_owned(), value.to_owned())], ..Selector::default() }
}

fn selectors() -> Vec<Selector> {
    let values = vec!["a2".to_owned(), "a0".to_owned(), "none".to_owned()];
    vec![
        by_label(equals("app", "a1")),
        by_label(LabelRequirement::OneOf("app".to_owned(), values)),
        by_label(LabelRequirement::NotEquals("app".to_owned(), "a1".to_owned())),
        by_field("n1"),
        by_field("7"),
        by_field(""),
        Selector { fields: by_field("n1").fields, ..by_label(equals("app", "a1")) },
        Selector { namespace: Some("default".to_owned()), ..by_label(equals("app", "a0")) },
        Selector { namespace: Some("elsewhere".to_owned()), ..by_label(equals("app", "a0")) },
    ]
}

async fn list(store: &dyn Store, selector: &Selector, limit: Option<usize>) -> Vec<Arc<Resource>> {
    let mut query = Query { selector: selector.clone(), limit, ..Query::all(kind("Thing")) };
    let mut found = Vec::new();
    loop {
        let page = store.list(&query).await.unwrap();
        found.extend(page.items);
        match page.next {
            Some(next) => query.from = Some(next),
            None => return found,
        }
    }
}

/// Compares every list by a selector with a look at every resource.
async fn assert_lists_are_complete(store: &dyn Store) {
    let everything = all(store).await;
    for selector in selectors() {
        let wanted: Vec<_> = everything.iter().filter(|resource| selector.matches(resource)).cloned().collect();
        for limit in [None, Some(2)] {
            assert_eq!(list(store, &selector, limit).await, wanted, "{selector:?}");
        }
    }
}

fn random_thing(dice: &mut Dice, name: &str) -> Value {
    let nodes = [json!("n0"), json!("n1"), json!(7), json!(""), json!(null), json!(["n1"])];
    let metadata = match dice.below(4) {
        3 => json!({}),
        app => json!({"labels": {"app": format!("a{app}"), "tier": "x"}}),
    };
    with_metadata(thing(name, json!({"node": dice.one(&nodes), "size": dice.below(9)})), metadata)
}

/// Makes one random change.
async fn change(store: &dyn Store, dice: &mut Dice) {
    let name = format!("t{}", dice.below(25));
    let document = random_thing(dice, &name);
    match store.get(&key(&name)).await {
        Err(_) => drop(create(store, document).await),
        Ok(_) if dice.percent(30) => drop(delete(store, key(&name), Default::default()).await.unwrap()),
        Ok(_) => drop(update(store, document).await.unwrap()),
    }
}

on_every_store!(indexed_lists_have_the_same_answers_as_full_scans, later_pages_show_the_revision_of_the_first_page);

mod on_a_subscribed_server {
    #[tokio::test(flavor = "multi_thread")]
    async fn indexed_lists_have_the_same_answers_as_full_scans() {
        super::indexed_lists_have_the_same_answers_as_full_scans(crate::subscribed).await;
    }
}

async fn indexed_lists_have_the_same_answers_as_full_scans(make: Make) {
    let fixture = make(Options::default()).await;
    let (store, mut dice): (&dyn Store, _) = (&**fixture, Dice::new(2024));
    // A store that is far away has a cache of the kind.
    let _cached = store.subscribe(&kind("Thing"), View::Whole);
    for step in 0..160 {
        match step {
            20 => declare(store, &terms()),
            90 => declare(store, &terms()[1..]),
            120 => declare(store, &[label("tier"), label("app")]),
            _ => {}
        }
        change(store, &mut dice).await;
        if step % 8 == 7 {
            assert_lists_are_complete(store).await;
        }
    }
}

async fn later_pages_show_the_revision_of_the_first_page(make: Make) {
    let fixture = make(Options::default()).await;
    let store: &dyn Store = &**fixture;
    declare(store, &terms());
    let of_app = |name: &str, app: &str| with_metadata(thing(name, json!({})), json!({"labels": {"app": app}}));
    for name in ["a", "b", "c", "d"] {
        create(store, of_app(name, "a1")).await;
    }
    let query = Query { selector: by_label(equals("app", "a1")), limit: Some(2), ..Query::all(kind("Thing")) };
    let first = store.list(&query).await.unwrap();
    update(store, of_app("c", "a2")).await.unwrap();
    delete(store, key("d"), Default::default()).await.unwrap();
    create(store, of_app("e", "a1")).await;
    let second = store.list(&Query { from: first.next, ..query }).await.unwrap();
    let names: Vec<_> = second.items.iter().map(|thing| thing.key().name()).collect();
    assert_eq!((names, second.revision), (vec!["c", "d"], first.revision));
}

fn open(path: &Path) -> EmbeddedStore {
    EmbeddedStore::open(path, Options::default()).unwrap()
}

/// Waits until the store has complete indexes for these terms alone.
async fn has_indexes(store: &EmbeddedStore, wanted: &[IndexTerm]) {
    let mut wanted = wanted.to_vec();
    wanted.sort_unstable();
    let is_complete = async || {
        let mut complete = store.complete_indexes(&kind("Thing")).await.unwrap();
        complete.sort_unstable();
        (complete == wanted).then_some(())
    };
    eventually("complete indexes", is_complete).await;
}

/// Creates resources at once, so that they share the syncs of the disk.
async fn create_all(store: &Arc<EmbeddedStore>, documents: impl Iterator<Item = Value>) {
    let mut creating = JoinSet::new();
    for document in documents {
        let store = Arc::clone(store);
        creating.spawn(async move { drop(create(&*store, document).await) });
    }
    creating.join_all().await;
}

/// Fills a store with things of which ten have the label and the field that the test lists by.
async fn fill(store: &dyn Store, count: usize) {
    for number in 0..count {
        let is_wanted = number % (count / 10) == 0;
        let metadata = json!({"labels": {"app": if is_wanted { "wanted" } else { "other" }}});
        let node = if is_wanted { "wanted".to_owned() } else { format!("n{number}") };
        create(store, with_metadata(thing(&format!("t{number}"), json!({"node": node})), metadata)).await;
    }
}

/// Returns how many resources lists of the ten wanted things look at, by label and by field.
async fn looked_at(store: &dyn Store, examined: impl Fn() -> u64) -> [u64; 2] {
    let mut counts = [0; 2];
    for (count, selector) in counts.iter_mut().zip([by_label(equals("app", "wanted")), by_field("wanted")]) {
        let before = examined();
        assert_eq!(list(store, &selector, None).await.len(), 10);
        *count = examined() - before;
    }
    counts
}

#[tokio::test]
async fn a_list_by_a_declared_term_of_a_file_looks_at_its_matches_alone() {
    for count in [50, 1_000] {
        let folder = tempfile::tempdir().unwrap();
        let store = open(&folder.path().join("store"));
        fill(&store, count).await;
        assert_eq!(looked_at(&store, || store.examined()).await, [count as u64; 2], "nothing is declared");
        declare(&store, &terms());
        has_indexes(&store, &terms()).await;
        assert_eq!(looked_at(&store, || store.examined()).await, [10, 10], "of {count}");
    }
}

#[tokio::test]
async fn a_list_by_a_declared_term_in_memory_looks_at_its_matches_alone() {
    for count in [50, 1_000] {
        let store = MemoryStore::new(Options::default());
        declare(&store, &terms());
        fill(&store, count).await;
        assert_eq!(looked_at(&store, || store.examined().unwrap()).await, [10, 10], "of {count}");
    }
}

#[tokio::test]
async fn indexes_of_a_file_survive_a_restart_and_follow_later_declarations() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let mut dice = Dice::new(7);
    let store = open(&path);
    declare(&store, &terms());
    for _ in 0..40 {
        change(&store, &mut dice).await;
    }
    has_indexes(&store, &terms()).await;
    drop(store);
    assert!(fsck(&path).unwrap().is_sound());

    // No definition has declared the kind yet: the indexes stay, and follow changes.
    let store = open(&path);
    has_indexes(&store, &terms()).await;
    for _ in 0..40 {
        change(&store, &mut dice).await;
    }
    assert_lists_are_complete(&store).await;
    declare(&store, &[label("tier")]);
    has_indexes(&store, &[label("tier")]).await;
    assert_lists_are_complete(&store).await;
    drop(store);
    let report = fsck(&path).unwrap();
    assert!(report.is_sound(), "{:?}", report.problems);
}

#[tokio::test]
async fn indexes_that_an_older_program_left_behind_are_built_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    // Without a write-ahead log, so that redb can open the file.
    let options = || Options { wal_bytes: 0, ..Options::default() };
    let store = EmbeddedStore::open(&path, options()).unwrap();
    declare(&store, &terms());
    let mut dice = Dice::new(5);
    for _ in 0..20 {
        change(&store, &mut dice).await;
    }
    has_indexes(&store, &terms()).await;
    drop(store);
    // That program wrote changes, and left the indexes at their revision.
    let database = Database::open(&path).unwrap();
    let transaction = database.begin_write().unwrap();
    let meta: TableDefinition<'_, &str, &str> = TableDefinition::new("meta");
    transaction.open_table(meta).unwrap().insert("indexed", "1").unwrap();
    transaction.commit().unwrap();
    drop(database);

    let store = EmbeddedStore::open(&path, options()).unwrap();
    has_indexes(&store, &[]).await;
    assert_lists_are_complete(&store).await;
    change(&store, &mut dice).await;
    declare(&store, &terms());
    has_indexes(&store, &terms()).await;
    assert_lists_are_complete(&store).await;
    drop(store);
    let report = fsck(&path).unwrap();
    assert!(report.is_sound(), "{:?}", report.problems);
}

#[tokio::test]
async fn an_index_of_many_resources_is_built_beside_writes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = Arc::new(open(&path));
    let mut dice = Dice::new(11);
    // More than one piece.
    create_all(&store, (0..5_000).map(|number| random_thing(&mut dice, &format!("m{number}")))).await;
    declare(&*store, &terms());
    for number in 0..200 {
        let document = random_thing(&mut dice, &format!("m{}", number * 25));
        update(&*store, document).await.unwrap();
    }
    has_indexes(&store, &terms()).await;
    assert_lists_are_complete(&*store).await;
    drop(store);
    let report = fsck(&path).unwrap();
    assert!(report.is_sound(), "{:?}", report.problems);
}
