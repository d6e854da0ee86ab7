use std::sync::{Arc, Mutex};

use async_trait::async_trait;

use super::super::{Headers, Secrets};
use crate::call::new_call;
use crate::effect::{Answer, Blob, Call, Effect, Effects, EntryPoint, HttpError, HttpRequest};
use crate::grants::Grants;

#[derive(Default)]
struct Inner(Mutex<Vec<Effect>>);

#[async_trait]
impl Effects for Inner {
    async fn perform(&self, _: &Call, effect: Effect) -> Answer {
        self.0.lock().unwrap().push(effect);
        Answer::Unit
    }
}

struct OneSecret;

#[async_trait]
impl Secrets for OneSecret {
    async fn get(&self, name: &str) -> Result<Blob, String> {
        if name == "token" {
            Ok(Blob::from("hunter2"))
        } else {
            Err("in /private/secrets there is no such file".into())
        }
    }
}

async fn send(secret: &str, url: &str) -> (Answer, Vec<Effect>) {
    let grants = format!(
        r#"{{"http": [{{"urls": ["https://a.example/*"], "headers": {{
            "Authorization": {{"secret": "{secret}"}}, "x-team": {{"value": "a"}}}}}}]}}"#
    );
    let grants: Grants = serde_json::from_str(&grants).unwrap();
    let inner = Arc::new(Inner::default());
    let layer = Headers::new(Arc::new(grants), Arc::new(OneSecret), Arc::clone(&inner));
    let request = HttpRequest {
        method: "GET".into(),
        url: url.into(),
        headers: vec![("authorization".into(), "forged".into()), ("accept".into(), "*/*".into())],
        body: "".into(),
        timeout_ms: None,
    };
    let answer = layer.perform(&new_call(&Arc::from("test"), EntryPoint::Reconcile, None), Effect::Http(request)).await;
    let sent = inner.0.lock().unwrap().clone();
    (answer, sent)
}

#[tokio::test]
async fn headers_of_the_grant_replace_those_of_the_guest() {
    let (_, sent) = send("token", "https://a.example/x").await;
    let [Effect::Http(request)] = sent.as_slice() else { panic!("{sent:?}") };
    let expected: Vec<(String, Blob)> = [("accept", "*/*"), ("authorization", "hunter2"), ("x-team", "a")]
        .map(|(name, value)| (name.to_owned(), Blob::from(value)))
        .into();
    assert_eq!(request.headers, expected);
}

#[tokio::test]
async fn secrets_are_sent_only_to_the_addresses_of_their_grant() {
    let (_, sent) = send("token", "https://b.example/x").await;
    assert!(!format!("{sent:?}").contains("hunter2"), "{sent:?}");
}

#[tokio::test]
async fn a_secret_that_is_missing_is_named_and_nothing_is_sent() {
    let (answer, sent) = send("other", "https://a.example/x").await;
    let Answer::Http(Err(HttpError::Unreachable(text))) = answer else { panic!("{answer:?}") };
    assert!(text.contains("other") && !text.contains("/private"), "{text}");
    assert!(sent.is_empty());
}
