//! Logins, encryption and permissions of a store in a bucket.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use homeostat_nats::BucketSettings;
use homeostat_nats::settings::{Api, Credentials, SecretSource, Tls};
use homeostat_store::Error;
use homeostat_store::cached::{CachedState, Delta, Upstream as _};
use homeostat_testing::eventually;
use homeostat_tests::{Nats, NatsAccess, NatsOptions, NatsUser};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::nats::{NOW, bucket_of, creation, key, known, listed, next, open, settings, status, write};

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

/// Starts a server with more settings of its configuration.
fn configured(tls: bool, settings: Value) -> Nats {
    let settings = settings.as_object().unwrap().clone();
    Nats::start_with(NatsOptions { tls, settings, ..NatsOptions::default() })
}

/// Uses a bucket by these settings: a write, a read, a list and a change.
async fn uses(settings: BucketSettings) {
    let bucket = bucket_of(settings);
    bucket.connect().await.unwrap();
    let first = write(&bucket, creation("a")).await;
    let mut stream = open(&bucket, NOW).await;
    assert_eq!(listed(&mut stream).await.0, std::slice::from_ref(&first));
    let answer = bucket.submit(status("a", 1).into(), known(&first)).await.unwrap();
    assert_eq!(next(&mut stream).await, Delta::Put(answer.response.resource.clone()));
    assert_eq!(bucket.get(first.key()).await, Ok(answer.response.resource));
    bucket.close().await;
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
async fn a_token_is_a_login() {
    let nats = configured(false, json!({"authorization": {"token": "token-of-all"}}));
    uses(with(&nats, Credentials::Token(text("token-of-all\n".to_owned())))).await;
    let wrong = bucket_of(with(&nats, Credentials::Token(text("another".to_owned()))));
    assert!(wrong.connect().await.is_err());
}

/// Writes the authority of a server and a certificate of a client to files.
fn certified(nats: &Nats) -> (TempDir, Tls) {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let pair = nats.authority().client("ann", None, None);
    let certificate = (file("ann.pem", &pair.certificate), file("ann.key", &pair.key));
    let authority = file("authority.pem", &nats.authority().pem());
    (folder, Tls { authority: Some(authority), certificate: Some(certificate), ..Tls::default() })
}

#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_asks_for_certificates_accepts_one_of_its_authority() {
    let nats = configured(true, json!({"tls": {"verify": true}}));
    let (_folder, tls) = certified(&nats);
    uses(BucketSettings { tls: tls.clone(), ..settings(&nats.url(), "certified") }).await;
    let tls = Tls { certificate: None, ..tls };
    assert!(bucket_of(BucketSettings { tls, ..settings(&nats.url(), "certified") }).connect().await.is_err());
}

#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_begins_with_tls_is_used_if_the_settings_say_so() {
    let nats = configured(true, json!({"tls": {"handshake_first": true}}));
    let (_folder, tls) = certified(&nats);
    uses(BucketSettings { tls: Tls { first: true, ..tls.clone() }, ..settings(&nats.url(), "first") }).await;
    assert!(bucket_of(BucketSettings { tls, ..settings(&nats.url(), "first") }).connect().await.is_err());
}

#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
#[tokio::test(flavor = "multi_thread")]
async fn the_values_of_a_domain_go_where_its_api_leads() {
    let domain = json!({"jetstream": {"domain": "hub"}});
    let hub = Nats::start_with(NatsOptions {
        takes_leaf_nodes: true,
        settings: domain.as_object().unwrap().clone(),
        ..NatsOptions::default()
    });
    let leaf = hub.start_leaf();
    let of = |nats: &Nats, domain: &str| {
        let api = Api::Domain(domain.to_owned());
        BucketSettings { api, ..settings(&nats.url(), domain) }
    };
    eventually("the leaf node to reach the hub", || async { bucket_of(of(&leaf, "hub")).connect().await.ok() }).await;
    uses(of(&leaf, "hub")).await;
    let direct = bucket_of(of(&hub, "hub"));
    direct.connect().await.unwrap();
    assert!(direct.get(&key("a")).await.is_ok(), "the hub has the resource");
    assert!(bucket_of(of(&leaf, "other")).connect().await.is_err(), "no server has this domain");
}

#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
#[tokio::test(flavor = "multi_thread")]
async fn a_prefix_leads_to_the_jetstream_of_another_account() {
    let services = ["$JS.API.INFO", "$JS.API.STREAM.>", "$JS.API.CONSUMER.>", "$JS.FC.>", "$KV.>"];
    let exports = services.map(|subject| json!({"service": subject}));
    let import = |subject: &str, to: &str| json!({"service": {"account": "owner", "subject": subject}, "to": to});
    let imports = [
        import("$JS.API.INFO", "far.API.INFO"),
        import("$JS.API.STREAM.>", "far.API.STREAM.>"),
        import("$JS.API.CONSUMER.>", "far.API.CONSUMER.>"),
        import("$KV.>", "far.API.$KV.>"),
        import("$JS.FC.>", "$JS.FC.>"),
        json!({"stream": {"account": "owner", "subject": "_INBOX.>"}}),
    ];
    let users = |name: &str| json!([{"user": name, "password": format!("password-of-{name}")}]);
    let exports: Vec<Value> = exports.into_iter().chain([json!({"stream": "_INBOX.>"})]).collect();
    let nats = configured(
        false,
        json!({"accounts": {
            "owner": {"jetstream": "enabled", "users": users("bob"), "exports": exports},
            "guest": {"users": users("ann"), "imports": imports},
        }}),
    );
    let ann = Credentials::User { name: "ann".to_owned(), password: text("password-of-ann".to_owned()) };
    uses(BucketSettings { api: Api::Prefix("far.API".to_owned()), ..with(&nats, ann) }).await;
    let bob = Credentials::User { name: "bob".to_owned(), password: text("password-of-bob".to_owned()) };
    let owner = bucket_of(with(&nats, bob));
    owner.connect().await.unwrap();
    assert!(owner.get(&key("a")).await.is_ok(), "the account that owns it has the resource");
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
