//! Logins, encryption and permissions of a store in a bucket.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use homeostat_nats::BucketSettings;
use homeostat_nats::settings::{Credentials, SecretSource, Tls};
use homeostat_store::Error;
use homeostat_store::cached::{CachedState, Upstream as _};
use homeostat_testing::eventually;
use homeostat_tests::{Nats, NatsAccess, NatsOptions, NatsUser};
use parking_lot::Mutex;

use super::nats::{bucket_of, creation, settings};

fn server(access: NatsAccess) -> Nats {
    Nats::start_with(NatsOptions { access, users: vec![NatsUser::new("ann", "team")], ..NatsOptions::default() })
}

fn text(secret: String) -> SecretSource {
    Arc::new(move || Ok(secret.clone()))
}

fn file(path: PathBuf) -> SecretSource {
    Arc::new(move || std::fs::read_to_string(&path).map_err(|error| error.to_string()))
}

fn with(nats: &Nats, credentials: Credentials) -> BucketSettings {
    BucketSettings { credentials: Some(credentials), ..settings(&nats.url(), "login") }
}

#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
#[tokio::test(flavor = "multi_thread")]
async fn each_kind_of_login_is_used() {
    for access in [NatsAccess::Passwords, NatsAccess::Nkeys, NatsAccess::Credentials] {
        let nats = server(access);
        let credentials = match access {
            NatsAccess::Nkeys => Credentials::Nkey(text(nats.nkey_seed("ann"))),
            NatsAccess::Credentials => Credentials::File(file(nats.credentials("ann", None))),
            _ => Credentials::User { name: "ann".to_owned(), password: text("password-of-ann".to_owned()) },
        };
        let bucket = bucket_of(with(&nats, credentials));
        bucket.connect().await.unwrap();
        bucket.submit(creation("a").into(), CachedState::Unknown).await.unwrap();
        let nobody = bucket_of(settings(&nats.url(), "login"));
        let error = nobody.connect().await.unwrap_err();
        assert!(matches!(error, Error::Unavailable { .. }), "{access:?}: {error}");
    }
}

#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
#[tokio::test(flavor = "multi_thread")]
async fn expired_credentials_are_replaced_by_those_of_the_moment() {
    let nats = server(NatsAccess::Credentials);
    let path = Arc::new(Mutex::new(nats.credentials("ann", Some(Duration::from_secs(2)))));
    let source: SecretSource = {
        let path = Arc::clone(&path);
        Arc::new(move || std::fs::read_to_string(&*path.lock()).map_err(|error| error.to_string()))
    };
    let bucket = bucket_of(with(&nats, Credentials::File(source)));
    bucket.connect().await.unwrap();
    eventually("the end of the credentials", || async { bucket.ping().await.is_err().then_some(()) }).await;
    *path.lock() = nats.credentials("ann", None);
    eventually("a new login", || async { bucket.connect().await.ok() }).await;
    bucket.submit(creation("a").into(), CachedState::Unknown).await.unwrap();
}

#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
#[tokio::test(flavor = "multi_thread")]
async fn a_server_with_tls_is_used_if_its_authority_is_trusted() {
    let nats = Nats::start_with(NatsOptions { tls: true, ..NatsOptions::default() });
    let folder = tempfile::tempdir().unwrap();
    let authority = folder.path().join("authority.pem");
    std::fs::write(&authority, nats.authority().pem()).unwrap();
    let tls = Tls { authority: Some(authority), ..Tls::default() };
    let bucket = bucket_of(BucketSettings { tls, ..settings(&nats.url(), "tls") });
    bucket.connect().await.unwrap();
    bucket.submit(creation("a").into(), CachedState::Unknown).await.unwrap();
    assert!(bucket_of(settings(&nats.url(), "tls")).connect().await.is_err(), "nobody trusts its authority");
}

#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
#[tokio::test(flavor = "multi_thread")]
async fn a_subject_that_the_server_refuses_is_forbidden() {
    let user = NatsUser { publish: Some(vec!["$JS.API.>".to_owned()]), ..NatsUser::new("ann", "team") };
    let options = NatsOptions { access: NatsAccess::Passwords, users: vec![user], ..NatsOptions::default() };
    let nats = Nats::start_with(options);
    let ann = Credentials::User { name: "ann".to_owned(), password: text("password-of-ann".to_owned()) };
    let error = bucket_of(with(&nats, ann)).connect().await.unwrap_err();
    assert!(matches!(error, Error::Forbidden { .. }), "{error}");
}
