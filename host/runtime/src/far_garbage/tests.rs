use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use homeostat_fixtures::{create, memory_store, until_gone};
use homeostat_store::catalog::{Catalog, ServedKind, Verbs};
use homeostat_store::far_owner::{OWNER_ANNOTATION, OWNER_LABEL};
use homeostat_store::memory::MemoryStore;
use homeostat_store::routes::{Routes, Rule};
use homeostat_store::schema::Schemas;
use homeostat_store::{
    Change, Key, Page, Precondition, Propagation, Query, Request, Result, Revision, StorePart, StoreStatus, Watch,
    Write, WriteResponse,
};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::*;
use crate::{Stores, garbage};

/// A store that is far away, with the state that a test gives it.
struct Bus {
    inner: Arc<MemoryStore>,
    availability: parking_lot::Mutex<Availability>,
    /// Lists are forbidden.
    forbids: AtomicBool,
    /// It has lost all its resources.
    is_empty: AtomicBool,
    /// The id of its content, if it is not that of `inner`.
    content: parking_lot::Mutex<Option<String>>,
    /// The kinds that its server defines, as that of a cluster. Such a server does not say which have resources.
    catalog: Option<watch::Sender<Arc<Catalog>>>,
    /// The requests that the server refuses, each by a verb and the name of a kind.
    refused: parking_lot::Mutex<BTreeSet<(&'static str, &'static str)>>,
    /// The requests, by verb and name of the kind.
    asked: parking_lot::Mutex<BTreeMap<(&'static str, String), Vec<time::Instant>>>,
}

impl Bus {
    /// Counts a request.
    fn ask(&self, verb: &'static str, kind: &Kind) -> Result<()> {
        self.answers()?;
        self.asked.lock().entry((verb, kind.name.clone())).or_default().push(time::Instant::now());
        match self.refused.lock().iter().any(|refused| *refused == (verb, kind.name.as_str())) {
            true => Err(Error::Forbidden { what: format!("{verb} {kind}"), reason: "on purpose".to_owned() }),
            false => Ok(()),
        }
    }

    fn count(&self, verb: &'static str, kind: &str) -> usize {
        self.asked.lock().get(&(verb, kind.to_owned())).map_or(0, Vec::len)
    }

    /// Serves these kinds of `far.dev`, and refuses none.
    fn serve(&self, kinds: impl IntoIterator<Item = String>) {
        let names = ["get", "list", "create", "update", "delete"].map(str::to_owned);
        let kind = |name: String| {
            let verbs = if name == "Log" { Verbs::of(&names[..2]) } else { Verbs::of(&names) };
            ServedKind { namespaced: true, verbs, ..ServedKind::new(Kind::new("far.dev", "v1", name)) }
        };
        let catalog = Arc::new(Catalog::new(kinds.into_iter().map(kind)));
        self.catalog.as_ref().unwrap().send_replace(catalog);
    }

    fn be(&self, availability: Availability) {
        *self.availability.lock() = availability;
    }

    fn answers(&self) -> Result<()> {
        match &*self.availability.lock() {
            Availability::Away { reason, .. } => Err(Error::unavailable(reason)),
            _ => Ok(()),
        }
    }
}

#[async_trait]
impl Store for Bus {
    async fn get(&self, key: &Key) -> Result<Arc<Resource>> {
        self.answers()?;
        if self.is_empty.load(Ordering::SeqCst) {
            return Err(Error::NotFound { what: key.to_string() });
        }
        self.inner.get(key).await
    }

    async fn list(&self, query: &Query) -> Result<Page> {
        self.ask("list", &query.kind)?;
        if self.catalog.is_some() && !query.live {
            assert_eq!(query.view, View::Metadata, "{query:?}");
        }
        if self.forbids.load(Ordering::SeqCst) {
            return Err(Error::Forbidden { what: "list".to_owned(), reason: "on purpose".to_owned() });
        }
        let page = self.inner.list(query).await?;
        Ok(if self.is_empty.load(Ordering::SeqCst) { Page { items: Vec::new(), ..page } } else { page })
    }

    async fn submit(&self, request: Request) -> Result<WriteResponse> {
        if let Write::Delete { key, .. } = &request.write {
            self.ask("delete", key.kind())?;
        }
        self.answers()?;
        self.inner.submit(request).await
    }

    fn schemas(&self) -> Option<&Schemas> {
        self.inner.schemas()
    }

    async fn watch(&self, scope: Scope, from: Revision) -> Result<Watch> {
        self.answers()?;
        self.inner.watch(scope, from).await
    }

    async fn revision(&self, scope: &Scope) -> Result<Revision> {
        self.answers()?;
        self.inner.revision(scope).await
    }

    fn status(&self) -> Vec<StoreStatus> {
        let mut status = self.inner.status();
        for status in &mut status {
            status.availability = self.availability.lock().clone();
            status.collects_garbage = self.catalog.is_some();
            status.id = self.content.lock().clone().or(status.id.take());
        }
        status
    }

    async fn close(&self) {
        self.inner.close().await;
    }

    async fn kinds(&self) -> Result<Vec<Kind>> {
        self.answers()?;
        if self.catalog.is_some() { Ok(Vec::new()) } else { self.inner.kinds().await }
    }

    fn catalog(&self) -> Option<watch::Receiver<Arc<Catalog>>> {
        self.catalog.as_ref().map(watch::Sender::subscribe)
    }
}

/// A host with a store of its own and the store `bus`, which has the kinds of `far.dev`.
struct Host {
    home: Arc<MemoryStore>,
    bus: Arc<Bus>,
    all: Arc<RoutedStore>,
    end: CancellationToken,
}

impl Host {
    fn new() -> Self {
        Self::with_catalog(None)
    }

    /// Returns a host whose store `bus` is a cluster that serves these kinds.
    fn with_cluster(kinds: &[&str]) -> Self {
        let host = Self::with_catalog(Some(watch::Sender::default()));
        host.bus.serve(kinds.iter().map(|&name| name.to_owned()));
        host
    }

    fn with_catalog(catalog: Option<watch::Sender<Arc<Catalog>>>) -> Self {
        let home = memory_store();
        let bus = Arc::new(Bus {
            inner: memory_store(),
            availability: parking_lot::Mutex::new(Availability::Ready),
            forbids: AtomicBool::new(false),
            is_empty: AtomicBool::new(false),
            content: parking_lot::Mutex::default(),
            catalog,
            refused: parking_lot::Mutex::default(),
            asked: parking_lot::Mutex::default(),
        });
        Self::over(home, bus)
    }

    /// Returns a host that has just started over these stores.
    fn over(home: Arc<MemoryStore>, bus: Arc<Bus>) -> Self {
        let rule = Rule { pattern: "far.dev/*".parse().unwrap(), store: "bus".into(), view: View::Whole };
        let part = StorePart { name: "bus".into(), store: bus.clone() };
        let all = RoutedStore::new(home.clone(), vec![part], Routes::new(vec![rule]).unwrap()).unwrap();
        Self { home, bus, all: Arc::new(all), end: CancellationToken::new() }
    }

    /// Returns the host after a restart, in which it forgets which kinds it has written.
    fn restarted(self) -> Self {
        Self::over(self.home, self.bus)
    }

    /// Creates an owner in the store of the host and a dependent of the same name in the cluster.
    async fn near_and_far(&self, kind: &str, name: &str) -> (Arc<Resource>, Arc<Resource>) {
        let owner = self.put("near.dev/v1", "App", name, &[]).await;
        let dependent = self.put("far.dev/v1", kind, name, &[&owner]).await;
        (owner, dependent)
    }

    async fn app(&self, name: &str) -> Arc<Resource> {
        self.put("far.dev/v1", "App", name, &[]).await
    }

    async fn part(&self, name: &str, owners: &[&Resource]) -> Arc<Resource> {
        self.put("near.dev/v1", "Part", name, owners).await
    }

    async fn put(&self, api_version: &str, kind: &str, name: &str, owners: &[&Resource]) -> Arc<Resource> {
        let reference = |owner: &&Resource| {
            let kind = owner.key().kind();
            json!({
                "apiVersion": kind.api_version(), "kind": kind.name, "name": owner.key().name(), "uid": owner.uid(),
            })
        };
        let owners: Vec<Value> = owners.iter().map(reference).collect();
        let metadata = json!({"name": name, "namespace": "shop", "ownerReferences": owners});
        create(&*self.all, json!({"apiVersion": api_version, "kind": kind, "metadata": metadata})).await
    }

    async fn delete(&self, resource: &Resource, propagation: Propagation) {
        let (key, precondition) = (resource.key().clone(), Precondition::default());
        self.all.write(Write::Delete { key, precondition, propagation, grace_seconds: None }).await.unwrap();
    }

    async fn has(&self, resource: &Resource) -> bool {
        self.inner(resource).get(resource.key()).await.is_ok()
    }

    fn inner(&self, resource: &Resource) -> Arc<dyn Store> {
        if resource.key().kind().group == "far.dev" { self.bus.inner.clone() } else { self.home.clone() }
    }

    /// Deletes an owner, and waits until its dependent is gone, sooner than a sweep would find it.
    async fn is_collected_soon(&self, owner: &Resource, dependent: &Resource) {
        let start = time::Instant::now();
        self.delete(owner, Propagation::Background).await;
        self.until_gone(dependent).await;
        assert!(start.elapsed() < Duration::from_secs(30), "{:?}", start.elapsed());
    }

    /// Waits until a resource is gone; a sweep may come only after some minutes.
    async fn until_gone(&self, resource: &Resource) {
        let store = self.inner(resource);
        let gone = until_gone(&*store, resource.key());
        time::timeout(2 * SWEEP_INTERVAL, gone).await.expect("it is collected");
    }

    /// Collects the dependents of owners in other stores.
    fn collect(&self) -> JoinHandle<()> {
        tokio::spawn(run(self.all.clone(), Arc::default(), self.end.clone()))
    }

    /// Collects the dependents of owners in the same store, and waits for those in others.
    fn collect_near(&self) -> JoinHandle<()> {
        tokio::spawn(garbage::run(Stores::Routed(self.all.clone()), Arc::default(), Arc::default(), self.end.clone()))
    }
}

/// Lets a day pass, in which the collector does all that it wants to.
async fn a_day() {
    time::sleep(Duration::from_secs(86_400)).await;
}

#[tokio::test(start_paused = true)]
async fn a_missed_delete_is_found_by_listing() {
    let host = Host::new();
    let (gone, stays) = (host.app("gone").await, host.app("stays").await);
    let (garbage, part) = (host.part("garbage", &[&gone]).await, host.part("part", &[&stays]).await);
    host.delete(&gone, Propagation::Background).await;
    host.collect();
    host.until_gone(&garbage).await;
    a_day().await;
    assert!(host.has(&part).await, "its owner lives");
}

#[tokio::test(start_paused = true)]
async fn a_seen_delete_leads_to_a_deletion_before_the_next_sweep() {
    let host = Host::new();
    let owner = host.app("a").await;
    let part = host.part("part", &[&owner]).await;
    host.collect();
    // The first sweep finds the kind of the owner.
    time::sleep(Duration::from_secs(60)).await;
    let start = time::Instant::now();
    host.delete(&owner, Propagation::Background).await;
    host.until_gone(&part).await;
    assert!(start.elapsed() >= suspects::CONFIRMATION, "{:?}", start.elapsed());
    assert!(start.elapsed() < Duration::from_secs(30), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_kind_of_owners_is_watched_as_soon_as_a_dependent_names_it() {
    let host = Host::new();
    host.collect();
    time::sleep(Duration::from_secs(60)).await;
    let owner = host.app("a").await;
    let part = host.part("part", &[&owner]).await;
    time::sleep(2 * SWEEP_PAUSE).await;
    host.is_collected_soon(&owner, &part).await;
}

#[tokio::test(start_paused = true)]
async fn an_owner_that_is_made_anew_is_another_one() {
    let host = Host::new();
    let owner = host.app("a").await;
    let part = host.part("part", &[&owner]).await;
    host.delete(&owner, Propagation::Background).await;
    host.app("a").await;
    host.collect();
    host.until_gone(&part).await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_collected_while_the_owners_store_is_away() {
    let host = Host::new();
    let owner = host.app("a").await;
    let part = host.part("part", &[&owner]).await;
    host.delete(&owner, Propagation::Background).await;
    let since = std::time::SystemTime::UNIX_EPOCH;
    host.bus.be(Availability::Away { since, reason: "connection refused".to_owned() });
    host.collect();
    a_day().await;
    assert!(host.has(&part).await);
    host.bus.be(Availability::Starting { reason: None });
    a_day().await;
    assert!(host.has(&part).await, "what it answers before it is ready proves nothing");
    host.bus.be(Availability::Ready);
    host.until_gone(&part).await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_collected_while_its_kind_is_forbidden() {
    let host = Host::new();
    let owner = host.app("a").await;
    let part = host.part("part", &[&owner]).await;
    host.delete(&owner, Propagation::Background).await;
    host.bus.forbids.store(true, Ordering::SeqCst);
    host.collect();
    a_day().await;
    assert!(host.has(&part).await);
    host.bus.forbids.store(false, Ordering::SeqCst);
    host.until_gone(&part).await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_collected_after_a_store_was_replaced() {
    let host = Host::new();
    let owner = host.app("a").await;
    let part = host.part("part", &[&owner]).await;
    host.collect();
    time::sleep(Duration::from_secs(60)).await;
    host.bus.is_empty.store(true, Ordering::SeqCst);
    host.bus.be(Availability::Replaced { before: "one".to_owned(), now: "other".to_owned() });
    a_day().await;
    assert!(host.has(&part).await);
    // A person says that the owners are gone for good.
    host.bus.be(Availability::Ready);
    host.until_gone(&part).await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_collected_for_content_that_never_had_the_owner() {
    let host = Host::new();
    let owner = host.app("a").await;
    let part = host.part("part", &[&owner]).await;
    host.delete(&owner, Propagation::Background).await;
    // As after a start on an empty store that the host does not remember, or on the `home` of another host.
    *host.bus.content.lock() = Some("other".to_owned());
    host.collect();
    a_day().await;
    assert!(host.has(&part).await);
    // A dependent that names its owner from now on is collected.
    let new = host.app("b").await;
    let part = host.part("new", &[&new]).await;
    host.delete(&new, Propagation::Background).await;
    host.until_gone(&part).await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_collected_for_owners_that_a_restored_store_has_lost() {
    let host = Host::new();
    let told = host.bus.status()[0].id.clone().expect("it has one");
    let (lost, gone) = (host.app("lost").await, host.app("gone").await);
    let part = host.part("part", &[&lost]).await;
    // An older state of the content was accepted.
    host.delete(&lost, Propagation::Background).await;
    *host.bus.content.lock() = Some(format!("{told}/restored-1"));
    let garbage = host.part("garbage", &[&gone]).await;
    host.delete(&gone, Propagation::Background).await;
    host.collect();
    host.until_gone(&garbage).await;
    a_day().await;
    assert!(host.has(&part).await, "nobody knows whether its owner was deleted or lost");
}

#[tokio::test(start_paused = true)]
async fn a_dependent_that_does_not_name_the_content_stays() {
    let host = Host::new();
    let metadata = json!({
        "name": "part", "namespace": "shop", "labels": {OWNER_LABEL: "gone"},
        "annotations": {OWNER_ANNOTATION: r#"{"store":"bus","apiVersion":"far.dev/v1","kind":"App","name":"a","uid":"gone"}"#},
    });
    let part = create(&*host.home, json!({"apiVersion": "near.dev/v1", "kind": "Part", "metadata": metadata})).await;
    host.collect();
    a_day().await;
    assert!(host.has(&part).await);
}

#[tokio::test(start_paused = true)]
async fn a_dependent_with_another_owner_that_lives_stays() {
    let host = Host::new();
    let (far, near) = (host.app("a").await, host.part("near", &[]).await);
    let part = host.part("part", &[&near, &far]).await;
    host.delete(&far, Propagation::Background).await;
    host.collect();
    a_day().await;
    assert!(host.has(&part).await);
    host.delete(&near, Propagation::Background).await;
    host.until_gone(&part).await;
}

#[tokio::test(start_paused = true)]
async fn an_owner_in_another_namespace_counts() {
    let host = Host::new();
    let metadata = json!({"name": "a", "namespace": "other"});
    let owner = create(&*host.all, json!({"apiVersion": "far.dev/v1", "kind": "App", "metadata": metadata})).await;
    // The dependent does not say where its owner is. The list over all namespaces finds it.
    let part = host.part("part", &[&owner]).await;
    host.collect();
    a_day().await;
    assert!(host.has(&part).await);
}

#[tokio::test(start_paused = true)]
async fn a_dependent_of_a_kind_that_nobody_uses_is_collected() {
    let host = Host::with_cluster(&["Log", "Note", "Other"]);
    let (gone, garbage) = host.near_and_far("Note", "gone").await;
    let (_, part) = host.near_and_far("Note", "stays").await;
    host.delete(&gone, Propagation::Background).await;
    let host = host.restarted();
    host.collect();
    let start = time::Instant::now();
    host.until_gone(&garbage).await;
    assert!(start.elapsed() < Duration::from_secs(60), "{:?}", start.elapsed());
    a_day().await;
    assert!(host.has(&part).await, "its owner lives");
    // A later owner is checked as soon as its deletion is seen, without another question for the kind.
    let (seen, part) = host.near_and_far("Note", "seen").await;
    time::sleep(Duration::from_secs(60)).await;
    host.is_collected_soon(&seen, &part).await;
}

#[tokio::test(start_paused = true)]
async fn a_dependent_of_an_unused_kind_that_this_host_writes_is_collected_at_once() {
    let host = Host::with_cluster(&["Note"]);
    host.collect();
    time::sleep(Duration::from_secs(60)).await;
    let (owner, part) = host.near_and_far("Note", "a").await;
    time::sleep(2 * SWEEP_PAUSE).await;
    host.is_collected_soon(&owner, &part).await;
}

#[tokio::test(start_paused = true)]
async fn a_survey_asks_each_kind_once_an_hour_and_two_a_second() {
    let kinds: Vec<String> = (0..200).map(|number| format!("Kind{number:03}")).collect();
    let host = Host::with_cluster(&[]);
    host.bus.serve(kinds.iter().cloned().chain(["Log".to_owned()]));
    host.collect();
    a_day().await;
    let asked = host.bus.asked.lock();
    assert_eq!((asked.len(), asked.contains_key(&("list", "Log".to_owned()))), (200, false), "Log cannot be deleted");
    for ((verb, kind), times) in asked.iter() {
        assert!((20..=30).contains(&times.len()), "{verb} {kind}: {}", times.len());
    }
    let mut times: Vec<time::Instant> = asked.values().flatten().copied().collect();
    times.sort();
    assert!(times.windows(2).all(|pair| pair[1] - pair[0] >= survey::PAUSE), "one request at a time");
}

#[tokio::test(start_paused = true)]
async fn a_survey_leaves_kinds_alone_that_are_forbidden() {
    let host = Host::with_cluster(&["Locked", "Note", "Secret"]);
    let (gone, garbage) = host.near_and_far("Note", "gone").await;
    let (kept, locked) = host.near_and_far("Locked", "kept").await;
    host.delete(&gone, Propagation::Background).await;
    host.delete(&kept, Propagation::Background).await;
    host.bus.refused.lock().extend([("list", "Secret"), ("delete", "Locked")]);
    let host = host.restarted();
    host.collect();
    host.until_gone(&garbage).await;
    for _ in 0..5 {
        a_day().await;
    }
    let counts = [host.bus.count("list", "Secret"), host.bus.count("delete", "Locked")];
    assert!(counts.iter().all(|count| (5..=8).contains(count)), "once a day: {counts:?}");
    assert!(host.bus.count("list", "Locked") <= 30, "{}", host.bus.count("list", "Locked"));
    assert!(host.has(&locked).await);
    host.bus.refused.lock().clear();
    a_day().await;
    a_day().await;
    assert!(!host.has(&locked).await, "it is asked again");
}

#[tokio::test(start_paused = true)]
async fn a_survey_waits_for_a_store_that_is_away() {
    let host = Host::with_cluster(&["Note"]);
    let (gone, garbage) = host.near_and_far("Note", "gone").await;
    host.delete(&gone, Propagation::Background).await;
    let host = host.restarted();
    let since = std::time::SystemTime::UNIX_EPOCH;
    host.bus.be(Availability::Away { since, reason: "connection refused".to_owned() });
    host.collect();
    a_day().await;
    assert_eq!(host.bus.count("list", "Note"), 0);
    host.bus.be(Availability::Ready);
    host.until_gone(&garbage).await;
}

#[tokio::test(start_paused = true)]
async fn an_orphan_of_an_unused_kind_forgets_its_owner_once_the_kind_was_found() {
    let host = Host::with_cluster(&["Note"]);
    let (owner, part) = host.near_and_far("Note", "a").await;
    let host = host.restarted();
    host.collect_near();
    host.collect();
    time::sleep(Duration::from_secs(60)).await;
    host.delete(&owner, Propagation::Orphan).await;
    host.until_gone(&owner).await;
    a_day().await;
    let orphan = host.bus.inner.get(part.key()).await.unwrap();
    assert_eq!((orphan.owners(), orphan.annotations().count()), (&[][..], 0));
}

#[tokio::test(start_paused = true)]
async fn the_collector_of_one_store_leaves_owners_in_others_alone() {
    let host = Host::new();
    let owner = host.app("a").await;
    let part = host.part("part", &[&owner]).await;
    host.delete(&owner, Propagation::Background).await;
    host.collect_near();
    a_day().await;
    assert!(host.has(&part).await);
}

#[tokio::test(start_paused = true)]
async fn foreground_waits_for_far_dependents() {
    let host = Host::new();
    let owner = host.app("a").await;
    let held = host.part("held", &[&owner]).await;
    let finalizers = |names: Value| Write::Patch {
        key: held.key().clone(),
        change: Change::Merge(json!({"metadata": {"finalizers": names}})),
        precondition: Precondition::default(),
    };
    host.all.write(finalizers(json!(["demo.dev/held"]))).await.unwrap();
    host.collect_near();
    host.delete(&owner, Propagation::Foreground).await;
    time::sleep(Duration::from_secs(600)).await;
    assert!(host.has(&owner).await, "its dependent is still there");
    assert!(host.home.get(held.key()).await.unwrap().is_deleting());
    host.all.write(finalizers(Value::Null)).await.unwrap();
    host.until_gone(&held).await;
    host.until_gone(&owner).await;
}

#[tokio::test(start_paused = true)]
async fn orphaned_far_dependents_stay_and_forget_their_owner() {
    let host = Host::new();
    let owner = host.app("a").await;
    let part = host.part("part", &[&owner]).await;
    host.collect_near();
    host.collect();
    host.delete(&owner, Propagation::Orphan).await;
    host.until_gone(&owner).await;
    a_day().await;
    let orphan = host.home.get(part.key()).await.unwrap();
    assert_eq!((orphan.owners(), orphan.annotations().count()), (&[][..], 0));
}

#[tokio::test(start_paused = true)]
async fn other_stores_collect_while_one_is_away() {
    let host = Host::new();
    let far = host.app("a").await;
    for at in 0..2 * OWNERS_MAX {
        host.part(&format!("far-{at}"), &[&far]).await;
    }
    let since = std::time::SystemTime::UNIX_EPOCH;
    host.bus.be(Availability::Away { since, reason: "connection refused".to_owned() });
    host.collect_near();
    let near = host.part("near", &[]).await;
    let part = host.part("part", &[&near]).await;
    host.delete(&near, Propagation::Background).await;
    host.until_gone(&part).await;
}

#[test]
fn a_jittered_time_is_within_a_fifth() {
    for _ in 0..1000 {
        let time = jittered(Duration::from_secs(100));
        assert!((80..=120).contains(&time.as_secs()), "{time:?}");
    }
}

#[test]
fn only_a_resource_that_is_gone_is_checked_after_a_change() {
    let resource = |uid: &str, revision: u64| {
        let metadata = json!({"name": "a", "namespace": "shop", "uid": uid, "resourceVersion": revision.to_string()});
        Arc::new(
            Resource::from_document(json!({"apiVersion": "far.dev/v1", "kind": "App", "metadata": metadata})).unwrap(),
        )
    };
    let event = |kind, previous: Option<&str>, uid: &str| Event {
        kind,
        resource: resource(uid, 2),
        previous: previous.map(|uid| resource(uid, 1)),
        revision: Revision(2),
    };
    let uid = |event: &Event| OwnerName::of_change(&"bus".into(), None, event).map(|owner| owner.uid);
    assert_eq!(uid(&event(EventType::Added, None, "u")), None);
    assert_eq!(uid(&event(EventType::Modified, Some("u"), "u")), None);
    assert_eq!(uid(&event(EventType::Deleted, Some("u"), "u")).as_deref(), Some("u"));
    assert_eq!(uid(&event(EventType::Modified, Some("before"), "u")).as_deref(), Some("before"));
}
