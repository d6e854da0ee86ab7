//! Leases and fences in a bucket of NATS, against the real server: the machine of a lease with its requests, and
//! writes that the server refuses after their term.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_nats::HeaderMap;
use futures_util::future::join_all;
use homeostat_fleet::{AcquireCondition, Answer, Event, Identity, Observation, Request as LeaseRequest, Version};
use homeostat_nats::settings::Create;
use homeostat_nats::{Bucket, BucketSettings};
use homeostat_store::cached::{CachedState, Upstream as _};
use homeostat_store::{Error, Fence, LeaseRequests, Precondition, Request, Revision, Write};
use homeostat_testing::{eventually, soon};
use homeostat_tests::{Nats, NatsCluster, NetworkFault, Proxy, shared_nats};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::lease_host::{LONG, LeaseHost, NEW, TIMES, Terms, acquired, lease, over, take_turns};
use super::nats::{admin, bucket_of, contacted, creation, key, known, settings, status};

fn fenced(write: Write, fence: Option<Fence>) -> Request {
    Request { fence, ..write.into() }
}

/// Deletes the record of the lease of `web`, as a person does.
async fn delete_record(url: &str, bucket: &str) {
    let mut headers = HeaderMap::new();
    headers.insert("KV-Operation", "DEL");
    let subject = format!("$KV.{bucket}.m.lease.web.0-of-1");
    admin(url).await.publish_with_headers(subject, headers, "".into()).await.unwrap().await.unwrap();
}

#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
#[tokio::test(flavor = "multi_thread")]
async fn a_lease_passes_to_the_host_that_a_holder_names_and_after_a_crash_to_another() {
    let url = shared_nats().url();
    let (one, two) = (contacted(&url, "passed").await, contacted(&url, "passed").await);
    take_turns(&one, &two, async |_| ()).await;
}

#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
#[tokio::test(flavor = "multi_thread")]
async fn a_write_of_an_old_term_is_refused_although_its_revision_is_right() {
    let url = shared_nats().url();
    let (one, two) = (contacted(&url, "fenced").await, contacted(&url, "fenced").await);
    let (a, b) = (lease(&one, "web", "a_1"), lease(&two, "web", "b_1"));
    let (version, first) = acquired(&a, &NEW).await;
    let created = one.submit(fenced(creation("a"), a.fence(first)), CachedState::Unknown).await.unwrap();
    let resource = created.response.resource;
    assert_eq!(b.carry_out(&over(Version(version.0 - 1))).await, Ok(Answer::Conflict));
    let (_, second) = acquired(&b, &over(version)).await;
    assert!(second > first);
    let sent = one.counts().sent;
    let refused = one.submit(fenced(status("a", 1), a.fence(first)), known(&resource)).await;
    assert_eq!(refused.unwrap_err(), Error::Fenced { lease: "web".to_owned(), epoch: first.0 });
    assert_eq!(one.counts().sent, sent + 2, "the batch, and a look at the fence");
    let created = one.submit(fenced(creation("b"), a.fence(first)), CachedState::Unknown).await;
    assert!(matches!(created.unwrap_err(), Error::Fenced { .. }));
    assert_eq!(one.get(&key("a")).await, Ok(Arc::clone(&resource)), "nothing was written");
    let written = two.submit(fenced(status("a", 2), b.fence(second)), known(&resource)).await.unwrap();
    assert_eq!(written.response.resource.status(), &json!({"at": 2}));
    // The state of the resource, not the term, is the reason here: the write is decided again, and stored.
    let again = two.submit(fenced(status("a", 3), b.fence(second)), known(&resource)).await.unwrap();
    assert_eq!(again.response.resource.status(), &json!({"at": 3}));
    let precondition = Precondition { revision: Some(resource.revision()), ..Precondition::default() };
    let stale = Write::UpdateStatus { key: key("a"), status: json!({"at": 4}), precondition };
    let refused = two.submit(fenced(stale, b.fence(second)), known(&resource)).await.unwrap_err();
    assert!(matches!(refused, Error::Conflict { .. }), "{refused:?}");
}

#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
#[tokio::test(flavor = "multi_thread")]
async fn every_lane_refuses_the_writes_of_an_old_term() {
    // A bucket without replicas uses one lane alone.
    let cluster = NatsCluster::start();
    let bucket = on_three(&cluster, "lanes").await;
    let (a, b) = (lease(&bucket, "web", "a_1"), lease(&bucket, "web", "b_1"));
    let (version, first) = acquired(&a, &NEW).await;
    for number in 0..64 {
        let write = fenced(creation(&format!("before-{number}")), a.fence(first));
        bucket.submit(write, CachedState::Unknown).await.unwrap();
    }
    let (_, second) = acquired(&b, &over(version)).await;
    for number in 0..64 {
        let old = fenced(creation(&format!("after-{number}")), a.fence(first));
        assert!(matches!(bucket.submit(old, CachedState::Unknown).await, Err(Error::Fenced { .. })));
        let new = fenced(creation(&format!("after-{number}")), b.fence(second));
        bucket.submit(new, CachedState::Unknown).await.unwrap();
    }
}

#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
#[tokio::test(flavor = "multi_thread")]
async fn an_absent_record_is_acquired_only_over_the_fence_that_was_seen() {
    let url = shared_nats().url();
    let bucket = contacted(&url, "absent").await;
    let (a, b) = (lease(&bucket, "web", "a_1"), lease(&bucket, "web", "b_1"));
    let read = |lease: Arc<dyn LeaseRequests>| async move {
        match lease.carry_out(&LeaseRequest::Read).await.unwrap() {
            Answer::Found(observation) => observation,
            answer => panic!("{answer:?}"),
        }
    };
    assert_eq!(read(Arc::clone(&a)).await, Observation::Absent { fence: None });
    let (_, first) = acquired(&a, &NEW).await;
    delete_record(&url, "absent").await;
    let absent = Observation::Absent { fence: Some(first) };
    assert_eq!(read(Arc::clone(&b)).await, absent);
    let request = LeaseRequest::Acquire { expected: AcquireCondition::Absent { fence: Some(first) }, transitions: 0 };
    assert_eq!(b.carry_out(&NEW).await, Ok(Answer::Conflict), "there was a term");
    let (_, second) = acquired(&b, &request).await;
    assert!(second > first);
    assert_eq!(a.carry_out(&request).await, Ok(Answer::Conflict), "there is a record again");
    delete_record(&url, "absent").await;
    assert_eq!(a.carry_out(&request).await, Ok(Answer::Conflict), "two absences look alike but for the fence");
    let Observation::Absent { fence } = read(Arc::clone(&a)).await else { panic!("there is no record") };
    assert_eq!(fence, Some(second));
}

#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
#[tokio::test(flavor = "multi_thread")]
async fn a_record_of_another_program_is_left_alone() {
    let url = shared_nats().url();
    let bucket = contacted(&url, "strange").await;
    let a = lease(&bucket, "web", "a_1");
    let context = admin(&url).await;
    context.publish("$KV.strange.m.lease.web.0-of-1", "mine".into()).await.unwrap().await.unwrap();
    let error = a.carry_out(&LeaseRequest::Read).await.unwrap_err();
    assert!(error.to_string().contains("cannot be read"), "{error}");
    assert_eq!(a.carry_out(&NEW).await, Ok(Answer::Conflict));
}

#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
#[tokio::test(flavor = "multi_thread")]
async fn a_lost_answer_to_an_acquisition_ends_in_a_term_with_a_known_epoch() {
    let nats = Nats::start();
    let proxy = Proxy::to(nats.port());
    let (far, near) =
        (contacted(&format!("nats://{}", proxy.address()), "lost").await, contacted(&nats.url(), "lost").await);
    let a = lease(&far, "alone", "a_1");
    proxy.set(NetworkFault::CutAfter(0));
    let lost = a.carry_out(&NEW).await;
    assert!(matches!(lost, Err(Error::Unavailable { .. })), "{lost:?}");
    let found = eventually("a look at the record", || async { a.carry_out(&LeaseRequest::Read).await.ok() }).await;
    if let Answer::Found(Observation::Present(record)) = found {
        assert_eq!(record.holder, Some(Identity::new("a_1")));
        let (_, epoch) = acquired(&a, &over(record.version)).await;
        assert!(epoch > record.epoch);
    }
    let terms = Arc::new(Terms::default());
    for round in 0..5 {
        let controller = format!("web-{round}");
        let host = LeaseHost::start(&far, &controller, "a_1", TIMES, &terms);
        let look = lease(&near, &controller, "b_1");
        proxy.set(NetworkFault::CutAfter(0));
        host.wants().await;
        let epoch = host.holds().await;
        let Ok(Answer::Found(Observation::Present(record))) = look.carry_out(&LeaseRequest::Read).await else {
            panic!("there is a record")
        };
        assert_eq!((record.holder, record.epoch), (Some(Identity::new("a_1")), epoch));
        let fence = look.fence(epoch);
        near.submit(fenced(creation(&controller), fence), CachedState::Unknown).await.unwrap();
        proxy.set(NetworkFault::None);
        drop(host);
    }
}

#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
#[tokio::test(flavor = "multi_thread")]
async fn a_fenced_write_whose_answer_was_lost_is_found_by_its_id() {
    let nats = Nats::start();
    let proxy = Proxy::to(nats.port());
    let bucket = contacted(&format!("nats://{}", proxy.address()), "cut").await;
    let a = lease(&bucket, "web", "a_1");
    let (_, epoch) = acquired(&a, &NEW).await;
    let created = bucket.submit(fenced(creation("a"), a.fence(epoch)), CachedState::Unknown).await.unwrap();
    let mut resource = created.response.resource;
    for at in 1..=10 {
        proxy.set(NetworkFault::CutAfter(0));
        let write = fenced(status("a", at), a.fence(epoch));
        let next = soon(bucket.submit(write, known(&resource))).await.unwrap().response.resource;
        assert_eq!(next.status(), &json!({"at": at}));
        assert_eq!(next.revision().0, resource.revision().0 + 2, "the check and the value were stored once");
        resource = next;
    }
}

#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
#[tokio::test(flavor = "multi_thread")]
async fn a_term_goes_on_when_the_server_is_killed_and_started_within_it() {
    let nats = Nats::start();
    let (one, two) = (contacted(&nats.url(), "killed").await, contacted(&nats.url(), "killed").await);
    let terms = Arc::new(Terms::default());
    let a = LeaseHost::start(&one, "web", "a_1", LONG, &terms);
    let b = LeaseHost::start(&two, "web", "b_1", LONG, &terms);
    a.wants().await;
    let epoch = a.holds().await;
    b.wants().await;
    nats.server().kill();
    nats.server().start();
    eventually("a connection", || async { two.connect().await.ok() }).await;
    let look = lease(&two, "web", "c_1");
    let version = || async {
        match look.carry_out(&LeaseRequest::Read).await {
            Ok(Answer::Found(Observation::Present(record))) if record.epoch == epoch => Some(record.version),
            _ => None,
        }
    };
    let before = eventually("the record", version).await;
    eventually("a renewal", || async { version().await.filter(|version| *version > before) }).await;
    assert_eq!(a.holds().await, epoch);
    let write = || async { one.submit(fenced(creation("a"), look.fence(epoch)), CachedState::Unknown).await.ok() };
    eventually("a write of the term", write).await;
    assert_eq!(terms.check().len(), 1);
}

#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_server_lets_no_two_hosts_work() {
    let nats = Nats::start();
    let (one, two) = (contacted(&nats.url(), "frozen").await, contacted(&nats.url(), "frozen").await);
    let terms = Arc::new(Terms::default());
    let a = LeaseHost::start(&one, "web", "a_1", TIMES, &terms);
    let b = LeaseHost::start(&two, "web", "b_1", TIMES, &terms);
    a.wants().await;
    let first = a.holds().await;
    b.wants().await;
    nats.server().freeze();
    a.has_lost().await;
    nats.server().thaw();
    let either = eventually("a term", || async {
        let (a, b) = (a.epoch(), b.epoch());
        a.or(b)
    });
    assert!(either.await > first);
    terms.check();
}

/// Returns a bucket of three replicas.
pub(super) async fn on_three(cluster: &NatsCluster, bucket: &str) -> Arc<Bucket> {
    let urls = cluster.urls();
    let create = Some(Create { replicas: 3, ..Create::default() });
    let bucket = bucket_of(BucketSettings { servers: urls.clone(), create, ..settings(&urls[0], bucket) });
    eventually("a bucket", || async { bucket.connect().await.ok() }).await;
    bucket
}

#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
#[tokio::test(flavor = "multi_thread")]
async fn no_two_terms_have_one_epoch_when_the_leader_of_three_servers_is_killed() {
    let cluster = NatsCluster::start();
    let (one, two) = (on_three(&cluster, "terms").await, on_three(&cluster, "terms").await);
    let terms = Arc::new(Terms::default());
    let a = LeaseHost::start(&one, "web", "a_1", TIMES, &terms);
    let b = LeaseHost::start(&two, "web", "b_1", TIMES, &terms);
    a.wants().await;
    b.wants().await;
    let holder = || async {
        let (a_holds, b_holds) = (a.epoch(), b.epoch());
        a_holds.map(|epoch| (&a, &one, epoch)).or(b_holds.map(|epoch| (&b, &two, epoch)))
    };
    for round in 0..3 {
        let (host, _, before) = eventually("a holder", holder).await;
        host.send(Event::Release { preferred_holder: None }).await;
        let leader = eventually("a leader", || async {
            let stream = admin(&cluster.urls()[round % 3]).await.get_stream("KV_terms").await.ok()?;
            stream.cached_info().clone().cluster?.leader
        });
        let leader = cluster.server(&leader.await).server();
        leader.kill();
        let later = || async { holder().await.filter(|(.., epoch)| *epoch > before) };
        eventually("a later term", later).await;
        leader.start();
        let written = eventually("a write of the present term", || async {
            let (_, bucket, epoch) = holder().await?;
            let write = fenced(creation(&format!("r-{round}")), lease(bucket, "web", "c_1").fence(epoch));
            match bucket.submit(write, CachedState::Unknown).await {
                Err(Error::AlreadyExists { current, .. }) => Some(current),
                answer => answer.ok().map(|answer| answer.response.resource.revision()),
            }
        });
        assert!(written.await > Revision(before.0));
    }
    assert!(terms.check().len() >= 4);
}

#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
#[tokio::test(flavor = "multi_thread")]
async fn many_writers_of_one_lease_do_not_disturb_each_other_on_three_replicas() {
    let cluster = NatsCluster::start();
    let bucket = on_three(&cluster, "many").await;
    let a = lease(&bucket, "web", "a_1");
    let (_, epoch) = acquired(&a, &NEW).await;
    let mut writers = JoinSet::new();
    for writer in 0..64 {
        let (bucket, fence) = (Arc::clone(&bucket), a.fence(epoch));
        writers.spawn(async move {
            for number in 0..4 {
                let write = fenced(creation(&format!("w-{writer}-{number}")), fence.clone());
                bucket.submit(write, CachedState::Unknown).await.unwrap();
            }
        });
    }
    soon(writers.join_all()).await;
    let refusals = bucket.counts().retried;
    // A server that was busy may have answered late.
    assert!(refusals <= 8, "{refusals} of 256 writes were sent again");
}

#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
#[tokio::test(flavor = "multi_thread")]
async fn waiting_writes_of_a_lease_are_one_batch_and_a_refused_one_refuses_no_other() {
    let bucket = contacted(&shared_nats().url(), "together").await;
    let (a, b) = (lease(&bucket, "web", "a_1"), lease(&bucket, "web", "b_1"));
    let (version, first) = acquired(&a, &NEW).await;
    bucket.submit(fenced(creation("second-7"), a.fence(first)), CachedState::Unknown).await.unwrap();
    // The state in a cache that has not heard of any of the resources.
    let none = CachedState::Known { resource: None, at: Revision::ZERO };
    let all_at_once = async |round: &str, fence: Option<Fence>| {
        let writes = (0..64).map(|number| {
            let write = fenced(creation(&format!("{round}-{number}")), fence.clone());
            bucket.submit(write, none.clone())
        });
        soon(join_all(writes)).await
    };
    let sent = bucket.counts().sent;
    let mut revisions = BTreeSet::new();
    for (number, stored) in all_at_once("first", a.fence(first)).await.into_iter().enumerate() {
        let stored = stored.unwrap().response.resource;
        assert_eq!(bucket.get(&key(&format!("first-{number}"))).await, Ok(Arc::clone(&stored)));
        revisions.insert(stored.revision());
    }
    assert_eq!(revisions.len(), 64);
    let (first_revision, last_revision) = (revisions.first().unwrap().0, revisions.last().unwrap().0);
    assert!(last_revision - first_revision < 96, "most writes had no check of their own: {revisions:?}");
    // The reads of this test are requests too.
    let batches = bucket.counts().sent - sent - 64;
    assert!(batches < 32, "{batches} batches for 64 writes");

    for (number, stored) in all_at_once("second", a.fence(first)).await.into_iter().enumerate() {
        match stored {
            Err(Error::AlreadyExists { .. }) if number == 7 => {}
            stored => assert!(stored.is_ok() && number != 7, "{number}: {stored:?}"),
        }
    }

    acquired(&b, &over(version)).await;
    for stored in all_at_once("third", a.fence(first)).await {
        assert!(matches!(stored, Err(Error::Fenced { .. })), "{stored:?}");
    }
}

#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
#[tokio::test(flavor = "multi_thread")]
async fn a_writer_that_goes_away_takes_no_other_write_with_it() {
    let bucket = contacted(&shared_nats().url(), "gone").await;
    let a = lease(&bucket, "web", "a_1");
    let (_, epoch) = acquired(&a, &NEW).await;
    for round in 0..16 {
        let write = |number: usize| {
            let write = fenced(creation(&format!("{round}-{number}")), a.fence(epoch));
            bucket.submit(write, CachedState::Known { resource: None, at: Revision::ZERO })
        };
        let others = join_all((1..16).map(write));
        // It is dropped when it has waited so often: also while it sends the writes of the others.
        let leaves = async {
            let mut gone = std::pin::pin!(write(0));
            for _ in 0..round {
                if futures_util::poll!(gone.as_mut()).is_ready() {
                    break;
                }
                tokio::task::yield_now().await;
            }
        };
        let ((), stored) = soon(futures_util::future::join(leaves, others)).await;
        for stored in stored {
            let resource = stored.unwrap().response.resource;
            assert_eq!(bucket.get(resource.key()).await, Ok(Arc::clone(&resource)));
        }
    }
}

#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
#[tokio::test(flavor = "multi_thread")]
async fn a_value_that_the_server_refuses_takes_no_other_of_its_batch_with_it() {
    let url = shared_nats().url();
    let bucket = contacted(&url, "sizes").await;
    let client = async_nats::connect(&url).await.unwrap();
    let ask = async |verb: &str, body: String| -> Value {
        let answer = client.request(format!("$JS.API.STREAM.{verb}.KV_sizes"), body.into()).await.unwrap();
        serde_json::from_slice(&answer.payload).unwrap()
    };
    let mut config = ask("INFO", String::new()).await["config"].take();
    config["max_msg_size"] = (128 << 10).into();
    assert_eq!(ask("UPDATE", config.to_string()).await["config"]["max_msg_size"], 128 << 10);
    let a = lease(&bucket, "web", "a_1");
    let (_, epoch) = acquired(&a, &NEW).await;
    let writes = (0..32).map(|number| {
        let mut write = creation(&format!("w-{number}"));
        if let (Write::Create { document }, 7) = (&mut write, number) {
            document["spec"]["text"] = "x".repeat(200 << 10).into();
        }
        bucket.submit(fenced(write, a.fence(epoch)), CachedState::Known { resource: None, at: Revision::ZERO })
    });
    for (number, stored) in soon(join_all(writes)).await.into_iter().enumerate() {
        match stored {
            Err(Error::TooLarge { .. }) if number == 7 => {}
            stored => assert!(stored.is_ok() && number != 7, "{number}: {stored:?}"),
        }
    }
}
