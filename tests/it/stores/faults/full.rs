//! Servers without room for further values.

use async_nats::jetstream::{Context, stream};
use homeostat_tests::{NatsAccess, NatsOptions, NatsUser};

use super::super::nats::admin;
use super::*;

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
async fn a_store_in_nats_survives_a_bucket_that_is_full() {
    let nats = shared_nats();
    let proxy = Proxy::to(nats.port());
    let create = Create { bytes_max: Some(1 << 20), ..Create::default() };
    let hosts = Hosts::nats_with(nats, &proxy, create);
    let (other, stream) = (hosts.other.clone(), format!("KV_faults-{}", proxy.port()));
    survives(hosts, async |ledger: Arc<Ledger>| {
        // The smallest are smaller than what the writers write.
        for (length, name) in [(32 << 10, "large"), (512, "small"), (0, "f")] {
            let filler = |at: usize| {
                let metadata = json!({ "name": format!("{name}-{at}"), "namespace": "default" });
                let data = json!({ "text": "x".repeat(length) });
                json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data })
            };
            let mut at = 0;
            while other.write(Write::Create { document: filler(at) }).await.is_ok() {
                at += 1;
                assert!(at < 200, "the bucket has a bound");
            }
        }
        ledger.fails().await;
        let streams = admin(&nats.url()).await;
        let config = streams.get_stream(&stream).await.unwrap().cached_info().config.clone();
        let config = async_nats::jetstream::stream::Config { max_bytes: 8 << 20, ..config };
        streams.update_stream(config).await.unwrap();
    })
    .await;
}

/// Fills a stream until its server takes no message any more, not even one that is smaller than any value of a store.
async fn fill(streams: &Context, subject: &str) {
    for length in [64 << 10, 1 << 10, 0] {
        let mut count = 0;
        while let Ok(sent) = streams.publish(subject.to_owned(), vec![b'x'; length].into()).await {
            if sent.await.is_err() {
                break;
            }
            count += 1;
            assert!(count < 2000, "there is a bound");
        }
    }
}

/// Fills what another stream shares with the bucket of a store while the store writes. `full` is what the store says of
/// it.
async fn survives_another_stream(nats: &Nats, streams: Context, login: Option<Login>, full: &str) {
    let proxy = Proxy::to(nats.port());
    let logins = [(); 2].map(|()| (login.clone(), Tls::default()));
    let hosts = Hosts::nats_as(nats, &proxy, Create::default(), logins);
    let (near, other) = (Arc::clone(&hosts.near), Arc::clone(&hosts.other));
    let config = stream::Config { name: "other".to_owned(), subjects: vec!["other".to_owned()], ..Default::default() };
    streams.create_stream(config).await.unwrap();
    survives(hosts, async |ledger: Arc<Ledger>| {
        fill(&streams, "other").await;
        ledger.fails().await;
        let is_told = || async {
            match near.status().remove(0).availability {
                Availability::Unhealthy { reason } => Some(reason),
                _ => None,
            }
        };
        let reason = eventually("the store to refuse writes", is_told).await;
        assert!(reason.contains(full), "{reason}");
        // The first list of another host needs consumers.
        let _cached = other.subscribe(&kind(), View::Whole);
        let list = || async { other.list(&Query::all(kind())).await.ok() };
        let listed = eventually("another host to list", list).await.items;
        assert_eq!(listed.len(), WRITERS * RESOURCES);
        for resource in listed {
            soon(near.get_live(resource.key())).await.unwrap();
        }
        streams.get_stream("other").await.unwrap().purge().await.unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
async fn a_store_in_nats_survives_an_account_that_another_stream_fills() {
    let limited = json!({ "accounts": { "team": { "jetstream": { "max_file": 4 << 20 } } } });
    let nats = Nats::start_with(NatsOptions {
        access: NatsAccess::Passwords,
        users: vec![NatsUser::new("ann", "team")],
        settings: limited.as_object().unwrap().clone(),
        ..NatsOptions::default()
    });
    let password = "password-of-ann".to_owned();
    let options = async_nats::ConnectOptions::with_user_and_password("ann".to_owned(), password.clone());
    let streams = async_nats::jetstream::new(options.connect(nats.url()).await.unwrap());
    let login = Login::User { name: "ann".to_owned(), password: Arc::new(move || Ok(password.clone())) };
    survives_another_stream(&nats, streams, Some(login), "the account has no room").await;
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
async fn a_store_in_nats_survives_a_server_that_another_stream_fills() {
    let nats = Nats::start_with(NatsOptions { stored_bytes_max: Some(4 << 20), ..NatsOptions::default() });
    survives_another_stream(&nats, admin(&nats.url()).await, None, "the server has no room").await;
}
