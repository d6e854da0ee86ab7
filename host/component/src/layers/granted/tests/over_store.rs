//! The information that a guest can gain from a store in which it may read little.

use std::sync::Arc;

use homeostat_store::memory::MemoryStore;
use homeostat_store::{Change, Key, Kind, Options, Precondition, Query, Request, Store, View, Write};
use serde_json::{Value, json};

use super::*;
use crate::effect::{Effect, ResourceData, Severity, WriteData};

/// The secret that must not leak.
const SECRET: &str = "hunter2";

/// Performs effects on a store in memory, and records events.
struct StoreEffects {
    store: MemoryStore,
    events: Mutex<Vec<Effect>>,
}

#[async_trait]
impl Effects for StoreEffects {
    async fn perform(&self, _: &Call, effect: Effect) -> Answer {
        match effect {
            Effect::List { query, view } => Answer::Page(match self.store.list(&query).await {
                Ok(page) => Ok(PageData {
                    items: page.items.iter().map(|item| ResourceData::new(item, view)).collect(),
                    revision: page.revision.to_string(),
                    next: page.next,
                }),
                Err(error) => Err(error.into()),
            }),
            Effect::Write(write) => {
                let written = self.store.submit(Request { manager: "guest".into(), ..write.into() }).await;
                Answer::Written(match written {
                    Ok(written) => {
                        let resource = ResourceData::new(&written.resource, View::Whole);
                        Ok(WriteData { resource, change: written.change })
                    }
                    Err(error) => Err(error.into()),
                })
            }
            other => {
                self.events.lock().unwrap().push(other);
                Answer::Unit
            }
        }
    }
}

/// Grants these verbs on pods in the namespaces that begin with `team-`.
async fn over(verbs: &[&str], places: &[(&str, &str)]) -> (Granted<Arc<StoreEffects>>, Arc<StoreEffects>) {
    let store = MemoryStore::new(Options::default());
    for (namespace, name) in places {
        let metadata = json!({"name": name, "namespace": namespace, "labels": {"password": SECRET}});
        let document = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"password": SECRET}});
        store.write(Write::Apply { document, manager: "owner".into(), force: false }).await.unwrap();
    }
    let grants = json!({"resources": [{"kinds": ["Pod"], "verbs": verbs, "namespaces": ["team-*"]}]});
    let stored = Arc::new(StoreEffects { store, events: Mutex::default() });
    (Granted::new(Arc::new(serde_json::from_value(grants).unwrap()), stored.clone()), stored)
}

async fn ask(granted: &Granted<Arc<StoreEffects>>, effect: Effect) -> Answer {
    let own = Some(Key::new(Kind::new("", "v1", "Pod"), "team-a", "own"));
    granted.perform(&new_call(&Arc::from("guest"), EntryPoint::Reconcile, own), effect).await
}

/// Reads all pages of a list of all namespaces, and returns the names on each with its continuation.
async fn pages(granted: &Granted<Arc<StoreEffects>>, items_max: usize) -> Vec<(Vec<String>, Option<String>)> {
    let (mut pages, mut from) = (Vec::new(), None);
    loop {
        let query = Query { limit: Some(items_max), from: from.take(), ..Query::all(pod()) };
        let answer = ask(granted, Effect::List { query, view: View::Whole }).await;
        let Answer::Page(Ok(PageData { items, next, .. })) = answer else { panic!("{answer:?}") };
        let names = items.iter().map(|item| format!("{}/{}", item.key.namespace(), item.key.name())).collect();
        pages.push((names, next.clone()));
        let Some(next) = next else { return pages };
        from = Some(next);
    }
}

/// A continuation is derived from a key. Hidden keys in it, as text or as numbers, would be readable by its
/// holder.
fn readable(mark: &str) -> String {
    let digits = mark.rsplit('.').next().unwrap_or_default().as_bytes().to_vec();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    String::from_utf8_lossy(&digits.chunks(2).map(byte).collect::<Vec<u8>>()).into_owned()
}

/// A store without the hidden resources gives the same pages.
#[tokio::test]
async fn pages_of_a_list_reveal_nothing_about_ungranted_resources() {
    let visible = [("team-a", "one"), ("team-a", "two"), ("team-b", "three")];
    let hidden = ["a-hidden", "m-hidden", "team", "z-hidden"];
    let hidden: Vec<(&str, String)> = hidden
        .iter()
        .flat_map(|namespace| (0..7).map(move |number| (*namespace, format!("secret-{number}"))))
        .collect();
    let mut all: Vec<(&str, &str)> = hidden.iter().map(|(namespace, name)| (*namespace, name.as_str())).collect();
    all.extend(visible);
    for items_max in 1..=4 {
        let (alone, _) = over(&["list"], &visible).await;
        let (among, _) = over(&["list"], &all).await;
        let (alone, among) = (pages(&alone, items_max).await, pages(&among, items_max).await);
        let names =
            |pages: &[(Vec<String>, Option<String>)]| pages.iter().map(|(names, _)| names.clone()).collect::<Vec<_>>();
        assert_eq!(names(&among), names(&alone), "{items_max}");
        for mark in among.iter().filter_map(|(_, mark)| mark.as_deref()) {
            assert!(readable(mark).contains("team-"), "this test reads marks: {mark}");
            assert!(!readable(mark).contains("hidden") && !readable(mark).contains("secret"), "{}", readable(mark));
        }
    }
}

#[tokio::test]
async fn a_filtered_page_keeps_the_bound_of_a_page() {
    let large: String = "x".repeat(700_000);
    let (granted, stored) = over(&["list"], &[]).await;
    for number in 0..14 {
        let metadata =
            json!({"name": format!("p{number:02}"), "namespace": if number % 2 == 0 { "team-a" } else { "team-b" }});
        let document = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"text": large}});
        stored.store.write(Write::Create { document }).await.unwrap();
    }
    let pages = pages(&granted, 500).await;
    assert_eq!(pages.iter().map(|(names, _)| names.len()).sum::<usize>(), 14);
    assert!(pages.iter().all(|(names, _)| names.len() <= 6), "4 MiB at most: {pages:?}");
}

fn writes() -> Vec<(&'static str, Write)> {
    let key = || Key::new(pod(), "team-a", "p");
    let precondition = Precondition::default;
    let document = |spec: Value| json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "team-a"}, "spec": spec});
    let apply = |force| Write::Apply { document: document(json!({"mine": true})), manager: "guest".into(), force };
    vec![
        ("apply", apply(false)),
        ("apply", apply(true)),
        ("patch", Write::Patch { key: key(), change: Change::Merge(json!({})), precondition: precondition() }),
        ("patch", Write::Patch { key: key(), change: Change::Json(json!([])), precondition: precondition() }),
        (
            "update-status",
            Write::UpdateStatus { key: key(), status: json!({"ready": true}), precondition: precondition() },
        ),
        (
            "delete",
            Write::Delete {
                key: key(),
                precondition: precondition(),
                propagation: Propagation::Background,
                grace_seconds: None,
            },
        ),
    ]
}

/// Otherwise a write without changes could read everything.
#[tokio::test]
async fn a_write_without_the_grant_to_get_returns_only_its_own_fields() {
    for (verb, write) in writes() {
        let (granted, _) = over(&[verb], &[("team-a", "p")]).await;
        let answer = ask(&granted, Effect::Write(write.clone())).await;
        let Answer::Written(Ok(WriteData { resource, .. })) = &answer else { panic!("{verb}: {answer:?}") };
        assert!(!format!("{answer:?}").contains(SECRET), "{verb}: {answer:?}");
        assert_eq!((resource.key.name(), resource.uid.is_empty()), ("p", false));
        let document: Value = serde_json::from_str(&resource.json).unwrap();
        let (name, uid) = (&document["metadata"]["name"], &document["metadata"]["uid"]);
        assert_eq!((name.as_str(), uid.as_str()), (Some("p"), Some(resource.uid.as_str())));
        assert_eq!(document["spec"]["mine"] == true, verb == "apply", "it hears what it said");
        assert_eq!(document["status"]["ready"] == true, verb == "update-status", "it hears what it said");

        for reads in ["get", "list"] {
            let (granted, _) = over(&[verb, reads], &[("team-a", "p")]).await;
            let answer = ask(&granted, Effect::Write(write.clone())).await;
            assert!(format!("{answer:?}").contains(SECRET), "{verb}: who may {reads} is told all: {answer:?}");
        }
    }
}

#[tokio::test]
async fn write_errors_quote_no_content_without_the_grant_to_get() {
    let metadata = json!({"name": "p", "namespace": "team-a"});
    let document = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"password": "guess"}});
    let owned = || Write::Apply { document: document.clone(), manager: "guest".into(), force: false };
    let change = || Change::Merge(json!({"metadata": {"labels": {"password": 7}}}));
    let key = || Key::new(pod(), "team-a", "p");
    let invalid = || Write::Patch { key: key(), change: change(), precondition: Precondition::default() };
    for (verb, write) in [("apply", owned()), ("patch", invalid())] {
        let (granted, _) = over(&[verb], &[("team-a", "p")]).await;
        let answer = ask(&granted, Effect::Write(write.clone())).await;
        let Answer::Written(Err(StoreError::Owned(text) | StoreError::Invalid(text))) = &answer else {
            panic!("{verb}: {answer:?}")
        };
        for told in ["password", "owner", SECRET] {
            assert!(!text.contains(told), "{verb} tells {told}: {text}");
        }
        assert!(text.contains("`get`"), "it says what would tell more: {text}");
        let (granted, _) = over(&[verb, "get"], &[("team-a", "p")]).await;
        let answer = ask(&granted, Effect::Write(write)).await;
        assert!(format!("{answer:?}").contains("password"), "{verb}: who may read is told which field: {answer:?}");
    }
}

/// A guest could guess values word by word with `test`, and copy a value to a field that it can observe.
#[tokio::test]
async fn a_patch_that_reads_needs_the_grant_to_get() {
    let key = || Key::new(pod(), "team-a", "p");
    let patch = |operation: Value| {
        let change = Change::Json(json!([operation]));
        Effect::Write(Write::Patch { key: key(), change, precondition: Precondition::default() })
    };
    for operation in [
        json!({"op": "test", "path": "/spec/password", "value": "guess"}),
        json!({"op": "copy", "from": "/spec/password", "path": "/metadata/labels/copy"}),
        json!({"op": "move", "from": "/spec/password", "path": "/metadata/labels/moved"}),
    ] {
        let (granted, _) = over(&["patch"], &[("team-a", "p")]).await;
        let answer = ask(&granted, patch(operation.clone())).await;
        assert!(forbidden(&answer).is_some_and(|text| text.contains("verbs: [get]")), "{operation}: {answer:?}");
        let (granted, _) = over(&["patch", "get"], &[("team-a", "p")]).await;
        assert_eq!(forbidden(&ask(&granted, patch(operation)).await), None);
    }
    let (granted, _) = over(&["patch"], &[("team-a", "p")]).await;
    let answer = ask(&granted, patch(json!({"op": "replace", "path": "/spec/password", "value": "new"}))).await;
    assert!(matches!(answer, Answer::Written(Ok(_))), "{answer:?}");
}

/// `forbidden` is returned before any lookup: existing and missing resources are indistinguishable.
#[tokio::test]
async fn a_refusal_does_not_reveal_whether_the_resource_exists() {
    let (granted, _) = over(&["*"], &[("hidden", "there")]).await;
    let document = |name: &str| json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "hidden"}, "spec": {}});
    let effects = |name: &str| {
        let key = Key::new(pod(), "hidden", name);
        let (precondition, propagation) = (Precondition::default(), Propagation::Background);
        vec![
            Effect::Get { key: key.clone(), view: View::Keys, live: false },
            Effect::Follow { target: key.clone() },
            Effect::Write(Write::Create { document: document(name) }),
            Effect::Write(Write::Apply { document: document(name), manager: "guest".into(), force: false }),
            Effect::Write(Write::Delete { key, precondition, propagation, grace_seconds: None }),
        ]
    };
    for (there, absent) in effects("there").into_iter().zip(effects("other")) {
        let (there, absent) = (ask(&granted, there).await, ask(&granted, absent).await);
        let (there, absent) = (forbidden(&there).unwrap(), forbidden(&absent).unwrap());
        assert_eq!(there.replace("there", "NAME"), absent.replace("other", "NAME"));
    }
}

#[tokio::test]
async fn an_event_about_an_ungranted_resource_is_recorded_with_the_guests_key() {
    let emit = |regarding: Option<Key>| Effect::Emit {
        severity: Severity::Warning,
        reason: "Lost".into(),
        message: "x".repeat(1020),
        regarding,
    };
    let (granted, stored) = over(&["get"], &[]).await;
    let told = async |regarding: Option<Key>| {
        ask(&granted, emit(regarding)).await;
        let told = stored.events.lock().unwrap().pop();
        let Some(Effect::Emit { message, regarding, .. }) = told else { panic!("{told:?}") };
        (message, regarding)
    };
    let (own, beside) = (Key::new(pod(), "team-a", "own"), Key::new(pod(), "team-b", "other"));
    for key in [own, beside] {
        assert_eq!(told(Some(key.clone())).await.1, Some(key), "it may do something to it");
    }
    let (message, regarding) = told(Some(Key::new(pod(), "hidden", "p"))).await;
    assert_eq!(regarding, None);
    assert!(message.starts_with("about v1/Pod hidden/p: xxx") && message.len() == 1024, "{message}");
}

/// Hiding that a name is taken would make the result of the write a lie. A guest without a write grant there
/// learns nothing.
#[tokio::test]
async fn a_taken_name_is_reported_only_with_the_grant_to_create() {
    let document = |namespace: &str| json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": namespace}, "spec": {}});
    let (granted, _) = over(&["create"], &[("team-a", "p"), ("hidden", "p")]).await;
    let create =
        async |namespace: &str| ask(&granted, Effect::Write(Write::Create { document: document(namespace) })).await;
    let taken = create("team-a").await;
    let Answer::Written(Err(StoreError::AlreadyExists(revision))) = &taken else { panic!("{taken:?}") };
    assert!(revision.bytes().all(|digit| digit.is_ascii_digit()), "a number, and nothing of the document: {taken:?}");
    assert!(forbidden(&create("hidden").await).is_some());

    let (granted, _) = over(&["patch"], &[("team-a", "p")]).await;
    let precondition = Precondition { revision: Some(homeostat_store::Revision::ZERO), uid: None };
    let change = Change::Merge(json!({}));
    let patch = Write::Patch { key: Key::new(pod(), "team-a", "p"), change, precondition };
    let conflict = ask(&granted, Effect::Write(patch)).await;
    assert!(
        matches!(conflict, Answer::Written(Err(StoreError::Conflict(_)))) && !format!("{conflict:?}").contains(SECRET)
    );
}
