//! What a store in a bucket does when its server fails, or cannot be used.

use std::time::Duration;

use futures_util::future::join_all;
use homeostat_nats::settings::Create;
use homeostat_nats::{Bucket, BucketSettings};
use homeostat_store::cached::{CachedState, Delta, Options, Start, Upstream as _};
use homeostat_store::schema::Schemas;
use homeostat_store::{Error, EventType, Query, Result, Scope, Store as _, View, Write};
use homeostat_testing::{eventually, soon};
use homeostat_tests::{Nats, NatsCluster, NetworkFault, Proxy, shared_nats};
use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpListener;

use super::nats::{
    NOW, admin, bucket_of, contacted, creation, deletion, error_of, event, key, kind, known, listed, next, open,
    settings, status, write,
};

/// The resources of a list that a replica lacks for a while.
const RESOURCES: usize = 200;

#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_when_the_server_is_killed() {
    let nats = Nats::start();
    let bucket = contacted(&nats.url(), "killed").await;
    let before = bucket.connect().await.unwrap();
    let a = write(&bucket, creation("a")).await;
    let mut stream = open(&bucket, NOW).await;
    let (found, at) = listed(&mut stream).await;
    assert_eq!(found, [a]);
    nats.server().kill();
    assert!(matches!(error_of(&mut stream).await, Error::Unavailable { .. }));
    let error = bucket.submit(status("a", 1).into(), CachedState::Unknown).await.unwrap_err();
    assert!(matches!(error, Error::Unavailable { .. }), "{error}");
    assert!(bucket.ping().await.is_err());
    nats.server().start();
    let after = eventually("a connection", || async { bucket.connect().await.ok() }).await;
    assert_eq!(before.id, after.id, "the content is the same");
    let mut stream = open(&bucket, Start::After(at)).await;
    let last = write(&bucket, status("a", 2)).await;
    assert_eq!(next(&mut stream).await, Delta::Put(last));
}

#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_server_is_noticed_and_an_unanswered_write_is_told() {
    let nats = Nats::start();
    let bucket = contacted(&nats.url(), "frozen").await;
    let first = write(&bucket, creation("a")).await;
    let mut stream = open(&bucket, NOW).await;
    listed(&mut stream).await;
    nats.server().freeze();
    let error = soon(bucket.submit(status("a", 1).into(), known(&first))).await.unwrap_err();
    assert!(error.to_string().contains("nobody can say whether it happened"), "{error}");
    let error = error_of(&mut stream).await;
    assert!(matches!(error, Error::Unavailable { .. }), "{error}");
    nats.server().thaw();
    eventually("a connection", || async { bucket.connect().await.ok() }).await;
    // Its outcome was open: it may be there by now, and is there once at most.
    let second =
        eventually("an answer", || async { bucket.submit(status("a", 2).into(), CachedState::Unknown).await.ok() });
    assert_eq!(second.await.response.resource.status(), &json!({"at": 2}));
}

#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
#[tokio::test(flavor = "multi_thread")]
async fn a_write_whose_answer_was_lost_is_found_by_its_id() {
    let nats = Nats::start();
    let proxy = Proxy::to(nats.port());
    let bucket = contacted(&format!("nats://{}", proxy.address()), "cut").await;
    let mut resource = write(&bucket, creation("a")).await;
    for at in 1..=10 {
        proxy.set(NetworkFault::CutAfter(0));
        let answer = soon(bucket.submit(status("a", at).into(), known(&resource))).await.unwrap();
        let next = answer.response.resource;
        assert_eq!(next.status(), &json!({"at": at}));
        assert_eq!(next.revision().0, resource.revision().0 + 1, "it was stored more than once");
        resource = next;
    }
}

#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
#[tokio::test(flavor = "multi_thread")]
async fn a_bucket_that_was_replaced_is_another_one() {
    let nats = Nats::start();
    let bucket = contacted(&nats.url(), "gone").await;
    let before = bucket.connect().await.unwrap();
    write(&bucket, creation("a")).await;
    let at = bucket.revision(&kind()).await.unwrap();
    let mut stream = open(&bucket, NOW).await;
    admin(&nats.url()).await.delete_stream("KV_gone").await.unwrap();
    assert!(matches!(error_of(&mut stream).await, Error::Unavailable { .. }));
    for answer in [
        bucket.connect().await.map(drop),
        bucket.get(&key("a")).await.map(drop),
        bucket.submit(creation("b").into(), CachedState::Unknown).await.map(drop),
    ] {
        assert!(matches!(answer, Err(Error::Unavailable { .. })), "a running host creates no bucket: {answer:?}");
    }
    let other = contacted(&nats.url(), "gone").await;
    for name in ["x", "y", "z"] {
        write(&other, creation(name)).await;
    }
    let refused = bucket.open(&kind(), View::Whole, Start::After(at)).await.err();
    assert!(matches!(refused, Some(Error::Expired { .. })), "{refused:?}");
    assert_ne!(bucket.connect().await.unwrap().id, before.id);
}

#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
#[tokio::test(flavor = "multi_thread")]
async fn a_full_bucket_says_so_until_a_write_succeeds() {
    let create = Some(Create { bytes_max: Some(4000), ..Create::default() });
    let bucket = bucket_of(BucketSettings { create, ..settings(&shared_nats().url(), "full") });
    bucket.connect().await.unwrap();
    write(&bucket, creation("first")).await;
    let mut names = 0..100;
    let error = loop {
        let name = format!("n{}", names.next().expect("the bucket has a bound"));
        if let Err(error) = bucket.submit(creation(&name).into(), CachedState::Unknown).await {
            break error;
        }
    };
    assert!(error.to_string().contains("the bucket is full"), "{error}");
    assert!(bucket.refuses_writes().is_some_and(|reason| reason.contains("full")));
    assert!(bucket.get(&key("first")).await.is_ok(), "reads go on");
    write(&bucket, deletion("first")).await;
    assert_eq!(bucket.refuses_writes(), None);
}

#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
#[tokio::test(flavor = "multi_thread")]
async fn a_bucket_whose_settings_lose_data_is_refused() {
    let url = shared_nats().url();
    let stream = async_nats::jetstream::stream::Config {
        name: "KV_aging".to_owned(),
        subjects: vec!["$KV.aging.>".to_owned()],
        max_age: Duration::from_secs(3600),
        ..Default::default()
    };
    admin(&url).await.create_stream(stream).await.unwrap();
    let bucket = bucket_of(settings(&url, "aging"));
    let error = bucket.connect().await.unwrap_err().to_string();
    for expected in ["no-ttl: ", "no-atomic: ", "max-age: ", "set `max_age` to 0"] {
        assert!(error.contains(expected), "{error}");
    }
    let missing = bucket_of(BucketSettings { create: None, ..settings(&url, "missing") });
    let error = missing.connect().await.unwrap_err().to_string();
    assert!(error.contains("there is no bucket \"missing\""), "{error}");
}

#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
#[tokio::test(flavor = "multi_thread")]
async fn a_store_reads_its_cache_while_the_server_is_away_and_goes_on_afterwards() {
    let nats = Nats::start();
    let store = homeostat_nats::open(settings(&nats.url(), "away"), Schemas::default(), Options::default()).unwrap();
    let subscription = store.subscribe(&kind(), View::Whole);
    let a = soon(store.write(creation("a"))).await.unwrap().resource;
    let page = soon(store.list(&Query::all(kind()))).await.unwrap();
    let mut watch = store.watch(Scope::Kind(kind()), page.revision).await.unwrap();
    nats.server().kill();
    // From now on the store sends no write. A list after a write without an answer would ask the server.
    eventually("an unhealthy store", || async { store.health().is_err().then_some(()) }).await;
    let error = store.write(status("a", 1)).await.unwrap_err();
    assert!(matches!(error, Error::Unavailable { .. }), "{error}");
    assert_eq!(store.list(&Query::all(kind())).await.unwrap().items, [a]);
    nats.server().start();
    let written = eventually("a write", || async { store.write(status("a", 2)).await.ok() }).await;
    assert_eq!(event(&mut watch).await, (EventType::Modified, written.resource));
    eventually("a healthy store", || async { store.health().ok() }).await;
    drop(subscription);
}

/// Answers one client as a server of this version and API level would, as far as the first contact goes.
async fn answer_as(version: &str, level: u64, stream: tokio::net::TcpStream) {
    let (read, mut write) = stream.into_split();
    let info =
        json!({"server_id": "x", "version": version, "headers": true, "jetstream": true, "max_payload": 1 << 20});
    write.write_all(format!("INFO {info}\r\n").as_bytes()).await.unwrap();
    let mut lines = BufReader::new(read).lines();
    let mut subscription = String::new();
    while let Ok(Some(line)) = lines.next_line().await {
        let words: Vec<&str> = line.split(' ').collect();
        let answer = match words[..] {
            ["PING"] => "PONG\r\n".to_owned(),
            ["SUB", _, sid] => {
                subscription = sid.to_owned();
                continue;
            }
            ["PUB", "$JS.API.INFO", reply, _] => {
                let account = json!({"api": {"level": level}}).to_string();
                format!("MSG {reply} {subscription} {}\r\n{account}\r\n", account.len())
            }
            _ => continue,
        };
        write.write_all(answer.as_bytes()).await.unwrap();
    }
}

#[tokio::test]
async fn an_older_server_is_refused() {
    for (version, level, expected) in [
        ("2.11.9", 1, "version: the server has version 2.11.9, which is too old"),
        ("2.12.0", 1, "api-level: JetStream has API level 1"),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("nats://{}", listener.local_addr().unwrap());
        let server = tokio::spawn(async move { answer_as(version, level, listener.accept().await.unwrap().0).await });
        let error = soon(bucket_of(settings(&url, "old")).connect()).await.unwrap_err().to_string();
        assert!(error.contains(expected) && error.contains("update the server"), "{error}");
        server.abort();
    }
}

#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
#[tokio::test(flavor = "multi_thread")]
async fn a_bucket_on_three_servers_survives_the_loss_of_its_leader() {
    let cluster = NatsCluster::start();
    let urls = cluster.urls();
    let create = Some(Create { replicas: 3, ..Create::default() });
    let bucket = bucket_of(BucketSettings { servers: urls.clone(), create, ..settings(&urls[0], "three") });
    eventually("a bucket", || async { bucket.connect().await.ok() }).await;
    write(&bucket, creation("a")).await;
    let at = bucket.revision(&kind()).await.unwrap();
    let info = admin(&urls[0]).await.get_stream("KV_three").await.unwrap().cached_info().clone();
    cluster.server(&info.cluster.unwrap().leader.unwrap()).server().kill();
    let mut last = None;
    for number in 1..=5 {
        let submit = || async { bucket.submit(status("a", number).into(), CachedState::Unknown).await.ok() };
        last = Some(eventually("a write", submit).await.response.resource);
    }
    let open = || async { bucket.open(&kind(), View::Whole, Start::After(at)).await.ok() };
    let mut stream = eventually("a stream", open).await;
    let mut seen = None;
    while seen != last {
        match next(&mut stream).await {
            Delta::Put(resource) => seen = Some(resource),
            delta => panic!("{delta:?}"),
        }
    }
}

/// Lists everything once.
async fn list(bucket: &Bucket) -> Result<usize> {
    let mut stream = bucket.open(&kind(), View::Whole, NOW).await?;
    let mut count = 0;
    loop {
        match stream.next().await? {
            Delta::Listed(_) => count += 1,
            Delta::ListEnd { .. } => return Ok(count),
            _ => {}
        }
    }
}

#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
#[tokio::test(flavor = "multi_thread")]
async fn a_list_of_a_replica_that_catches_up_lacks_nothing() {
    let cluster = NatsCluster::start();
    let urls = cluster.urls();
    let create = Some(Create { replicas: 3, ..Create::default() });
    let bucket = bucket_of(BucketSettings { servers: urls.clone(), create, ..settings(&urls[0], "behind") });
    eventually("a bucket", || async { bucket.connect().await.ok() }).await;
    let admin = admin(&urls[0]).await;
    let info = async || Some(admin.get_stream("KV_behind").await.ok()?.cached_info().clone());
    let info = eventually("what the cluster says of the bucket", info).await;
    let leader = info.cluster.unwrap().leader.unwrap();
    let follower = cluster.servers().iter().find(|nats| nats.name() != leader).unwrap().server();
    follower.kill();
    let text = "x".repeat(100_000);
    let written = (0..RESOURCES).map(async |number| {
        let document = json!({
            "apiVersion": kind().api_version(),
            "kind": kind().name,
            "metadata": {"name": format!("r{number}"), "namespace": "default"},
            "spec": {"text": text},
        });
        let create = || bucket.submit(Write::Create { document: document.clone() }.into(), CachedState::Unknown);
        let is_there = || async { matches!(create().await, Ok(_) | Err(Error::AlreadyExists { .. })).then_some(()) };
        eventually("a resource", is_there).await;
    });
    join_all(written).await;
    follower.spawn();
    // Each list has a consumer on one of the three servers.
    for _ in 0..30 {
        let found = eventually("a list", || async { list(&bucket).await.ok() }).await;
        assert_eq!(found, RESOURCES);
    }
    follower.wait_until_ready();
}
