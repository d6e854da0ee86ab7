use std::sync::Mutex;

use homeostat_fixtures::demo_kind;
use homeostat_store::{Change, Key, Precondition, Propagation, Query, View};
use serde_json::json;

use super::super::*;
use crate::call::new_call;
use crate::effect::EntryPoint;
use crate::grants::{Capability, Grants, Needs, Verb};
use crate::layers::{Granted, Observed};
use crate::spec::{Changes, DuringDelay, KindDeclaration, Mapping, Watch};

/// Answers every effect with `Answer::Unit`.
struct Inner;

#[async_trait]
impl Effects for Inner {
    async fn perform(&self, _: &Call, _: Effect) -> Answer {
        Answer::Unit
    }
}

#[derive(Default)]
struct Heard(Mutex<Vec<(Capability, String)>>);

impl DenialObserver for Heard {
    fn denied(&self, _: &Call, capability: Capability, missing: &str) {
        self.0.lock().unwrap().push((capability, missing.to_owned()));
    }
}

fn declaration(name: &str) -> KindDeclaration {
    let plural = format!("{}s", name.to_lowercase());
    KindDeclaration { kind: demo_kind(name), plural, namespaced: true, keys_only: false, schema: None }
}

fn watch(name: &str, role: Role) -> Watch {
    let (mapping, changes) = (Mapping::SameName, Changes::All);
    Watch { name: name.to_lowercase(), of: declaration(name), mapping, changes, role }
}

/// Manages `App`, creates `Part`, and only reads `Config`.
fn spec() -> ControllerSpec {
    ControllerSpec {
        manages: declaration("App"),
        changes: Changes::All,
        watches: vec![watch("Part", Role::Secondary), watch("Config", Role::Tertiary)],
        poll_every: None,
        resync_every: None,
        backoff: None,
        concurrency: None,
        during_delay: DuringDelay::RunNow,
    }
}

/// Every write to a resource of a kind, in another version than the declared one.
fn writes(name: &str) -> Vec<Write> {
    let key = || Key::new(Kind::new("demo.homeostat.dev", "v2", name), "default", "a");
    let metadata = json!({"name": "a", "namespace": "default"});
    let document = || json!({"apiVersion": "demo.homeostat.dev/v2", "kind": name, "metadata": metadata});
    let (precondition, change) = (Precondition::default, Change::Merge(json!({})));
    vec![
        Write::Create { document: document() },
        Write::Update { document: document(), precondition: precondition() },
        Write::UpdateStatus { key: key(), status: json!({}), precondition: precondition() },
        Write::Patch { key: key(), change, precondition: precondition() },
        Write::Apply { document: document(), manager: "test".into(), force: true },
        Write::Delete {
            key: key(),
            precondition: precondition(),
            propagation: Propagation::Background,
            grace_seconds: None,
        },
    ]
}

/// Performs an effect with all grants, and returns the observed denials and the recorded needs.
async fn perform(effect: Effect) -> (Answer, Vec<(Capability, String)>, usize) {
    let grants: Grants =
        serde_json::from_value(json!({"resources": [{"kinds": ["*"], "verbs": ["*"], "namespaces": ["*"]}]})).unwrap();
    let (heard, needs) = (Arc::new(Heard::default()), Arc::new(Needs::default()));
    let granted = Observed::new(needs.clone(), heard.clone(), Granted::new(Arc::new(grants), Inner));
    let roles = Roles::new(&spec(), heard.clone(), granted);
    let answer = roles.perform(&new_call(&Arc::from("test"), EntryPoint::Reconcile, None), effect).await;
    let heard = std::mem::take(&mut *heard.0.lock().unwrap());
    (answer, heard, needs.snapshot().resources.len())
}

#[tokio::test]
async fn a_tertiary_kind_is_writable_by_no_verb_under_any_grant() {
    for write in writes("Config") {
        let (answer, heard, needs) = perform(Effect::Write(write.clone())).await;
        let Answer::Written(Err(StoreError::Forbidden(text))) = answer else { panic!("{write:?}: {answer:?}") };
        assert!(
            text.contains("demo.homeostat.dev/v1/Config") && text.contains("\"config\"") && text.contains("`tertiary`"),
            "{text}"
        );
        assert!(!text.contains("grants:"), "no line of the manifest would help: {text}");
        assert!(matches!(&heard[..], [(Capability::Resources(verb), told)] if *verb != Verb::Get && *told == text));
        assert_eq!(needs, 0, "what a role refuses is no need of a grant");
    }
}

#[tokio::test]
async fn a_tertiary_kind_is_read_as_the_grants_say() {
    let get = Effect::Get { key: Key::new(demo_kind("Config"), "default", "a"), view: View::Whole, live: false };
    let list = Effect::List { query: Query::all(demo_kind("Config")), view: View::Whole };
    for effect in [get, list] {
        assert_eq!(perform(effect).await, (Answer::Unit, Vec::new(), 1));
    }
}

#[tokio::test]
async fn the_managed_kind_and_secondary_ones_are_written_as_the_grants_say() {
    for name in ["App", "Part"] {
        for write in writes(name) {
            assert_eq!(perform(Effect::Write(write)).await, (Answer::Unit, Vec::new(), 1));
        }
    }
}
