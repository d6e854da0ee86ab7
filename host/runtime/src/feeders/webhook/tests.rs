use std::collections::BTreeMap;

use async_trait::async_trait;
use homeostat_fixtures::memory_store;
use homeostat_store::Key;
use homeostat_workqueue::{Priority, Queue};
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::*;
use crate::feeder_definition::{FeederDefinition, FeederSource};
use crate::feeder_tally::{FeederStatus, FeederTally};
use crate::feeders::SyncBarrier;
use crate::feeders::tests::{apply, intake_of, key, next};
use crate::message_keys::{MessageKeys, Pointer, Template};

const SECRET: &[u8] = b"It's a Secret to Everybody";

struct OneSecret;

#[async_trait]
impl Secrets for OneSecret {
    async fn get(&self, name: &str) -> Result<Blob, String> {
        match name {
            "github" => Ok(Blob::from(SECRET)),
            "empty" => Ok(Blob::default()),
            other => Err(format!("there is no {other}")),
        }
    }
}

fn by_hmac(secret: &str, encoding: SignatureEncoding) -> WebhookAuth {
    let (header, prefix) = ("x-hub-signature-256".to_owned(), "sha256=".to_owned());
    WebhookAuth::Hmac { secret: secret.to_owned(), header, prefix, encoding }
}

fn by_token() -> WebhookAuth {
    WebhookAuth::Token { secret: "github".to_owned(), header: "authorization".to_owned(), prefix: "Bearer ".to_owned() }
}

fn templates(each: Option<&str>) -> FeederKeys {
    let template = |text| Template::parse(text, |_| false).unwrap();
    let each = each.map(|pointer| Pointer::parse(pointer).unwrap());
    let keys = MessageKeys { each, namespace: Some(template("default")), name: template("{/name}") };
    FeederKeys::OfMessage(Box::new(keys))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn signature(body: &str) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, SECRET);
    format!("sha256={}", hex(hmac::sign(&key, body.as_bytes()).as_ref()))
}

/// The leases of a fleet: by name of the key, the other host that holds its lease.
#[derive(Default)]
struct Holders(Mutex<BTreeMap<String, Option<OtherHost>>>);

impl Holders {
    fn set(&self, name: &str, holder: Option<&str>) {
        self.0.lock().insert(name.to_owned(), holder.map(other_host));
    }
}

fn other_host(name: &str) -> OtherHost {
    OtherHost { name: name.to_owned(), identity: format!("{name}-1"), address: None }
}

impl Audience for Holders {
    fn may_get(&self, _: &Key) -> bool {
        true
    }

    fn may_learn(&self, _: &Key, _: &Key, _: homeostat_component::Disclosure) -> bool {
        true
    }

    fn has(&self, key: &Key) -> bool {
        !self.0.lock().contains_key(key.name())
    }

    fn other_holder_of(&self, key: &Key) -> Option<OtherHost> {
        self.0.lock().get(key.name()).cloned().flatten()
    }

    fn other_holders(&self) -> Vec<OtherHost> {
        self.0.lock().values().flatten().cloned().collect()
    }
}

/// A running webhook and its queue.
struct FeederRun {
    queue: Queue<Key>,
    endpoint: WebhookEndpoint,
    audience: Arc<Holders>,
    tally: Arc<FeederTally>,
    task: JoinHandle<Result<(), FeederError>>,
}

impl FeederRun {
    async fn start(auth: WebhookAuth, keys: FeederKeys, keys_max: Option<u32>) -> Self {
        let webhook =
            Webhook { auth, body_bytes_max: 1024, dedupe_header: Some("x-github-delivery".to_owned()), inbox: false };
        let source = FeederSource::Webhook(Box::new(webhook.clone()));
        let definition =
            FeederDefinition { name: "push".into(), source, keys, delay: None, priority: Priority::NORMAL };
        let store = memory_store();
        for name in ["a", "b"] {
            apply(&*store, "App", name, json!({})).await;
        }
        let adder = KeyAdder { store, definition };
        let clock = WallClock::beginning(Timestamp::UNIX_EPOCH);
        let (kind, audience) = (key("a").kind().clone(), Arc::new(Holders::default()));
        let feeder =
            Arc::new(WebhookFeeder::new(webhook, adder, Arc::new(OneSecret), clock, kind, audience.clone(), None));
        let (queue, intake) = intake_of(&SyncBarrier::new(), keys_max);
        let tally = Arc::<FeederTally>::default();
        let intake = intake.counting(Some(tally.clone()));
        let runs = feeder.clone();
        let task = tokio::spawn(async move { runs.run(&intake).await });
        tokio::task::yield_now().await;
        Self { queue, endpoint: WebhookEndpoint(feeder), audience, tally, task }
    }

    async fn github(keys: FeederKeys, keys_max: Option<u32>) -> Self {
        Self::start(by_hmac("github", SignatureEncoding::Hex), keys, keys_max).await
    }

    async fn send(&self, body: &str, headers: &[(&str, &str)]) -> Result<Delivery, WebhookError> {
        self.send_from(false, body, headers).await
    }

    async fn send_from(
        &self,
        is_forwarded: bool,
        body: &str,
        headers: &[(&str, &str)],
    ) -> Result<Delivery, WebhookError> {
        let headers: BTreeMap<String, String> =
            headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let header = |name: &str| headers.get(name).cloned();
        self.endpoint.deliver(&WebhookRequest { header: &header, body: body.as_bytes(), is_forwarded }).await
    }

    async fn send_signed(&self, body: &Value) -> Result<Delivery, WebhookError> {
        let body = body.to_string();
        self.send(&body, &[("x-hub-signature-256", &signature(&body))]).await
    }

    fn status(&self) -> FeederStatus {
        self.tally.status("push", "webhook", true)
    }
}

fn added(keys: usize) -> Result<Delivery, WebhookError> {
    Ok(Delivery { keys: Some(keys), taken: (0..keys).collect(), ..Delivery::default() })
}

/// Source: the example of GitHub's manual, "Validating webhook deliveries".
#[tokio::test(start_paused = true)]
async fn a_signature_of_github_is_believed_as_it_is() {
    let webhook = FeederRun::github(FeederKeys::Listed(Vec::new()), None).await;
    let digits = "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
    let header = format!("sha256={digits}");
    assert_eq!(webhook.send("Hello, World!", &[("x-hub-signature-256", &header)]).await, added(0));
    let upper = format!("sha256={}", digits.to_uppercase());
    assert_eq!(webhook.send("Hello, World!", &[("x-hub-signature-256", &upper)]).await, added(0));
}

/// Deny by default.
#[tokio::test(start_paused = true)]
async fn a_request_without_the_proof_of_the_secret_adds_nothing() {
    let webhook = FeederRun::github(templates(None), None).await;
    let body = r#"{"name":"a"}"#;
    let good = signature(body);
    let cut = &good[..good.len() - 1];
    let other = signature(r#"{"name":"b"}"#);
    let bare = good.trim_start_matches("sha256=");
    for value in ["", "sha256=", "sha256=zz", "sha256=00", &other, cut, bare, "sha1=00"] {
        let refused = webhook.send(body, &[("x-hub-signature-256", value)]).await;
        assert_eq!(refused, Err(WebhookError::Unauthenticated), "{value:?}");
    }
    assert_eq!(webhook.send(body, &[]).await, Err(WebhookError::Unauthenticated));
    assert!(webhook.queue.is_empty());
    assert_eq!((webhook.status().denied, webhook.status().state), (9, "running"));
    assert_eq!(webhook.send(body, &[("x-hub-signature-256", &good)]).await, added(1));
    assert_eq!(next(&webhook.queue).await, key("a"));
}

#[tokio::test(start_paused = true)]
async fn a_base64_signature_and_a_token_are_believed_as_defined() {
    let body = r#"{"name":"a"}"#;
    let code = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, SECRET), body.as_bytes());
    let webhook = FeederRun::start(by_hmac("github", SignatureEncoding::Base64), templates(None), None).await;
    let header = format!("sha256={}", BASE64.encode(code));
    assert_eq!(webhook.send(body, &[("x-hub-signature-256", &header)]).await, added(1));
    let webhook = FeederRun::start(by_token(), templates(None), None).await;
    let token = format!("Bearer {}", std::str::from_utf8(SECRET).unwrap());
    assert_eq!(webhook.send(body, &[("authorization", &token)]).await, added(1));
    for wrong in ["Bearer ", "Bearer x", &token[..token.len() - 1], &token["Bearer ".len()..]] {
        assert_eq!(webhook.send(body, &[("authorization", wrong)]).await, Err(WebhookError::Unauthenticated));
    }
}

/// Every sender knows an empty secret.
#[tokio::test(start_paused = true)]
async fn a_missing_or_empty_secret_believes_nothing() {
    for name in ["empty", "missing"] {
        let webhook = FeederRun::start(by_hmac(name, SignatureEncoding::Hex), templates(None), None).await;
        let code = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, b""), b"{}");
        let header = format!("sha256={}", hex(code.as_ref()));
        assert_eq!(webhook.send("{}", &[("x-hub-signature-256", &header)]).await, Err(WebhookError::Unavailable));
    }
}

#[tokio::test(start_paused = true)]
async fn each_item_of_a_list_adds_one_key() {
    let webhook = FeederRun::github(templates(Some("/apps")), None).await;
    assert_eq!(webhook.send_signed(&json!({"apps": [{"name": "a"}, {"name": "b"}]})).await, added(2));
    assert_eq!((next(&webhook.queue).await, next(&webhook.queue).await), (key("a"), key("b")));
    let all = FeederRun::github(FeederKeys::All, None).await;
    assert_eq!(all.send_signed(&json!({})).await, Ok(Delivery::default()));
    assert_eq!((next(&all.queue).await, next(&all.queue).await), (key("a"), key("b")));
}

#[tokio::test(start_paused = true)]
async fn a_body_that_makes_no_key_is_refused_as_a_whole() {
    let webhook = FeederRun::github(templates(Some("")), None).await;
    for body in
        [json!([{"name": "a"}, {"name": "b/c"}]), json!([{"name": "a"}, {}]), json!({}), json!([{"name": ["a"]}])]
    {
        assert!(matches!(webhook.send_signed(&body).await, Err(WebhookError::BadRequest(_))), "{body}");
    }
    let header = signature("no JSON");
    let refused = webhook.send("no JSON", &[("x-hub-signature-256", &header)]).await;
    assert!(matches!(refused, Err(WebhookError::BadRequest(_))), "{refused:?}");
    assert!(webhook.queue.is_empty());
    assert_eq!(webhook.status().rejected, 5);
}

#[tokio::test(start_paused = true)]
async fn a_repeated_delivery_adds_nothing_unless_the_first_was_refused() {
    let webhook = FeederRun::github(templates(None), Some(1)).await;
    let deliver = async |name: &str, id: &str| {
        let body = json!({ "name": name }).to_string();
        webhook.send(&body, &[("x-hub-signature-256", &signature(&body)), ("x-github-delivery", id)]).await
    };
    let id = Some(xxh3_128(b"1"));
    assert_eq!(deliver("a", "1").await, added(1).map(|delivery| Delivery { id, ..delivery }));
    assert_eq!(deliver("b", "2").await, Err(WebhookError::Full));
    assert_eq!(next(&webhook.queue).await, key("a"));
    let again = deliver("a", "1").await.unwrap();
    assert_eq!((again.keys, again.is_duplicate), (Some(0), true));
    assert!(webhook.queue.is_empty());
    assert_eq!(deliver("b", "2").await.unwrap().taken, [0], "it was not accepted before");
    assert_eq!(next(&webhook.queue).await, key("b"));
}

#[test]
fn the_ids_of_deliveries_are_bounded() {
    let mut ids = DeliveryIds::default();
    (0..10 * DELIVERY_IDS_MAX as u128).for_each(|id| ids.insert(id));
    ids.insert(10 * DELIVERY_IDS_MAX as u128 - 1);
    assert_eq!((ids.known.len(), ids.order.len()), (DELIVERY_IDS_MAX, DELIVERY_IDS_MAX));
    assert!(ids.has(10 * DELIVERY_IDS_MAX as u128 - 1) && !ids.has(0));
}

/// The feeder ends when the host loses its lease, and when the manifest has it no longer.
#[tokio::test(start_paused = true)]
async fn a_webhook_whose_feeder_has_ended_takes_nothing() {
    let webhook = FeederRun::github(templates(None), None).await;
    webhook.task.abort();
    tokio::task::yield_now().await;
    assert_eq!(webhook.send_signed(&json!({"name": "a"})).await, Err(WebhookError::NotHolder));
}

#[tokio::test(start_paused = true)]
async fn a_request_names_the_other_hosts_that_hold_leases_of_its_keys() {
    let webhook = FeederRun::github(templates(Some("")), None).await;
    webhook.audience.set("b", Some("other"));
    webhook.audience.set("c", Some("third"));
    let body = json!([{"name": "a"}, {"name": "b"}, {"name": "c"}, {"name": "b"}]).to_string();
    let headers = [("x-hub-signature-256", &*signature(&body)), ("x-github-delivery", "1")];
    let delivery = webhook.send(&body, &headers).await.unwrap();
    assert_eq!((delivery.keys, &*delivery.taken), (Some(4), &[0][..]));
    assert_eq!(delivery.elsewhere, [other_host("other"), other_host("third")]);
    assert_eq!(next(&webhook.queue).await, key("a"));
    assert!(!webhook.send(&body, &headers).await.unwrap().is_duplicate, "the others have not taken their keys");
    webhook.endpoint.remember(&delivery);
    assert!(webhook.send(&body, &headers).await.unwrap().is_duplicate);
    // Another host asks for the keys of this one.
    let forwarded = webhook.send_from(true, &body, &headers[..1]).await.unwrap();
    assert_eq!((&*forwarded.taken, &*forwarded.elsewhere), (&[0][..], &[][..]));
}

/// A host that waits for its lease checks the request, so nobody without the secret makes it ask other hosts.
#[tokio::test(start_paused = true)]
async fn a_webhook_without_a_lease_believes_and_takes_nothing() {
    let webhook = FeederRun::github(templates(None), None).await;
    webhook.task.abort();
    tokio::task::yield_now().await;
    webhook.audience.set("a", Some("other"));
    let body = json!({"name": "a"}).to_string();
    let wrong = [("x-hub-signature-256", "sha256=00")];
    assert_eq!(webhook.send(&body, &wrong).await, Err(WebhookError::Unauthenticated));
    let delivery = webhook.send_signed(&json!({"name": "a"})).await.unwrap();
    assert_eq!((&*delivery.taken, delivery.elsewhere), (&[][..], vec![other_host("other")]));
    webhook.audience.set("b", None);
    assert_eq!(webhook.send_signed(&json!({"name": "b"})).await, Err(WebhookError::NotHolder), "nobody has it");
    assert!(webhook.queue.is_empty());
}
