use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use homeostat_store::{Change, Key, Kind, Precondition, Propagation, Query, Selector, View, Write};
use serde_json::json;

use super::Granted;
use crate::call::new_call;
use crate::effect::{
    Answer, Call, Effect, Effects, EntryPoint, HttpError, HttpRequest, PageData, ResourceData, StoreError,
};
use crate::grants::Grants;

mod observed;
mod over_store;
mod roles;

/// Answers a list with one item in each of two namespaces, and all other effects with `Answer::Unit`.
#[derive(Default)]
struct Inner(Mutex<Vec<Effect>>);

#[async_trait]
impl Effects for Inner {
    async fn perform(&self, _: &Call, effect: Effect) -> Answer {
        let listed = matches!(effect, Effect::List { .. });
        self.0.lock().unwrap().push(effect);
        if !listed {
            return Answer::Unit;
        }
        let item = |namespace: &str| ResourceData {
            key: Key::new(pod(), namespace, "a"),
            uid: String::new(),
            revision: "1".into(),
            generation: 1,
            json: String::new(),
        };
        Answer::Page(Ok(PageData { items: vec![item("default"), item("team-a")], revision: "1".into(), next: None }))
    }
}

fn pod() -> Kind {
    Kind::new("", "v1", "Pod")
}

fn key(namespace: &str) -> Key {
    Key::new(pod(), namespace, "a")
}

fn document(namespace: &str) -> serde_json::Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": namespace}})
}

async fn perform(grants: &str, effect: Effect) -> (Answer, usize) {
    let grants: Grants = serde_json::from_str(grants).unwrap();
    let inner = Arc::new(Inner::default());
    let granted = Granted::new(Arc::new(grants), Arc::clone(&inner));
    let answer = granted.perform(&new_call(&Arc::from("test"), EntryPoint::Reconcile, None), effect).await;
    let passed = inner.0.lock().unwrap().len();
    (answer, passed)
}

fn of_every_verb(namespace: &str) -> Vec<(&'static str, Effect)> {
    let precondition = Precondition::default;
    let document = || document(namespace);
    let key = || key(namespace);
    let selector = Selector { namespace: Some(namespace.to_owned()), ..Selector::default() };
    let query = Query { selector: selector.clone(), ..Query::all(pod()) };
    let change = Change::Merge(json!({}));
    vec![
        ("get", Effect::Get { key: key(), view: View::Whole, live: false }),
        ("get", Effect::Get { key: key(), view: View::Whole, live: true }),
        ("list", Effect::List { query: query.clone(), view: View::Whole }),
        ("list", Effect::List { query: Query { live: true, ..query }, view: View::Whole }),
        ("watch", Effect::Follow { target: key() }),
        ("watch", Effect::FollowAll { kind: pod(), selector }),
        (
            "enqueue",
            Effect::Enqueue { key: key(), after_ms: 0, priority: crate::effect::QueuePriority::Normal, hold: false },
        ),
        ("create", Effect::Write(Write::Create { document: document() })),
        ("update", Effect::Write(Write::Update { document: document(), precondition: precondition() })),
        (
            "update-status",
            Effect::Write(Write::UpdateStatus { key: key(), status: json!({}), precondition: precondition() }),
        ),
        ("patch", Effect::Write(Write::Patch { key: key(), change, precondition: precondition() })),
        ("apply", Effect::Write(Write::Apply { document: document(), manager: "test".into(), force: false })),
        (
            "delete",
            Effect::Write(Write::Delete {
                key: key(),
                precondition: precondition(),
                propagation: Propagation::Background,
                grace_seconds: None,
            }),
        ),
    ]
}

fn forbidden(answer: &Answer) -> Option<&str> {
    match answer {
        Answer::Resource(Err(StoreError::Forbidden(text)))
        | Answer::Page(Err(StoreError::Forbidden(text)))
        | Answer::Written(Err(StoreError::Forbidden(text)))
        | Answer::Done(Err(StoreError::Forbidden(text))) => Some(text),
        _ => None,
    }
}

#[tokio::test]
async fn each_verb_needs_its_own_grant() {
    for (verb, effect) in of_every_verb("default") {
        let own = format!(r#"{{"resources": [{{"kinds": ["Pod"], "verbs": ["{verb}"], "namespaces": ["default"]}}]}}"#);
        let (answer, passed) = perform(&own, effect.clone()).await;
        assert_eq!((forbidden(&answer), passed), (None, 1), "{verb}");
        for (other, _) in of_every_verb("default").iter().filter(|(other, _)| *other != verb) {
            let other = own.replace(&format!("\"{verb}\""), &format!("\"{other}\""));
            let (answer, passed) = perform(&other, effect.clone()).await;
            assert!(forbidden(&answer).is_some_and(|text| text.contains(&format!("verbs: [{verb}]"))), "{answer:?}");
            assert_eq!(passed, 0, "{verb} was performed with {other}");
        }
    }
}

#[tokio::test]
async fn another_namespace_is_refused_for_every_verb() {
    for (verb, effect) in of_every_verb("other") {
        let own = r#"{"resources": [{"kinds": ["*"], "verbs": ["*"], "namespaces": ["default"]}]}"#;
        let (answer, passed) = perform(own, effect).await;
        assert!(forbidden(&answer).is_some() && passed == 0, "{verb}: {answer:?}");
    }
}

#[tokio::test]
async fn grants_are_checked_for_the_kind_that_the_document_names() {
    let grants = r#"{"resources": [{"kinds": ["Pod"], "verbs": ["*"]}]}"#;
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a", "namespace": "default"}});
    let (answer, passed) = perform(grants, Effect::Write(Write::Create { document: secret })).await;
    assert!(forbidden(&answer).is_some_and(|text| text.contains("Secret")), "{answer:?}");
    assert_eq!(passed, 0);
}

#[tokio::test]
async fn a_document_without_a_kind_is_refused() {
    let grants = r#"{"resources": [{"kinds": ["*"], "verbs": ["*"]}]}"#;
    let (answer, passed) = perform(grants, Effect::Write(Write::Create { document: json!({"kind": 7}) })).await;
    assert!(matches!(answer, Answer::Written(Err(StoreError::Invalid(_)))), "{answer:?}");
    assert_eq!(passed, 0);
}

#[tokio::test]
async fn a_list_of_all_namespaces_has_the_granted_namespaces_only() {
    let grants = r#"{"resources": [{"kinds": ["Pod"], "verbs": ["list"], "namespaces": ["team-*"]}]}"#;
    let (answer, _) = perform(grants, Effect::List { query: Query::all(pod()), view: View::Keys }).await;
    let Answer::Page(Ok(page)) = answer else { panic!("{answer:?}") };
    assert_eq!(page.items.iter().map(|item| item.key.namespace()).collect::<Vec<_>>(), ["team-a"]);
}

#[tokio::test]
async fn http_is_granted_by_address_and_method() {
    let request = |method: &str, url: &str| {
        let (method, url) = (method.to_owned(), url.to_owned());
        Effect::Http(HttpRequest { method, url, headers: Vec::new(), body: "".into(), timeout_ms: None })
    };
    let grants = r#"{"http": [{"urls": ["https://a.example/v1/*"]}]}"#;
    assert_eq!(perform(grants, request("GET", "https://a.example/v1/x")).await.1, 1);
    for refused in [request("POST", "https://a.example/v1/x"), request("GET", "https://a.example/v2/x")] {
        let (answer, passed) = perform(grants, refused).await;
        assert!(matches!(answer, Answer::Http(Err(HttpError::Forbidden(_)))), "{answer:?}");
        assert_eq!(passed, 0);
    }
}

#[tokio::test]
async fn effects_that_need_no_grant_pass() {
    for effect in [Effect::WallClock, Effect::Random { bytes: 1 }, Effect::Config { key: None }] {
        assert_eq!(perform("{}", effect).await.1, 1);
    }
}

#[tokio::test]
async fn a_selector_can_be_followed_where_its_kind_may_be_watched() {
    let follow = || Effect::FollowAll { kind: pod(), selector: Selector::default() };
    let within = r#"{"resources": [{"kinds": ["Pod"], "verbs": ["watch"], "namespaces": ["team-a"]}]}"#;
    assert_eq!(perform(within, follow()).await, (Answer::Unit, 1));
    let (answer, passed) = perform(r#"{"resources": [{"kinds": ["Pod"], "verbs": ["get", "list"]}]}"#, follow()).await;
    assert!(forbidden(&answer).is_some_and(|missing| missing.contains("verbs: [watch]")) && passed == 0, "{answer:?}");
}

#[tokio::test]
async fn following_a_selector_by_content_needs_the_grant_to_read() {
    let secret = Selector { fields: vec![("/spec/password".into(), "a".into())], ..Selector::default() };
    let owned = Selector { owner: Some("uid".into()), ..Selector::default() };
    for selector in [secret, owned] {
        let follow = || Effect::FollowAll { kind: pod(), selector: selector.clone() };
        let (answer, passed) = perform(r#"{"resources": [{"kinds": ["Pod"], "verbs": ["watch"]}]}"#, follow()).await;
        assert!(
            forbidden(&answer).is_some_and(|missing| missing.contains("verbs: [list]")) && passed == 0,
            "{answer:?}"
        );
        for verb in ["get", "list"] {
            let granted = format!(r#"{{"resources": [{{"kinds": ["Pod"], "verbs": ["watch", "{verb}"]}}]}}"#);
            assert_eq!(perform(&granted, follow()).await, (Answer::Unit, 1));
        }
    }
}
