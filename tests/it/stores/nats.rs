//! The bucket of NATS without a cache: its requests and streams, and what they do when the server fails.

use std::sync::Arc;
use std::time::Duration;

use homeostat_nats::settings::{Create, Timings};
use homeostat_nats::{Bucket, BucketSettings};
use homeostat_store::cached::{CachedState, Delta, DeltaStream, LastState, Options, Start, Upstream, UpstreamResponse};
use homeostat_store::schema::Schemas;
use homeostat_store::{
    CacheState, Change, Error, EventType, Key, Kind, Precondition, Propagation, Query, Request, Resource, Revision,
    Scope, Store, SystemClockAndIds, View, Watch, Write,
};
use homeostat_testing::{eventually, soon};
use homeostat_tests::{NetworkFault, Proxy, shared_nats};
use serde_json::{Value, json};

/// Settings with short intervals. Each bucket of the shared server has a name of its own.
pub(super) fn settings(url: &str, bucket: &str) -> BucketSettings {
    let timings =
        Timings { request: Duration::from_secs(2), heartbeat: Duration::from_millis(500), ..Timings::default() };
    BucketSettings { create: Some(Create::default()), timings, ..BucketSettings::new(url, bucket) }
}

pub(super) fn bucket_of(settings: BucketSettings) -> Arc<Bucket> {
    Arc::new(Bucket::new(settings, Schemas::default(), Arc::new(SystemClockAndIds)).unwrap())
}

pub(super) async fn contacted(url: &str, bucket: &str) -> Arc<Bucket> {
    let bucket = bucket_of(settings(url, bucket));
    bucket.connect().await.unwrap();
    bucket
}

pub(super) fn kind() -> Kind {
    Kind::new("demo.dev", "v1", "Widget")
}

pub(super) fn key(name: &str) -> Key {
    Key::new(kind(), "default", name)
}

fn widget(name: &str) -> Value {
    json!({
        "apiVersion": "demo.dev/v1",
        "kind": "Widget",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"size": 1},
    })
}

pub(super) fn creation(name: &str) -> Write {
    Write::Create { document: widget(name) }
}

pub(super) fn status(name: &str, at: u64) -> Write {
    Write::UpdateStatus { key: key(name), status: json!({"at": at}), precondition: Precondition::default() }
}

pub(super) fn deletion(name: &str) -> Write {
    Write::Delete {
        key: key(name),
        precondition: Precondition::default(),
        propagation: Propagation::Background,
        grace_seconds: None,
    }
}

pub(super) fn known(resource: &Arc<Resource>) -> CachedState {
    CachedState::Known { resource: Some(Arc::clone(resource)), at: resource.revision() }
}

pub(super) async fn write(bucket: &Bucket, write: Write) -> Arc<Resource> {
    written(bucket, write).await.response.resource
}

async fn written(bucket: &Bucket, write: Write) -> UpstreamResponse {
    bucket.submit(write.into(), CachedState::Unknown).await.unwrap()
}

pub(super) async fn open(bucket: &Bucket, start: Start) -> Box<dyn DeltaStream> {
    bucket.open(&kind(), View::Whole, start).await.unwrap()
}

pub(super) const NOW: Start = Start::Now { not_before: None };

/// Returns the next delta that is about a resource or the end of a list.
pub(super) async fn next(stream: &mut Box<dyn DeltaStream>) -> Delta {
    soon(async {
        loop {
            match stream.next().await.unwrap() {
                Delta::Bookmark(_) => {}
                delta => return delta,
            }
        }
    })
    .await
}

/// Reads a list to its end.
pub(super) async fn listed(stream: &mut Box<dyn DeltaStream>) -> (Vec<Arc<Resource>>, Revision) {
    let mut found = Vec::new();
    loop {
        match next(stream).await {
            Delta::Listed(resource) => found.push(resource),
            Delta::ListEnd { at } => return (found, at),
            Delta::Deleted { .. } | Delta::Unreadable { .. } => {}
            delta => panic!("{delta:?} before the end of the list"),
        }
    }
}

pub(super) async fn error_of(stream: &mut Box<dyn DeltaStream>) -> Error {
    soon(async {
        loop {
            if let Err(error) = stream.next().await {
                return error;
            }
        }
    })
    .await
}

pub(super) async fn admin(url: &str) -> async_nats::jetstream::Context {
    async_nats::jetstream::new(async_nats::connect(url).await.unwrap())
}

pub(super) async fn event(watch: &mut Watch) -> (EventType, Arc<Resource>) {
    let event = soon(watch.next()).await.unwrap();
    (event.kind, event.resource)
}

#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
#[tokio::test(flavor = "multi_thread")]
async fn the_revision_is_the_sequence() {
    let bucket = contacted(&shared_nats().url(), "revisions").await;
    let created = written(&bucket, creation("a")).await;
    let resource = created.response.resource;
    assert_eq!(created.at, Some(resource.revision()));
    assert_eq!(bucket.get(&key("a")).await, Ok(Arc::clone(&resource)));
    let message = admin(&shared_nats().url()).await.get_stream_no_info("KV_revisions").await.unwrap();
    let message = message.get_last_raw_message_by_subject("$KV.revisions.r.demo=2Edev.Widget.default.a").await.unwrap();
    assert_eq!(message.sequence, resource.revision().0);
    let value: Value = serde_json::from_slice(&message.payload).unwrap();
    assert_eq!(value["metadata"]["resourceVersion"], "", "the sequence is the revision");
    assert_eq!(value["metadata"]["uid"], resource.uid());
}

#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
#[tokio::test(flavor = "multi_thread")]
async fn a_write_on_a_known_state_is_one_request_or_none() {
    let bucket = contacted(&shared_nats().url(), "requests").await;
    let mut resource = write(&bucket, creation("a")).await;
    let sent = bucket.counts().sent;
    for at in 1..=10 {
        let answer = bucket.submit(status("a", at).into(), known(&resource)).await.unwrap();
        resource = answer.response.resource;
    }
    assert_eq!(bucket.counts().sent, sent + 10);
    let unchanged = bucket.submit(status("a", 10).into(), known(&resource)).await.unwrap();
    assert_eq!((unchanged.response.change, unchanged.at), (None, Some(resource.revision())));
    assert_eq!((bucket.counts().sent, bucket.counts().skipped), (sent + 10, 1), "nothing to send");
}

#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
#[tokio::test(flavor = "multi_thread")]
async fn an_old_cache_never_decides_a_write_wrongly() {
    let bucket = contacted(&shared_nats().url(), "old-cache").await;
    let none = CachedState::Known { resource: None, at: Revision::ZERO };
    let first = write(&bucket, creation("a")).await;
    let error = bucket.submit(creation("a").into(), none.clone()).await.unwrap_err();
    assert!(matches!(error, Error::AlreadyExists { .. }), "{error}");
    let second = bucket.submit(status("a", 1).into(), none).await.unwrap().response.resource;
    let third = bucket.submit(status("a", 2).into(), known(&first)).await.unwrap().response.resource;
    assert!(first.revision() < second.revision() && second.revision() < third.revision());
    assert_eq!(third.status(), &json!({"at": 2}));
    let precondition = Precondition { revision: Some(second.revision()), uid: None };
    let conditional = Write::UpdateStatus { key: key("a"), status: json!(3), precondition };
    let error = bucket.submit(conditional.into(), known(&second)).await.unwrap_err();
    assert_eq!(error, Error::Conflict { key: key("a"), current: Some(third.revision()) });
    let precondition = Precondition { revision: Some(third.revision()), uid: None };
    let newer = Write::UpdateStatus { key: key("a"), status: json!({"at": 3}), precondition };
    assert!(bucket.submit(newer.into(), known(&second)).await.is_ok(), "the cache is behind the condition");
    let unchanged = bucket.submit(status("a", 3).into(), known(&first)).await.unwrap();
    assert_eq!(unchanged.response.change, None);
    write(&bucket, deletion("a")).await;
    let error = bucket.submit(status("a", 4).into(), known(&third)).await.unwrap_err();
    assert!(matches!(error, Error::NotFound { .. }), "{error}");
}

#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
#[tokio::test(flavor = "multi_thread")]
async fn a_name_can_be_used_again_over_the_marker_of_its_deletion() {
    let bucket = contacted(&shared_nats().url(), "markers").await;
    let first = write(&bucket, creation("a")).await;
    let gone = written(&bucket, deletion("a")).await;
    assert_eq!(gone.response.change, Some(EventType::Deleted));
    assert!(matches!(bucket.get(&key("a")).await, Err(Error::NotFound { .. })));
    let stream = admin(&shared_nats().url()).await.get_stream_no_info("KV_markers").await.unwrap();
    let marker = stream.get_last_raw_message_by_subject("$KV.markers.r.demo=2Edev.Widget.default.a").await.unwrap();
    assert_eq!(Some(Revision(marker.sequence)), gone.at);
    assert_eq!(marker.headers.get("Nats-TTL").unwrap().as_str(), "3600s");
    let second = write(&bucket, creation("a")).await;
    assert_ne!(first.uid(), second.uid());
}

#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
#[tokio::test(flavor = "multi_thread")]
async fn writers_of_one_key_all_end_within_the_bound() {
    let url = shared_nats().url();
    let hosts = [contacted(&url, "contention").await, contacted(&url, "contention").await];
    let first = write(&hosts[0], creation("a")).await;
    let writers: Vec<_> = (0..16_usize)
        .map(|at| {
            let (host, cached) = (Arc::clone(&hosts[at % 2]), known(&first));
            let change = Change::Merge(json!({"spec": {format!("field{at}"): at}}));
            let patch = Write::Patch { key: key("a"), change, precondition: Precondition::default() };
            tokio::spawn(async move { host.submit(patch.into(), cached).await })
        })
        .collect();
    for writer in writers {
        soon(writer).await.unwrap().unwrap();
    }
    let last = hosts[0].get(&key("a")).await.unwrap();
    assert_eq!(last.document()["spec"].as_object().unwrap().len(), 17, "no write is lost");
}

#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
#[tokio::test(flavor = "multi_thread")]
async fn a_stream_lists_and_goes_on_with_the_changes_of_every_host() {
    let url = shared_nats().url();
    let (bucket, other) = (contacted(&url, "streams").await, contacted(&url, "streams").await);
    let mut stream = open(&bucket, NOW).await;
    assert_eq!(listed(&mut stream).await.0, [], "an empty list ends at once");
    let a = write(&other, creation("a")).await;
    let b = write(&other, creation("b")).await;
    let gone = written(&other, deletion("a")).await;
    assert_eq!(next(&mut stream).await, Delta::Put(Arc::clone(&a)));
    assert_eq!(next(&mut stream).await, Delta::Put(Arc::clone(&b)));
    let at = gone.at.unwrap();
    let Delta::Deleted { key: gone, last: LastState::Metadata(last), at: gone_at } = next(&mut stream).await else {
        panic!("the deletion tells the metadata")
    };
    assert_eq!((gone, last.uid(), last.revision(), gone_at), (key("a"), a.uid(), a.revision(), at));
    let mut second = open(&bucket, NOW).await;
    assert_eq!(listed(&mut second).await, (vec![Arc::clone(&b)], at));
    let later = write(&other, status("b", 1)).await;
    for stream in [&mut stream, &mut second] {
        assert_eq!(next(stream).await, Delta::Put(Arc::clone(&later)));
    }
    let mut after = open(&bucket, Start::After(at)).await;
    assert_eq!(next(&mut after).await, Delta::Put(later));
}

#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
#[tokio::test(flavor = "multi_thread")]
async fn a_list_of_an_exact_revision_shows_it_or_expires() {
    let bucket = contacted(&shared_nats().url(), "exact").await;
    let a = write(&bucket, creation("a")).await;
    let at = bucket.revision(&kind()).await.unwrap();
    let mut stream = open(&bucket, Start::Exactly(at)).await;
    assert_eq!(listed(&mut stream).await, (vec![a], at));
    let b = write(&bucket, creation("b")).await;
    assert_eq!(next(&mut stream).await, Delta::Put(b));
    let mut late = open(&bucket, Start::Exactly(at)).await;
    assert!(matches!(error_of(&mut late).await, Error::Expired { .. }));
    let future = Revision(at.0 + 1000);
    let refused = bucket.open(&kind(), View::Whole, Start::Exactly(future)).await.err();
    assert!(matches!(refused, Some(Error::FutureRevision { asked, .. }) if asked == future), "{refused:?}");
    let refused = bucket.open(&kind(), View::Whole, Start::After(future)).await.err();
    assert!(matches!(refused, Some(Error::Expired { .. })), "{refused:?}");
}

#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
#[tokio::test(flavor = "multi_thread")]
async fn a_quiet_kind_reaches_the_revision_that_somebody_asks_for() {
    let mut slow = settings(&shared_nats().url(), "quiet");
    slow.timings.heartbeat = Duration::from_secs(60);
    let bucket = bucket_of(slow);
    bucket.connect().await.unwrap();
    let mut stream = open(&bucket, NOW).await;
    listed(&mut stream).await;
    let gadget = json!({"apiVersion": "demo.dev/v1", "kind": "Gadget", "metadata": {"name": "a"}});
    let gadget = written(&bucket, Write::Create { document: gadget }).await;
    let revision = bucket.revision(&kind()).await.unwrap();
    assert_eq!(Some(revision), gadget.at);
    assert_eq!(soon(stream.next()).await, Ok(Delta::Bookmark(revision)), "long before the next heartbeat");
}

#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
#[tokio::test(flavor = "multi_thread")]
async fn a_list_is_whole_while_its_resources_are_written() {
    let url = shared_nats().url();
    let (bucket, writer) = (contacted(&url, "moving").await, contacted(&url, "moving").await);
    for at in 0..50 {
        write(&writer, creation(&format!("n{at}"))).await;
    }
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let writing = tokio::spawn(async move {
        let mut stopped = stopped;
        let mut at = 0;
        while stopped.try_recv().is_err() {
            at += 1;
            write(&writer, status(&format!("n{}", at % 50), at)).await;
        }
    });
    for _ in 0..20 {
        let page = bucket.list(&Query::all(kind())).await.unwrap();
        assert_eq!(page.items.len(), 50);
        assert!(page.items.iter().all(|resource| resource.revision() <= page.revision));
    }
    stop.send(()).unwrap();
    writing.await.unwrap();
}

#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
#[tokio::test(flavor = "multi_thread")]
async fn a_value_of_another_program_is_read_or_left_alone() {
    let url = shared_nats().url();
    let bucket = contacted(&url, "foreign").await;
    let mut stream = open(&bucket, NOW).await;
    listed(&mut stream).await;
    let put = async |value: String| {
        let subject = "$KV.foreign.r.demo=2Edev.Widget.default.x";
        admin(&url).await.publish(subject, value.into()).await.unwrap().await.unwrap();
    };
    put("no json".to_owned()).await;
    assert!(matches!(next(&mut stream).await, Delta::Unreadable { key: left_out, .. } if left_out == key("x")));
    for error in [
        bucket.get(&key("x")).await.err(),
        bucket.submit(deletion("x").into(), CachedState::Unknown).await.err(),
        bucket.submit(creation("x").into(), CachedState::Unknown).await.err(),
    ] {
        assert!(
            matches!(&error, Some(Error::Unavailable { reason }) if reason.contains("cannot be read")),
            "{error:?}"
        );
    }
    let mut document = widget("x");
    document["metadata"]["uid"] = json!("u");
    put(document.to_string()).await;
    assert!(matches!(next(&mut stream).await, Delta::Put(resource) if resource.uid() == "u"));
    assert_eq!(write(&bucket, status("x", 1)).await.uid(), "u");
}

#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
#[tokio::test(flavor = "multi_thread")]
async fn stores_with_two_prefixes_in_one_bucket_do_not_see_each_other() {
    let url = shared_nats().url();
    let with = async |prefix: &str| {
        let bucket = bucket_of(BucketSettings { prefix: prefix.to_owned(), ..settings(&url, "prefixes") });
        bucket.connect().await.unwrap();
        bucket
    };
    let (one, other) = (with("team-a").await, with("team-b").await);
    let mut seen = open(&other, NOW).await;
    listed(&mut seen).await;
    let first = write(&one, creation("a")).await;
    write(&one, creation("b")).await;
    assert!(matches!(other.get(&key("a")).await, Err(Error::NotFound { .. })));
    assert_eq!((other.kinds().await, one.kinds().await), (Ok(vec![]), Ok(vec![kind()])));
    // The name is free in the other store, whose watch skips all that was written before.
    let second = write(&other, creation("a")).await;
    assert_ne!(first.uid(), second.uid());
    assert_eq!(next(&mut seen).await, Delta::Put(Arc::clone(&second)));
    write(&one, deletion("a")).await;
    assert_eq!(listed(&mut open(&other, NOW).await).await.0, [second]);
    let left = listed(&mut open(&one, NOW).await).await.0;
    assert_eq!(left.iter().map(|resource| resource.key().name()).collect::<Vec<_>>(), ["b"]);
    let stream = admin(&url).await.get_stream_no_info("KV_prefixes").await.unwrap();
    let subject = "$KV.prefixes.team-b.r.demo=2Edev.Widget.default.a";
    assert!(stream.get_last_raw_message_by_subject(subject).await.is_ok(), "both are in one bucket");
}

#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
#[tokio::test(flavor = "multi_thread")]
async fn a_dry_run_and_a_generated_name_are_decided_here() {
    let bucket = contacted(&shared_nats().url(), "names").await;
    let trial = Request { dry_run: true, ..creation("a").into() };
    let trial = bucket.submit(trial, CachedState::Unknown).await.unwrap();
    assert_eq!((trial.response.change, trial.at), (Some(EventType::Added), None));
    assert!(bucket.get(&key("a")).await.is_err());
    let mut document = widget("");
    document["metadata"] = json!({"generateName": "a-", "namespace": "default"});
    let generated = write(&bucket, Write::Create { document }).await;
    assert!(generated.key().name().starts_with("a-"), "{}", generated.key());
    assert_eq!(bucket.kinds().await, Ok(vec![kind()]));
}

#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
#[tokio::test(flavor = "multi_thread")]
async fn hosts_on_one_bucket_see_their_own_writes_at_once_and_others_soon() {
    let url = shared_nats().url();
    let open = || homeostat_nats::open(settings(&url, "hosts"), Schemas::default(), Options::default()).unwrap();
    let (one, other) = (open(), open());
    let subscription = one.subscribe(&kind(), View::Whole);
    let page = soon(one.list(&Query::all(kind()))).await.unwrap();
    assert_eq!(page.items, []);
    let mut watch = one.watch(Scope::Kind(kind()), page.revision).await.unwrap();
    let a = one.write(creation("a")).await.unwrap().resource;
    assert_eq!(one.get(&key("a")).await, Ok(Arc::clone(&a)));
    assert_eq!(other.get(&key("a")).await, Ok(Arc::clone(&a)), "a kind without users is read from the server");
    let b = other.write(creation("b")).await.unwrap().resource;
    assert_eq!(event(&mut watch).await, (EventType::Added, a));
    assert_eq!(event(&mut watch).await, (EventType::Added, Arc::clone(&b)));
    other.write(deletion("a")).await.unwrap();
    assert_eq!(event(&mut watch).await.0, EventType::Deleted);
    assert_eq!(one.list(&Query::all(kind())).await.unwrap().items, [b]);
    assert_eq!(one.kinds().await, Ok(vec![kind()]));
    drop(subscription);
}

/// A watch of a far store can leave out a state that was overwritten, as `docs/stores.md` says. The bucket keeps
/// only the last state.
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
#[tokio::test(flavor = "multi_thread")]
async fn a_watch_tells_only_the_last_of_the_states_that_it_missed() {
    let (nats, bucket) = (shared_nats(), "overwritten");
    let proxy = Proxy::to(nats.port());
    let writer = contacted(&nats.url(), bucket).await;
    let first = write(&writer, creation("a")).await;
    let near = settings(&format!("nats://{}", proxy.address()), bucket);
    let store = homeostat_nats::open(near, Schemas::default(), Options::default()).unwrap();
    let _cached = store.subscribe(&kind(), View::Whole);
    let page = soon(store.list(&Query::all(kind()))).await.unwrap();
    assert_eq!(page.items, [Arc::clone(&first)]);
    let mut watch = soon(store.watch(Scope::Kind(kind()), page.revision)).await.unwrap();

    proxy.set(NetworkFault::Partition);
    let is_behind = || async {
        let cache = store.status().remove(0).caches.pop()?;
        matches!(cache.state, CacheState::Behind { .. }).then_some(())
    };
    eventually("the silence of the server to be noticed", is_behind).await;
    write(&writer, status("a", 1)).await;
    let last = write(&writer, status("a", 2)).await;
    proxy.set(NetworkFault::None);
    let told = soon(watch.next()).await.unwrap();
    assert_eq!((told.kind, told.resource, told.previous), (EventType::Modified, last, Some(first)));
    let second = write(&writer, creation("b")).await;
    assert_eq!(event(&mut watch).await, (EventType::Added, second), "the watch tells nothing else of the first one");
}
