//! Moves to a store that gives uids of its own, and back.

use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;

use super::*;
use crate::copy_mark::COPY_ANNOTATION;
use crate::schema::Schemas;
use crate::{Page, StoreStatus, Watch};

/// A store that treats copies as that of a cluster does.
struct FakeCluster {
    inner: MemoryStore,
    /// Whether copies end before their status is written.
    fails: AtomicBool,
}

impl FakeCluster {
    fn new() -> Arc<Self> {
        Arc::new(Self { inner: MemoryStore::new(Options::default()), fails: AtomicBool::new(false) })
    }

    async fn copy(&self, original: Value) -> Result<WriteResponse> {
        let mut document = original.clone();
        let key = key(original["metadata"]["name"].as_str().unwrap());
        let mark = CopyMark { uid: original["metadata"]["uid"].as_str().unwrap().to_owned(), revision: None };
        let metadata = document["metadata"].as_object_mut().unwrap();
        metadata.retain(|field, _| ["name", "namespace", "finalizers", "ownerReferences"].contains(&field.as_str()));
        mark.write(&mut document);
        match self.inner.get(&key).await {
            Ok(former) => {
                let is_copy = former.uid() == mark.uid || CopyMark::of(&former).is_some_and(|it| it.uid == mark.uid);
                assert!(is_copy, "{key} is no copy");
                self.inner.write(Write::Update { document, precondition: Precondition::default() }).await?;
            }
            Err(_) => drop(self.inner.write(Write::Create { document }).await?),
        }
        if self.fails.load(Ordering::Relaxed) {
            return Err(Error::unavailable("the connection was cut"));
        }
        let status = original.get("status").cloned().unwrap_or_default();
        let precondition = Precondition::default();
        self.inner.write(Write::UpdateStatus { key: key.clone(), status, precondition: precondition.clone() }).await?;
        let annotations = json!({COPY_ANNOTATION: original["metadata"]["annotations"][COPY_ANNOTATION]});
        let change = Change::Merge(json!({"metadata": {"annotations": annotations}}));
        self.inner.write(Write::Patch { key, change, precondition }).await
    }
}

#[async_trait]
impl Store for FakeCluster {
    async fn get(&self, key: &Key) -> Result<Arc<Resource>> {
        self.inner.get(key).await
    }

    async fn list(&self, query: &Query) -> Result<Page> {
        let mut page = self.inner.list(query).await?;
        // Each server has its own order.
        page.items.reverse();
        Ok(page)
    }

    async fn submit(&self, request: Request) -> Result<WriteResponse> {
        match request.write {
            Write::Create { document } if request.is_move => self.copy(document).await,
            _ => self.inner.submit(request).await,
        }
    }

    fn schemas(&self) -> Option<&Schemas> {
        None
    }

    fn manager_prefix(&self) -> String {
        "host/".to_owned()
    }

    async fn watch(&self, scope: Scope, from: Revision) -> Result<Watch> {
        self.inner.watch(scope, from).await
    }

    async fn revision(&self, scope: &Scope) -> Result<Revision> {
        self.inner.revision(scope).await
    }

    fn status(&self) -> Vec<StoreStatus> {
        self.inner.status()
    }

    async fn close(&self) {
        self.inner.close().await;
    }

    async fn kinds(&self) -> Result<Vec<Kind>> {
        self.inner.kinds().await
    }
}

fn with_cluster() -> (Stores, Arc<FakeCluster>) {
    let cluster = FakeCluster::new();
    let home = Arc::new(MemoryStore::new(Options::default()));
    (Stores { home, bus: Arc::clone(&cluster) as Arc<dyn Store>, folder: tempfile::tempdir().unwrap() }, cluster)
}

async fn set_status(store: &dyn Store, name: &str) {
    let precondition = Precondition::default();
    store.write(Write::UpdateStatus { key: key(name), status: json!({"ready": true}), precondition }).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_copy_with_a_uid_of_its_own_is_recognised_and_made_again_only_if_it_is_old() {
    let (stores, cluster) = with_cluster();
    let host = stores.start(HOME).await.unwrap();
    for name in ["a", "b", "c"] {
        create(&*host, document("Widget", name, None)).await;
        set_status(&*host, name).await;
    }
    cluster.fails.store(true, Ordering::Relaxed);
    assert_refused(copy(&host, "bus").await, "the connection was cut");
    cluster.fails.store(false, Ordering::Relaxed);
    patch(&*host, "b", json!({"spec": {"size": 2}}), None).await.unwrap();
    assert_eq!(copy(&host, "bus").await.unwrap().resources, 3);
    for name in ["a", "b", "c"] {
        let (original, copied) = (host.get(&key(name)).await.unwrap(), stores.bus.get(&key(name)).await.unwrap());
        assert_ne!(original.uid(), copied.uid());
        assert_eq!(CopyMark::of(&copied), Some(CopyMark::finished(original.uid(), original.revision())));
        assert_eq!(
            (&copied.document()["spec"], copied.status()),
            (&original.document()["spec"], &json!({"ready": true}))
        );
    }
    assert_eq!(copy(&host, "bus").await.unwrap().written, 0);
}

#[tokio::test]
async fn a_resource_that_a_cluster_cannot_have_is_refused_before_the_first_write() {
    let (stores, _) = with_cluster();
    let host = stores.start(HOME).await.unwrap();
    create(&*host, document("Widget", "a", None)).await;
    let mut held = document("Widget", "z", None);
    held["metadata"]["finalizers"] = json!(["demo.dev/hold"]);
    create(&*host, held).await;
    let (precondition, propagation) = (Precondition::default(), Propagation::Background);
    host.write(Write::Delete { key: key("z"), precondition, propagation, grace_seconds: None }).await.unwrap();
    assert_refused(copy(&host, "bus").await, "z is being deleted");
    patch(&*host, "z", json!({"metadata": {"finalizers": []}}), None).await.unwrap();
    let mut lost = document("Widget", "z", None);
    lost["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "demo.dev/v1", "kind": "Widget", "name": "gone", "uid": "u"}]);
    create(&*host, lost).await;
    assert_refused(copy(&host, "bus").await, "which does not exist");
    assert!(names(&*stores.bus).await.is_empty() && !stores.path().exists());
    let mut progress = host.start_move(&Kind::new("", "v1", "Namespace"), MoveStep::Copy("bus".into()), false).unwrap();
    let end = progress.wait_for(|progress| progress.end.is_some()).await.unwrap().end.clone();
    assert_refused(end.unwrap(), "a namespace of a cluster goes with all that is in it");
}

#[tokio::test]
async fn resources_of_others_in_a_cluster_are_neither_replaced_nor_removed() {
    let (stores, _) = with_cluster();
    let host = stores.start(HOME).await.unwrap();
    create(&*host, document("Widget", "a", None)).await;
    let other = create(&*stores.bus, document("Widget", "a", None)).await;
    assert_refused(copy(&host, "bus").await, "remove it there");
    let pruned = prune(&host, "bus").await.unwrap();
    assert_eq!((pruned.written, pruned.others), (0, 1));
    assert_eq!(stores.bus.get(&key("a")).await.unwrap(), other);
}

#[tokio::test]
async fn copies_in_a_cluster_name_the_copies_of_their_owners() {
    let (stores, _) = with_cluster();
    let host = stores.start(HOME).await.unwrap();
    let mut owner = create(&*host, document("Widget", "z", None)).await;
    // More generations than passes that may find differences.
    for name in ["y", "x", "w", "v", "u", "t", "s", "r", "q", "p"] {
        owner = create(&*host, document("Widget", name, Some(&owner))).await;
    }
    assert_eq!(copy(&host, "bus").await.unwrap().resources, 11);
    for [name, owner] in [["p", "q"], ["y", "z"]] {
        let owner = stores.bus.get(&key(owner)).await.unwrap();
        assert_eq!(stores.bus.get(&key(name)).await.unwrap().owners()[0].uid, owner.uid());
    }
}

#[tokio::test]
async fn a_kind_with_new_uids_is_shown_once_its_dependents_name_them() {
    let (stores, _) = with_cluster();
    let host = stores.start(HOME).await.unwrap();
    let widget = create(&*host, document("Widget", "a", None)).await;
    let leaf = create(&*host, document("Leaf", "leaf", Some(&widget))).await;
    let host = stores.moved(&host, "bus").await;
    let current = stores.bus.get(&key("a")).await.unwrap().uid().to_owned();
    let owner = async |host: &RoutedStore, key: &Key| {
        let owners = host.get(key).await.unwrap().owners().to_vec();
        (owners[0].uid.clone(), owners[0].far.as_ref().map(|far| far.store.to_string()))
    };
    assert_refused(host.get(&key("a")).await, "waits until its dependents name the uids");
    assert_refused(patch(&*host, "a", json!({}), None).await, "waits until its dependents name the uids");
    assert_refused(host.watch(Scope::Kind(super::widget()), Revision::ZERO).await, "waits until");
    assert!(host.status().iter().any(|store| store.notes.iter().any(|note| note.contains("demo.dev/Widget waits"))));
    // A write in the meantime names the current uid, too.
    let early = create(&*host, document("Leaf", "early", Some(&widget))).await;
    assert_eq!(owner(&host, early.key()).await, (current.clone(), Some("bus".to_owned())));
    assert_eq!(owner(&host, leaf.key()).await, (widget.uid().to_owned(), None));
    follow_uids(Arc::clone(&host)).await;
    assert_eq!(host.get(&key("a")).await.unwrap().uid(), current);
    assert_eq!(owner(&host, leaf.key()).await, (current.clone(), Some("bus".to_owned())));
    // The kind does not wait a second time.
    let host = stores.start("bus").await.unwrap();
    host.get(&key("a")).await.unwrap();
    let late = create(&*host, document("Leaf", "late", Some(&widget))).await;
    assert_eq!(owner(&host, late.key()).await.0, current);
    assert_eq!(prune(&host, HOME).await.unwrap().written, 1);

    // On the way back the uids stay.
    let host = stores.moved(&host, HOME).await;
    let back = host.get(&key("a")).await.unwrap();
    assert_eq!((back.uid(), back.annotation(COPY_ANNOTATION)), (&*current, None));
    let pruned = prune(&host, "bus").await.unwrap();
    assert_eq!((pruned.written, pruned.dependents, pruned.others), (1, 3, 0));
    assert_eq!(owner(&host, leaf.key()).await, (current, None));
    assert!(names(&*stores.bus).await.is_empty());
}

#[tokio::test]
async fn managers_of_fields_have_the_prefix_of_the_host_in_a_cluster_alone() {
    let (stores, _) = with_cluster();
    let host = stores.start(HOME).await.unwrap();
    create(&*host, document("Widget", "a", None)).await;
    let source = host.get(&key("a")).await.unwrap();
    let (progress, _) = watch::channel(MoveProgress::default());
    let kind = widget();
    let task = MoveTask { stores: &host, kind: &kind, is_dry_run: false, progress: &progress };
    let target = CopyTarget { name: &"bus".into(), store: &host.movable[1], gives_uids: true };
    let copied = task.copied_document(&source, &target, true).await.unwrap().unwrap();
    let before = source.document()["metadata"]["managedFields"][0]["manager"].as_str().unwrap();
    assert_eq!(copied["metadata"]["managedFields"][0]["manager"], format!("host/{before}"));
}
