use serde_json::{Value, json};

use super::*;
use crate::cron::MissedRuns;
use crate::feeder_definition::{SignatureEncoding, WebhookAuth};
use crate::manifest::Spec;

fn feeders(feeders: &Value) -> Result<Vec<FeederDefinition>, Vec<String>> {
    let spec = json!({ "component": { "file": "a.wasm" }, "feeders": feeders });
    let checked = serde_json::from_value::<Spec>(spec).unwrap().check();
    checked.map(|spec| spec.feeders).map_err(|problems| problems.iter().map(ToString::to_string).collect())
}

/// Returns the only problem of a feeder with these fields.
fn refusal(fields: &Value) -> String {
    let mut feeder = json!({ "name": "a", "keys": "all" });
    feeder.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    let problems = feeders(&json!([feeder])).unwrap_err();
    assert_eq!(problems.len(), 1, "{problems:?}");
    problems.concat()
}

#[test]
fn a_schedule_is_read_with_its_time_zone_and_its_rule_for_missed_runs() {
    let cron =
        |cron: Value| match feeders(&json!([{ "name": "a", "keys": "all", "cron": cron }])).unwrap().remove(0).source {
            FeederSource::Cron(cron) => *cron,
            other => panic!("{other:?}"),
        };
    let read = cron(json!({ "schedule": "@daily", "timeZone": "Europe/Berlin", "startingDeadline": "10m" }));
    assert_eq!(read.schedule.as_str(), "0 0 * * * Europe/Berlin");
    assert_eq!(read.missed, MissedRuns::Once { deadline: Some(Duration::from_secs(600)) });
    assert_eq!(cron(json!({ "schedule": "@daily" })).missed, MissedRuns::Once { deadline: None });
    assert_eq!(cron(json!({ "schedule": "@daily", "missed": "skip" })).missed, MissedRuns::Skip);
}

#[test]
fn a_schedule_that_cannot_be_is_refused_under_its_field() {
    for (cron, reason) in [
        (json!({ "schedule": "nightly" }), "has 1 fields"),
        (json!({ "schedule": "@daily", "timeZone": "Mars" }), "not a time zone"),
        (json!({ "schedule": "@daily", "missed": "skip", "startingDeadline": "1h" }), "startingDeadline"),
        (json!({ "schedule": "@daily", "startingDeadline": "1s" }), "out of bounds"),
    ] {
        let refused = refusal(&json!({ "cron": cron }));
        assert!(refused.contains("spec.feeders[0].cron") && refused.contains(reason), "{refused}");
    }
    let two = refusal(&json!({ "cron": { "schedule": "@daily" }, "interval": { "every": "1m" } }));
    assert!(two.contains("exactly one source"), "{two}");
}

#[test]
fn a_webhook_has_the_defaults_of_github() {
    let webhook = |auth: Value| {
        let feeder = json!([{ "name": "a", "keys": { "name": "{/a}" }, "webhook": { "auth": auth } }]);
        match feeders(&feeder).unwrap().remove(0).source {
            FeederSource::Webhook(webhook) => *webhook,
            other => panic!("{other:?}"),
        }
    };
    let github = webhook(json!({ "hmac": { "secret": "github" } }));
    let (secret, header, prefix) = ("github".to_owned(), "x-hub-signature-256".to_owned(), "sha256=".to_owned());
    assert_eq!(github.auth, WebhookAuth::Hmac { secret, header, prefix, encoding: SignatureEncoding::Hex });
    assert_eq!((github.body_bytes_max, github.dedupe_header), (1 << 20, None));
    let bearer = webhook(json!({ "token": { "secret": "a" } }));
    let (header, prefix) = ("authorization".to_owned(), "Bearer ".to_owned());
    assert_eq!(bearer.auth, WebhookAuth::Token { secret: "a".to_owned(), header, prefix });
    let gitlab = webhook(json!({ "token": { "secret": "a", "header": "X-Gitlab-Token" } }));
    let (header, prefix) = ("x-gitlab-token".to_owned(), String::new());
    assert_eq!(gitlab.auth, WebhookAuth::Token { secret: "a".to_owned(), header, prefix });
}

/// Deny by default.
#[test]
fn a_webhook_without_authentication_is_refused() {
    let hmac = json!({ "secret": "a" });
    for (webhook, reason) in [
        (json!({ "auth": {} }), "exactly one of `hmac` and `token`"),
        (json!({ "auth": { "hmac": hmac, "token": hmac } }), "exactly one of `hmac` and `token`"),
        (json!({ "auth": { "hmac": { "secret": "../a" } } }), "not the name of a secret"),
        (json!({ "auth": { "hmac": { "secret": "a", "header": "a b" } } }), "not the name of a header"),
        (json!({ "auth": { "hmac": { "secret": "a", "prefix": "a\n" } } }), "printable"),
        (json!({ "auth": { "hmac": hmac }, "bodyMax": "3Mi" }), "out of bounds"),
        (json!({ "auth": { "hmac": hmac }, "inbox": true }), "keeps nothing of `keys: all`"),
    ] {
        let refused = refusal(&json!({ "webhook": webhook }));
        assert!(refused.contains("spec.feeders[0].webhook") && refused.contains(reason), "{refused}");
    }
    let without = json!({ "component": { "file": "a.wasm" }, "feeders": [{ "name": "a", "webhook": {} }] });
    assert!(serde_json::from_value::<Spec>(without).is_err());
}

#[test]
fn templates_are_only_for_sources_with_messages() {
    let refused = refusal(&json!({ "interval": { "every": "1m" }, "keys": { "name": "a" } }));
    assert!(refused.contains("has no messages"), "{refused}");
    let hook = json!({ "auth": { "hmac": { "secret": "a" } } });
    for keys in
        [json!({ "name": "{a" }), json!({ "name": "a", "namespace": "{x}" }), json!({ "name": "a", "each": "b" })]
    {
        let refused = refusal(&json!({ "webhook": hook, "keys": keys }));
        assert!(refused.contains("spec.feeders[0].keys"), "{refused}");
    }
}

/// A host with some of the shards could never acknowledge a message with keys of others.
#[test]
fn a_consumer_of_a_sharded_controller_makes_one_key_of_a_message() {
    let problems = |nats: Value, keys: Value, placement: Value| {
        let feeders = json!([{ "name": "a", "nats": nats, "keys": keys }]);
        let spec = json!({ "component": { "file": "a.wasm" }, "feeders": feeders, "placement": placement });
        serde_json::from_value::<Spec>(spec).unwrap().check().err().map_or(0, |problems| problems.len())
    };
    let (one, several) = (json!({ "name": "{subject.2}" }), json!({ "each": "/items", "name": "{/name}" }));
    let consumer = json!({ "store": "bus", "stream": "ORDERS", "consumer": "web" });
    let subject = json!({ "store": "bus", "subject": "orders.*" });
    let sharded = json!({ "sharded": { "shards": 4 } });
    for (nats, keys, placement, expected) in [
        (&consumer, &one, &sharded, 0),
        (&consumer, &several, &sharded, 1),
        (&consumer, &json!("all"), &sharded, 1),
        (&consumer, &json!([{ "name": "a" }, { "name": "b" }]), &sharded, 1),
        (&consumer, &json!([{ "name": "a" }]), &sharded, 0),
        (&consumer, &several, &json!("singleton"), 0),
        (&subject, &several, &sharded, 0),
    ] {
        assert_eq!(problems(nats.clone(), keys.clone(), placement.clone()), expected, "{nats} {keys} {placement}");
    }
}
