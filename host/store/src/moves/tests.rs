mod clusters;

use std::path::PathBuf;

use serde_json::{Value, json};

use super::*;
use crate::fixture::{demo_kind, widget_key as key};
use crate::memory::MemoryStore;
use crate::routes::{HOME, Routes, Rule};
use crate::{Change, Key, Options, Precondition, Propagation, Query, Request, Revision, Scope, WriteResponse};

/// A host with a store of its own and the store `bus`. It can be started again with another route.
struct Stores {
    home: Arc<dyn Store>,
    bus: Arc<dyn Store>,
    folder: tempfile::TempDir,
}

impl Stores {
    fn new() -> Self {
        let memory = || Arc::new(MemoryStore::new(Options::default())) as Arc<dyn Store>;
        Self { home: memory(), bus: memory(), folder: tempfile::tempdir().unwrap() }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("moves.json")
    }

    /// Starts a host whose kind `Widget` lives in a store, or returns why it does not start.
    async fn start(&self, lives: &str) -> std::result::Result<Arc<RoutedStore>, String> {
        let rule = Rule { pattern: KindPattern::of(&widget()), store: lives.into(), view: View::Whole };
        let routes = Routes::new(vec![rule]).unwrap();
        let mut moved = MovedKinds::open(self.path()).unwrap();
        moved.follow_routes(&routes, &*self.home).await.map_err(|(_, reason)| reason)?;
        let bus = StorePart { name: "bus".into(), store: Arc::clone(&self.bus) };
        Ok(Arc::new(RoutedStore::with_moves(Arc::clone(&self.home), vec![bus], routes, moved).unwrap()))
    }

    /// Moves the kind, and returns the host that has it in the other store.
    async fn moved(&self, host: &Arc<RoutedStore>, to: &str) -> Arc<RoutedStore> {
        copy(host, to).await.unwrap();
        self.start(to).await.unwrap()
    }
}

fn widget() -> Kind {
    demo_kind("Widget")
}

fn document(kind: &str, name: &str, owner: Option<&Resource>) -> Value {
    let mut metadata = json!({"name": name, "namespace": "default"});
    if let Some(owner) = owner {
        let (kind, name) = (&owner.key().kind().name, owner.key().name());
        metadata["ownerReferences"] =
            json!([{"apiVersion": "demo.dev/v1", "kind": kind, "name": name, "uid": owner.uid()}]);
    }
    json!({"apiVersion": "demo.dev/v1", "kind": kind, "metadata": metadata, "spec": {"size": 1}})
}

async fn create(store: &dyn Store, document: Value) -> Arc<Resource> {
    store.write(Write::Create { document }).await.unwrap().resource
}

async fn patch(store: &dyn Store, name: &str, patch: Value, at: Option<Revision>) -> Result<WriteResponse> {
    let precondition = Precondition { uid: None, revision: at };
    store.write(Write::Patch { key: key(name), change: Change::Merge(patch), precondition }).await
}

async fn step(host: &Arc<RoutedStore>, step: MoveStep, is_dry_run: bool) -> Result<MoveProgress> {
    let mut progress = host.start_move(&widget(), step, is_dry_run).unwrap();
    let ended = progress.wait_for(|progress| progress.end.is_some()).await.unwrap().clone();
    ended.end.clone().unwrap().map(|()| ended)
}

async fn copy(host: &Arc<RoutedStore>, to: &str) -> Result<MoveProgress> {
    step(host, MoveStep::Copy(to.into()), false).await
}

async fn prune(host: &Arc<RoutedStore>, from: &str) -> Result<MoveProgress> {
    step(host, MoveStep::Prune(from.into()), false).await
}

async fn names(store: &dyn Store) -> Vec<String> {
    let page = store.list(&Query::all(widget())).await.unwrap();
    page.items.iter().map(|item| item.key().name().to_owned()).collect()
}

#[track_caller]
fn assert_refused<T: std::fmt::Debug>(result: std::result::Result<T, impl std::fmt::Display>, expected: &str) {
    let error = result.expect_err("it is refused").to_string();
    assert!(error.contains(expected), "{error}");
}

#[tokio::test]
async fn a_copy_has_everything_of_each_resource_but_the_revision() {
    let stores = Stores::new();
    let host = stores.start(HOME).await.unwrap();
    let mut document = document("Widget", "held", None);
    document["metadata"]["finalizers"] = json!(["demo.dev/hold"]);
    create(&*host, document).await;
    let status =
        Write::UpdateStatus { key: key("held"), status: json!({"ready": true}), precondition: Precondition::default() };
    host.write(status).await.unwrap();
    patch(&*host, "held", json!({"spec": {"size": 2}}), None).await.unwrap();
    let delete = Write::Delete {
        key: key("held"),
        precondition: Precondition::default(),
        propagation: Propagation::Background,
        grace_seconds: None,
    };
    let before = host.write(delete).await.unwrap().resource;
    assert!(before.is_deleting() && before.generation() == 3);
    for _ in 0..2 {
        assert_eq!(copy(&host, "bus").await.unwrap().resources, 1);
        assert_eq!(without_revision(&stores.bus.get(&key("held")).await.unwrap()), without_revision(&before));
    }
    let host = stores.start("bus").await.unwrap();
    assert_eq!(without_revision(&host.get(&key("held")).await.unwrap()), without_revision(&before));
    assert_eq!(prune(&host, HOME).await.unwrap().written, 1, "finalizers of a former copy hold nothing");
    assert_eq!((names(&*stores.home).await.len(), names(&*host).await), (0, vec!["held".to_owned()]));
}

#[tokio::test]
async fn a_dry_run_counts_and_changes_nothing() {
    let stores = Stores::new();
    let host = stores.start(HOME).await.unwrap();
    create(&*host, document("Widget", "a", None)).await;
    let progress = step(&host, MoveStep::Copy("bus".into()), true).await.unwrap();
    assert_eq!((progress.resources, progress.written), (1, 1));
    assert!(names(&*stores.bus).await.is_empty() && !stores.path().exists());
    assert!(patch(&*host, "a", json!({"spec": {"size": 2}}), None).await.is_ok());
}

#[tokio::test]
async fn writes_of_a_copied_kind_wait_until_the_host_ends_and_others_go_on() {
    let stores = Stores::new();
    let host = stores.start(HOME).await.unwrap();
    create(&*host, document("Widget", "a", None)).await;
    copy(&host, "bus").await.unwrap();
    let held = patch(&*host, "a", json!({"spec": {"size": 2}}), None).await;
    assert!(matches!(held, Err(Error::Unavailable { .. })), "{held:?}");
    assert_refused(held, "wait until the host starts again: it was copied to store bus");
    create(&*host, document("Other", "a", None)).await;
    assert!(host.status()[0].notes.iter().any(|note| note.contains("demo.dev/Widget")));
    // A host that starts with the former route goes on, and the copy counts no more.
    let host = stores.start(HOME).await.unwrap();
    patch(&*host, "a", json!({"spec": {"size": 2}}), None).await.unwrap();
    assert_refused(stores.start("bus").await, "store `bus` has an old or unfinished copy");
    let host = stores.start(HOME).await.unwrap();
    assert_eq!(copy(&host, "bus").await.unwrap().written, 1);
    assert!(stores.start("bus").await.is_ok());
}

#[tokio::test]
async fn a_route_to_a_copy_is_refused_after_the_former_store_was_changed() {
    let stores = Stores::new();
    let host = stores.start(HOME).await.unwrap();
    create(&*host, document("Widget", "a", None)).await;
    copy(&host, "bus").await.unwrap();
    // As if the file of the store had been restored.
    patch(&*stores.home, "a", json!({"spec": {"size": 2}}), None).await.unwrap();
    assert_refused(stores.start("bus").await, "was changed in store `home` after it was copied");
}

#[tokio::test]
async fn a_copy_that_was_interrupted_counts_only_after_it_was_repeated() {
    let stores = Stores::new();
    let host = stores.start(HOME).await.unwrap();
    for name in ["a", "b", "c"] {
        create(&*host, document("Widget", name, None)).await;
    }
    // The host was killed after its first write.
    let first = without_revision(&host.get(&key("a")).await.unwrap());
    host.moved.begin(&widget(), &HOME.into(), &"bus".into()).await.unwrap();
    let first = Request { is_move: true, ..Write::Create { document: first }.into() };
    stores.bus.submit(first).await.unwrap();
    assert_refused(stores.start("bus").await, "run `homeostat stores copy demo.dev/Widget --to bus` first");
    let host = stores.start(HOME).await.unwrap();
    let repeated = copy(&host, "bus").await.unwrap();
    assert_eq!((repeated.resources, names(&*stores.bus).await.len()), (3, 3));
    let host = stores.start("bus").await.unwrap();
    assert_refused(stores.start(HOME).await, "store `home` has an old or unfinished copy");
    prune(&host, HOME).await.unwrap();
    assert!(names(&*stores.home).await.is_empty());
}

#[tokio::test]
async fn a_copy_replaces_and_removes_no_resource_that_is_no_copy() {
    let stores = Stores::new();
    let host = stores.start(HOME).await.unwrap();
    create(&*host, document("Widget", "a", None)).await;
    for name in ["a", "z"] {
        let other = create(&*stores.bus, document("Widget", name, None)).await;
        assert_refused(copy(&host, "bus").await, "`homeostat stores prune demo.dev/Widget --from bus`");
        assert_eq!(stores.bus.get(&key(name)).await.unwrap(), other);
        assert!(
            patch(&*host, "a", json!({"metadata": {"labels": {name: name}}}), None).await.is_ok(),
            "no hold is left"
        );
        assert_eq!(prune(&host, "bus").await.unwrap().written, 1);
    }
    copy(&host, "bus").await.unwrap();
    assert_refused(prune(&host, HOME).await, "demo.dev/Widget lives in store home");
    let kind = Kind::new("homeostat.dev", "v1alpha1", "Controller");
    let mut progress = host.start_move(&kind, MoveStep::Copy("bus".into()), false).unwrap();
    let end = progress.wait_for(|progress| progress.end.is_some()).await.unwrap().end.clone();
    assert_refused(end.unwrap(), "is always in the host's own store");
}

#[tokio::test]
async fn a_revision_of_a_former_store_is_never_taken_for_one_of_the_new_store() {
    let stores = Stores::new();
    // Each store has numbers that the other one has, too.
    for at in 0..20 {
        create(&*stores.bus, document("Other", &format!("o{at}"), None)).await;
    }
    let host = stores.start(HOME).await.unwrap();
    let mut former = vec![(HOME, create(&*host, document("Widget", "a", None)).await.revision())];
    let mut host = host;
    for lives in ["bus", HOME, "bus"] {
        for at in 0..40 {
            former.push((
                lives,
                patch(&*host, "a", json!({"spec": {"size": at}}), None).await.unwrap().resource.revision(),
            ));
        }
        host = stores.moved(&host, lives).await;
        for (_, revision) in &former {
            let watch = host.watch(Scope::Kind(widget()), *revision).await;
            assert!(matches!(watch, Err(Error::Expired { .. })), "{revision} {watch:?}");
            let list = host.list(&Query { at: Some(*revision), ..Query::all(widget()) }).await;
            assert!(matches!(list, Err(Error::Expired { .. })), "{revision} {list:?}");
            let written = patch(&*host, "a", json!({"spec": {"size": 99}}), Some(*revision)).await;
            assert!(matches!(written, Err(Error::Conflict { .. })), "{revision} {written:?}");
            let written =
                patch(&*host, "a", json!({"metadata": {"resourceVersion": revision.to_string()}}), None).await;
            assert!(matches!(written, Err(Error::Conflict { .. })), "{revision} {written:?}");
        }
        let later = Query { limit: Some(1), from: Some("~7".to_owned()), ..Query::all(widget()) };
        let page = host.list(&later).await;
        assert!(matches!(page, Err(Error::Expired { .. })), "{page:?}");
        // Its own revisions have their usual meaning.
        let page = host.list(&Query::all(widget())).await.unwrap();
        let mut watch = host.watch(Scope::Kind(widget()), page.revision).await.unwrap();
        let at = page.items[0].revision();
        assert_eq!(host.revision(&Scope::Kind(widget())).await.unwrap(), page.revision);
        let written = patch(&*host, "a", json!({"spec": {"size": -1}}), Some(at)).await.unwrap().resource;
        let event = watch.next().await.unwrap();
        assert_eq!((event.revision, &event.resource), (written.revision(), &written));
        assert_eq!(event.previous.unwrap().revision(), at);
        assert_eq!(host.get(&key("a")).await.unwrap(), written);
        let then = host.list(&Query { at: Some(page.revision), ..Query::all(widget()) }).await.unwrap();
        assert_eq!((then.revision, &then.items), (page.revision, &page.items));
        let never = host.list(&Query { at: Some(Revision(u64::MAX)), ..Query::all(widget()) }).await;
        assert!(matches!(never, Err(Error::Expired { .. } | Error::FutureRevision { .. })), "{never:?}");
        let text =
            json!([{"op": "test", "path": "/metadata/resourceVersion", "value": written.revision().to_string()}]);
        let change = Change::Json(text);
        let write = Write::Patch { key: key("a"), change, precondition: Precondition::default() };
        assert_eq!(host.write(write).await.unwrap().change, None);
        let stale = patch(&*host, "a", json!({}), Some(at)).await;
        let Err(Error::Conflict { current, .. }) = stale else { panic!("{stale:?}") };
        assert_eq!(current, Some(written.revision()));
        let former = if lives == HOME { "bus" } else { HOME };
        prune(&host, former).await.unwrap();
    }
}

#[tokio::test]
async fn owners_and_dependents_find_each_other_after_a_move_and_after_the_way_back() {
    let stores = Stores::new();
    let host = stores.start(HOME).await.unwrap();
    let root = create(&*host, document("Root", "root", None)).await;
    let widget = create(&*host, document("Widget", "a", Some(&root))).await;
    create(&*host, document("Widget", "inner", Some(&widget))).await;
    let leaf = create(&*host, document("Leaf", "leaf", Some(&widget))).await;
    let far = async |store: &dyn Store, key: &Key| {
        let owners = store.get(key).await.unwrap().owners().to_vec();
        assert_eq!(owners.len(), 1);
        (owners[0].uid.clone(), owners[0].far.as_ref().map(|far| far.store.to_string()))
    };
    let mut moved = host;
    for (former, lives, expected) in [(HOME, "bus", Some("bus".to_owned())), ("bus", HOME, None)] {
        moved = stores.moved(&moved, lives).await;
        let root_store = expected.as_ref().map(|_| HOME.to_owned());
        assert_eq!(far(&*moved, &key("a")).await, (root.uid().to_owned(), root_store));
        assert_eq!(far(&*moved, &key("inner")).await, (widget.uid().to_owned(), None));
        assert_eq!(prune(&moved, former).await.unwrap().dependents, 1);
        assert_eq!(far(&*moved, leaf.key()).await, (widget.uid().to_owned(), expected));
        assert_eq!(moved.dependents(widget.uid()).await.unwrap().len(), 2);
        assert_eq!(moved.get(leaf.key()).await.unwrap().generation(), 1);
    }
}
