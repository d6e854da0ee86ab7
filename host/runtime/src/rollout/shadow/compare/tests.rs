use std::time::Duration;

use homeostat_component::{HttpError, LimitName, QueuePriority, ResourceData, Severity};
use homeostat_fixtures::{demo, demo_key};
use homeostat_store::{EventType, Precondition, Propagation};
use proptest::prelude::*;

use super::*;

fn apply(name: &str, spec: Value) -> Write {
    Write::Apply { document: demo("App", name, spec), manager: "web".into(), force: false }
}

fn status(name: &str, status: Value) -> Write {
    Write::UpdateStatus { key: demo_key("App", name), status, precondition: Precondition::default() }
}

/// A write that resulted in a document, with or without a change.
fn done(write: Write, document: Value, change: Option<EventType>) -> Exchange {
    let target = write.target().unwrap();
    let resource = ResourceData {
        key: Key::new(target.kind, &target.namespace, &target.name.unwrap_or_default()),
        uid: String::new(),
        revision: "7".into(),
        generation: 1,
        json: document.to_string(),
    };
    Exchange { effect: Effect::Write(write), answer: Answer::Written(Ok(WriteData { resource, change })) }
}

fn applied(name: &str, spec: Value) -> Exchange {
    done(apply(name, spec.clone()), demo("App", name, spec), Some(EventType::Modified))
}

fn run(exchanges: Vec<Exchange>) -> Run {
    Run { exchanges, result: Ok(Outcome::Settled), denials: BTreeSet::new() }
}

/// Returns the differences as `name verb field: old -> new`.
fn found(old: &Run, new: &Run) -> Vec<String> {
    let text = |value: Option<String>| value.unwrap_or_else(|| "-".into());
    let told = differences(&demo_key("App", "it"), old, new).into_iter();
    told.map(|ReconcileDifference { key, verb, field, old, new }| {
        format!("{} {verb} {field}: {} -> {}", key.name(), text(old), text(new))
    })
    .collect()
}

#[test]
fn the_same_writes_are_no_difference_whatever_their_order() {
    let (a, b) = (applied("a", json!({"size": 1})), applied("b", json!({"size": 2})));
    assert_eq!(found(&run(vec![a.clone(), b.clone()]), &run(vec![b, a])), [""; 0]);
}

#[test]
fn another_value_is_told_by_its_field_with_both() {
    let (old, new) = (applied("a", json!({"size": 1, "same": [1]})), applied("a", json!({"size": 2, "same": [1]})));
    assert_eq!(found(&run(vec![old]), &run(vec![new])), ["a apply spec.size: 1 -> 2"]);
}

#[test]
fn a_write_that_one_of_them_makes_alone_is_told_unless_it_changes_nothing() {
    let one = applied("a", json!({"size": 1}));
    let whole = r#"{"apiVersion":"demo.homeostat.dev/v1","kind":"App","metadata":{"name":"a","namespace":"default"},"spec":{"size":1}}"#;
    assert_eq!(found(&run(vec![]), &run(vec![one.clone()])), [format!("a apply : - -> {whole}")]);
    assert_eq!(found(&run(vec![one.clone()]), &run(vec![])), [format!("a apply : {whole} -> -")]);
    let nothing = done(apply("a", json!({"size": 1})), demo("App", "a", json!({"size": 1})), None);
    assert_eq!(found(&run(vec![]), &run(vec![nothing.clone()])), [""; 0]);
    let other = done(apply("a", json!({"size": 2})), demo("App", "a", json!({"size": 2})), Some(EventType::Modified));
    assert_eq!(
        found(&run(vec![nothing]), &run(vec![other])),
        ["a apply spec.size: 1 -> 2"],
        "its pair says what it should be"
    );
}

#[test]
fn patches_are_compared_by_what_they_lead_to_and_other_verbs_as_well() {
    let patch = |change: Value, led_to: Value| {
        let change = Change::Merge(change);
        let write = Write::Patch { key: demo_key("App", "a"), change, precondition: Precondition::default() };
        done(write, demo("App", "a", led_to), Some(EventType::Modified))
    };
    let (old, new) = (
        patch(json!({"spec": {"a": 1}}), json!({"a": 1})),
        patch(json!({"spec": {"a": 1, "b": null}}), json!({"a": 1})),
    );
    assert_eq!(found(&run(vec![old.clone()]), &run(vec![new])), [""; 0]);
    let new = applied("a", json!({"a": 1}));
    assert_eq!(found(&run(vec![old]), &run(vec![new])), ["a apply verb: patch -> apply"]);
}

#[test]
fn preconditions_and_what_the_host_owns_are_no_difference() {
    let with = |revision: &str| {
        let mut document = demo("App", "a", json!({}));
        document["metadata"]["resourceVersion"] = json!(revision);
        document["metadata"]["managedFields"] = json!([revision]);
        document["status"] = json!({"at": revision});
        let write = Write::Update { document: document.clone(), precondition: Precondition::default() };
        run(vec![done(write, document, Some(EventType::Modified))])
    };
    assert_eq!(found(&with("1"), &with("2")), [""; 0]);
}

#[test]
fn a_status_is_told_apart_from_what_it_belongs_to() {
    let write = |count: u64| {
        run(vec![done(
            status("a", json!({"count": count})),
            json!({"status": {"count": count}}),
            Some(EventType::Modified),
        )])
    };
    assert_eq!(found(&write(1), &write(2)), ["a update-status status.count: 1 -> 2"]);
    let delete = |propagation| {
        let write = Write::Delete {
            key: demo_key("App", "a"),
            precondition: Precondition::default(),
            propagation,
            grace_seconds: None,
        };
        run(vec![done(write, demo("App", "a", json!({})), Some(EventType::Deleted))])
    };
    let told = found(&delete(Propagation::Orphan), &delete(Propagation::Foreground));
    assert_eq!(told, ["a delete propagation: orphan -> foreground"]);
}

#[test]
fn differences_contain_nothing_of_a_secret() {
    let secret = |data: &str| {
        let document = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a", "namespace": "default"}, "data": {"a": data}});
        let write = Write::Apply { document: document.clone(), manager: "web".into(), force: false };
        done(write, document, Some(EventType::Modified))
    };
    assert_eq!(found(&run(vec![secret("c2VjcmV0")]), &run(vec![secret("b3RoZXI")])), ["a apply data.a: *** -> ***"]);
    assert_eq!(found(&run(vec![]), &run(vec![secret("b3RoZXI")])), ["a apply : - -> ***"]);
}

#[test]
fn results_are_compared_by_how_it_goes_on() {
    let ended = |result| Run { result, ..run(vec![]) };
    let failed = |message: &str, retry| ended(Err(Fault::Failure { message: message.into(), retry }));
    assert_eq!(found(&failed("at 1", Retry::Backoff), &failed("at 2", Retry::Backoff)), [""; 0]);
    assert_eq!(
        found(&failed("no", Retry::Backoff), &failed("no", Retry::Never)),
        ["it reconcile : failed: no -> failed, not again: no"]
    );
    let later = ended(Ok(Outcome::AgainAfter(Duration::from_secs(5))));
    assert_eq!(found(&run(vec![]), &later), ["it reconcile : settled -> again after 5s"]);
    let limit = ended(Err(Fault::Limit { limit: LimitName::Cpu, message: "1s".into() }));
    assert_eq!(found(&run(vec![]), &limit), ["it reconcile : settled -> limit cpu: 1s"]);
}

#[test]
fn requests_are_told_without_what_may_be_secret() {
    let ask = |method: &str, url: &str| {
        let (method, url) = (method.to_owned(), url.to_owned());
        let headers = vec![("authorization".to_owned(), b"secret".to_vec().into())];
        let request = HttpRequest { method, url, headers, body: b"secret".to_vec().into(), timeout_ms: None };
        Exchange { effect: Effect::Http(request), answer: Answer::Http(Err(HttpError::Timeout)) }
    };
    let get = ask("GET", "https://me:secret@a.example/b?token=secret#secret");
    assert_eq!(found(&run(vec![get.clone()]), &run(vec![get.clone()])), [""; 0]);
    assert_eq!(found(&run(vec![]), &run(vec![get.clone()])), ["it http GET https://a.example/b: - -> not sent"]);
    assert_eq!(found(&run(vec![get]), &run(vec![])), [""; 0], "to read less is nothing to tell");
    let post = ask("POST", "https://a.example");
    assert_eq!(found(&run(vec![post]), &run(vec![])), ["it http POST https://a.example: sent -> -"]);
}

#[test]
fn events_follows_and_enqueued_keys_are_compared_by_what_they_mean() {
    let emit = |reason: &str, message: &str| {
        let (reason, message) = (reason.to_owned(), message.to_owned());
        let effect = Effect::Emit { severity: Severity::Normal, reason, message, regarding: None };
        Exchange { effect, answer: Answer::Unit }
    };
    assert_eq!(
        found(&run(vec![emit("Made", "at 1")]), &run(vec![emit("Made", "at 2"), emit("Made", "at 3")])),
        [""; 0]
    );
    assert_eq!(
        found(&run(vec![emit("Made", "")]), &run(vec![emit("Broken", "")])),
        ["it emit Made: Normal -> -", "it emit Broken: - -> Normal"]
    );
    let follow = Exchange { effect: Effect::Follow { target: demo_key("App", "b") }, answer: Answer::Done(Ok(())) };
    assert_eq!(
        found(&run(vec![follow]), &run(vec![])),
        ["it follow demo.homeostat.dev/v1/App default/b: followed -> -"]
    );
    let enqueue = |after_ms: u64, hold: bool| {
        let (key, priority) = (demo_key("App", "b"), QueuePriority::High);
        Exchange { effect: Effect::Enqueue { key, after_ms, priority, hold }, answer: Answer::Done(Ok(())) }
    };
    assert_eq!(found(&run(vec![enqueue(5, true)]), &run(vec![enqueue(5, true), enqueue(5, true)])), [""; 0]);
    assert_eq!(
        found(&run(vec![enqueue(5, true)]), &run(vec![enqueue(0, false)])),
        [
            "it enqueue demo.homeostat.dev/v1/App default/b: after 5 ms, high, held -> -",
            "it enqueue demo.homeostat.dev/v1/App default/b: - -> after 0 ms, high"
        ]
    );
}

#[test]
fn denials_of_the_candidate_alone_are_reported() {
    let denied =
        |denials: &[&str]| Run { denials: denials.iter().map(|text| (*text).to_owned()).collect(), ..run(vec![]) };
    assert_eq!(found(&denied(&["a"]), &denied(&["a", "b"])), ["it grants b: - -> denied"]);
    assert_eq!(found(&denied(&["a"]), &denied(&[])), [""; 0]);
}

#[test]
fn values_and_differences_have_a_bound() {
    let long = |length: usize| run(vec![applied("a", json!({"text": "ä".repeat(length)}))]);
    let told = differences(&demo_key("App", "it"), &long(1000), &long(2000));
    assert!(told.iter().all(|told| told.old.as_ref().unwrap().len() <= VALUE_BYTES_MAX), "{told:?}");
    let many = |size: u64| run((0..100).map(|name| applied(&name.to_string(), json!({"size": size}))).collect());
    assert_eq!(differences(&demo_key("App", "it"), &many(1), &many(2)).len(), DIFFERENCES_MAX);
}

fn writes() -> impl Strategy<Value = Vec<Exchange>> {
    prop::collection::vec(("[ab]", 0..3_u8, any::<bool>(), any::<bool>()), 0..6).prop_map(|writes| {
        let exchange = |(name, size, is_status, changes): (String, u8, bool, bool)| {
            let change = changes.then_some(EventType::Modified);
            if is_status {
                done(status(&name, json!({"size": size})), json!({"status": {"size": size}}), change)
            } else {
                done(apply(&name, json!({"size": size})), demo("App", &name, json!({"size": size})), change)
            }
        };
        writes.into_iter().map(exchange).collect()
    })
}

proptest! {
    #[test]
    fn a_shadow_run_equals_itself_and_differences_are_symmetric(old in writes(), new in writes()) {
        let (old, new) = (run(old), run(new));
        prop_assert!(found(&old, &old).is_empty());
        prop_assert_eq!(found(&old, &new).is_empty(), found(&new, &old).is_empty());
    }

    #[test]
    fn an_additional_change_is_always_a_difference(both in writes(), name in "[ab]", at in 0..7_usize) {
        let more = applied(&name, json!({"size": 9}));
        let mut exchanges = both.clone();
        exchanges.insert(at.min(both.len()), more);
        prop_assert!(!found(&run(both), &run(exchanges)).is_empty());
    }
}
