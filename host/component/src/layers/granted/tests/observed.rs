use std::sync::{Arc, Mutex};

use homeostat_store::{Key, Kind, Query, Selector, View};

use super::super::{DenialObserver, Observed};
use crate::call::new_call;
use crate::effect::{Answer, Call, Effect, Effects, EntryPoint, Level, StoreError};
use crate::grants::{Capability, Grants, Needs, Verb};
use crate::layers::{EmptyWorld, Granted};

#[derive(Default)]
struct Heard(Mutex<Vec<(Capability, String)>>);

impl DenialObserver for Heard {
    fn denied(&self, _: &Call, capability: Capability, missing: &str) {
        self.0.lock().unwrap().push((capability, missing.to_owned()));
    }
}

fn pods() -> Grants {
    serde_json::from_str(r#"{"resources": [{"kinds": ["Pod"], "verbs": ["get"]}]}"#).unwrap()
}

fn get(kind: &str, name: &str) -> Effect {
    Effect::Get { key: Key::new(Kind::new("", "v1", kind), "default", name), view: View::Whole, live: false }
}

#[tokio::test]
async fn denials_are_reported_by_kind_and_namespace_and_recorded_in_full() {
    let (needs, heard) = (Arc::new(Needs::default()), Arc::new(Heard::default()));
    let observed = Observed::new(needs.clone(), heard.clone(), Granted::new(Arc::new(pods()), EmptyWorld));
    let line = Effect::Log { level: Level::Info, message: "said".to_owned(), fields: Vec::new() };
    let list = Effect::List { query: Query::all(Kind::new("", "v1", "Secret")), view: View::Whole };
    for effect in [get("Pod", "a"), get("Secret", "b"), get("Secret", "c"), list, line, Effect::WallClock] {
        observed.perform(&new_call(&Arc::from("test"), EntryPoint::Reconcile, None), effect).await;
    }
    let told = heard.0.lock().unwrap();
    let capabilities: Vec<_> = told.iter().map(|(capability, _)| *capability).collect();
    let (get, list) = (Capability::Resources(Verb::Get), Capability::Resources(Verb::List));
    assert_eq!(capabilities, [get, get, list]);
    assert_eq!(told[0].1, told[1].1, "equal events are counted, so they have to be equal");
    assert!(told[0].1.contains("- {kinds: [Secret], verbs: [get], namespaces: [\"default\"]}"), "{}", told[0].1);
    let seen = needs.snapshot();
    let of = |kind: &str| seen.resources.iter().filter(|need| need.kind == kind).count();
    assert_eq!((of("Pod"), of("Secret"), seen.clock), (1, 3, 1));
    assert!(seen.resources.iter().all(|need| (need.denied == need.asked) == (need.kind == "Secret")), "{seen:?}");
}

#[tokio::test]
async fn a_failure_for_another_reason_is_no_denial() {
    let (needs, heard) = (Arc::new(Needs::default()), Arc::new(Heard::default()));
    let observed = Observed::new(needs.clone(), heard.clone(), Granted::new(Arc::new(pods()), EmptyWorld));
    let answer = observed.perform(&new_call(&Arc::from("test"), EntryPoint::Reconcile, None), get("Pod", "a")).await;
    assert!(matches!(answer, Answer::Resource(Err(StoreError::NotFound(_)))));
    assert!(heard.0.lock().unwrap().is_empty());
    assert_eq!((needs.snapshot().resources[0].asked, needs.snapshot().resources[0].denied), (1, 0));
}

#[tokio::test]
async fn the_reads_of_a_selection_are_recorded_like_its_watch() {
    let follow = || {
        let fields = vec![("/spec/color".to_owned(), "red".to_owned())];
        Effect::FollowAll { kind: Kind::new("", "v1", "Pod"), selector: Selector { fields, ..Selector::default() } }
    };
    for (verbs, learned, denied) in [
        (r#""watch", "get", "delete""#, ["watch", "get"].as_slice(), [].as_slice()),
        (r#""watch""#, &[], &["list", "watch"]),
    ] {
        let granted: Grants =
            serde_json::from_str(&format!(r#"{{"resources": [{{"kinds": ["Pod"], "verbs": [{verbs}]}}]}}"#)).unwrap();
        let (needs, heard) = (Arc::new(Needs::default()), Arc::new(Heard::default()));
        let observed = Observed::new(needs.clone(), heard.clone(), Granted::new(Arc::new(granted.clone()), EmptyWorld));
        observed.perform(&new_call(&Arc::from("test"), EntryPoint::Reconcile, None), follow()).await;
        let found = granted.learn(&needs.snapshot());
        let verbs = |grants: &Grants| {
            let verbs = grants.resources.iter().flat_map(|line| line.verbs.iter().map(|verb| verb.as_str()));
            verbs.collect::<std::collections::BTreeSet<_>>()
        };
        assert_eq!(verbs(&found.grants), learned.iter().copied().collect());
        assert_eq!(verbs(&found.denied), denied.iter().copied().collect());
        let told = heard.0.lock().unwrap();
        assert!(told.iter().all(|(_, missing)| missing.contains("verbs: [list]")), "{told:?}");
    }
}
