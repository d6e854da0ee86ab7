use std::sync::Arc;
use std::time::Duration;

use homeostat_store::Kind;

use super::{Api, BucketSettings, Create, Credentials, ForeignBucket, StatusForm, StatusPlace, ValueForm};

fn valid() -> BucketSettings {
    BucketSettings { create: Some(Create::default()), ..BucketSettings::new("nats://127.0.0.1:4222", "homeostat") }
}

#[test]
fn the_settings_of_a_bucket_are_checked_by_name() {
    assert_eq!(valid().check(), Ok(()));
    type Change = fn(&mut BucketSettings);
    let wrong: [(&str, Change); 13] = [
        ("servers", |it| it.servers.clear()),
        ("bucket", |it| it.bucket.clear()),
        ("bucket", |it| it.bucket = "a.b".into()),
        ("prefix", |it| it.prefix = "a..b".into()),
        ("prefix", |it| it.prefix = "a.*".into()),
        ("domain", |it| it.api = Api::Domain("a.b".into())),
        ("apiPrefix", |it| it.api = Api::Prefix("$JS.>".into())),
        ("markers", |it| it.markers = Duration::from_millis(600_500)),
        ("markers", |it| it.markers = Duration::from_secs(599)),
        ("timings.heartbeat", |it| it.timings.heartbeat = Duration::from_millis(99)),
        ("create.replicas", |it| it.create = Some(Create { replicas: 6, ..Create::default() })),
        ("create.history", |it| it.create = Some(Create { history: 0, ..Create::default() })),
        ("create.bytesMax", |it| it.create = Some(Create { bytes_max: Some(0), ..Create::default() })),
    ];
    for (path, change) in wrong {
        let mut settings = valid();
        change(&mut settings);
        let error = settings.check().expect_err(path).to_string();
        assert!(error.starts_with(&format!("{path}: ")), "{path}: {error}");
    }
}

#[test]
fn a_server_with_a_password_in_its_address_is_refused_without_repeating_it() {
    for login in ["ann:hunter2", "hunter2", "ann%40team:hunter2"] {
        for server in [format!("nats://{login}@127.0.0.1:4222"), format!("{login}@127.0.0.1")] {
            let servers = vec!["nats://127.0.0.1:4223".to_owned(), server];
            let error = BucketSettings { servers, ..valid() }.check().expect_err(login).to_string();
            assert!(error.starts_with("servers: ") && error.contains("`credentials`"), "{error}");
            assert!(!error.contains("hunter2"), "{error}");
        }
    }
}

#[test]
fn the_settings_of_a_foreign_bucket_are_checked_by_name() {
    let foreign = || ForeignBucket {
        kind: Kind::new("kumori.systems", "v1", "V3Deployment"),
        namespaced: true,
        bucket: "deployments".into(),
        key: "{namespace}/{name}".into(),
        value: ValueForm::Spec,
        status: StatusPlace::Bucket {
            bucket: "statuses".into(),
            key: "{namespace}/{name}".into(),
            form: StatusForm::Bare,
        },
    };
    let check = |foreign: Vec<ForeignBucket>| BucketSettings { foreign, ..valid() }.check();
    assert_eq!(check(vec![foreign()]), Ok(()));
    let status = |bucket: &str, key: &str| StatusPlace::Bucket {
        bucket: bucket.into(),
        key: key.into(),
        form: StatusForm::Wrapped,
    };
    for (path, wrong) in [
        ("foreign[0].bucket", vec![ForeignBucket { bucket: "a.b".into(), ..foreign() }]),
        ("foreign[0].key", vec![ForeignBucket { key: "{name}".into(), ..foreign() }]),
        ("foreign[0].key", vec![ForeignBucket { namespaced: false, ..foreign() }]),
        ("foreign[0].status.bucket", vec![ForeignBucket { status: status("", "{namespace}/{name}"), ..foreign() }]),
        ("foreign[0].status.key", vec![ForeignBucket { status: status("a", "{name}"), ..foreign() }]),
        ("foreign[0].status.field", vec![ForeignBucket { status: StatusPlace::Field("status".into()), ..foreign() }]),
        ("foreign[1].kind", vec![foreign(), foreign()]),
    ] {
        let error = check(wrong).expect_err(path).to_string();
        assert!(error.starts_with(&format!("{path}: ")), "{path}: {error}");
    }
}

#[test]
fn requests_and_values_are_addressed_as_other_clients_do() {
    let prefixes = |api: Api| (api.prefix(), api.value_prefix());
    assert_eq!(prefixes(Api::Account), ("$JS.API".into(), String::new()));
    assert_eq!(prefixes(Api::Domain("hub".into())), ("$JS.hub.API".into(), "$JS.hub.API.".into()));
    assert_eq!(prefixes(Api::Prefix("other.API".into())), ("other.API".into(), "other.API.".into()));
}

#[test]
fn credentials_are_printed_without_their_secrets() {
    let secret = Arc::new(|| Ok("hunter2".to_owned()));
    let user = Credentials::User { name: "ann".into(), password: secret };
    assert_eq!(format!("{:?}", BucketSettings { credentials: Some(user), ..valid() }.credentials), "Some(User)");
}
