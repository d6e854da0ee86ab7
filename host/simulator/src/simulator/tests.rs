use homeostat_component::{Answer, Effect, EntryPoint, Retry, Role};
use homeostat_component::{DuringDelay as Holding, Watch as DeclaredWatch};
use homeostat_store::{Kind, View};
use serde_json::json;

use super::*;
use crate::cases::{Case, run};
use crate::effects::Operation;

/// The writes of a reconcile.
type Behaviour = fn(&Document) -> Vec<Write>;

/// A document as the controller reads it.
type Document = Value;

/// A controller that answers a resource with writes, and a missing one with nothing.
struct ScriptedController {
    spec: ControllerSpec,
    behaviour: Behaviour,
    outcome: fn(&Document) -> Outcome,
}

#[async_trait::async_trait(?Send)]
impl Reconciler for ScriptedController {
    fn describe(&self) -> &ControllerSpec {
        &self.spec
    }

    async fn reconcile(&self, key: &Key, effects: Arc<dyn Effects>) -> Result<Outcome, Fault> {
        let call = Call { id: 1, controller: "test".into(), entry: EntryPoint::Reconcile, key: Some(key.clone()) };
        let failed =
            |error: &dyn std::fmt::Display| Fault::Failure { message: error.to_string(), retry: Retry::Backoff };
        let get = Effect::Get { key: key.clone(), view: View::Whole, live: false };
        let document = match effects.perform(&call, get).await {
            Answer::Resource(Ok(found)) => serde_json::from_str(&found.json).map_err(|error| failed(&error))?,
            Answer::Resource(Err(homeostat_component::StoreError::NotFound(_))) => return Ok(Outcome::Settled),
            other => return Err(failed(&format!("{other:?}"))),
        };
        for write in (self.behaviour)(&document) {
            if let Answer::Written(Err(error)) = effects.perform(&call, Effect::Write(write)).await {
                return Err(failed(&error));
            }
        }
        Ok((self.outcome)(&document))
    }

    async fn map(&self, _: &str, _: &Resource, _: Arc<dyn Effects>) -> Result<Vec<Key>, Fault> {
        Ok(Vec::new())
    }
}

fn declared(name: &str) -> KindDeclaration {
    let kind = Kind::new("demo.dev", "v1", name);
    KindDeclaration {
        kind,
        plural: format!("{}s", name.to_lowercase()),
        namespaced: true,
        keys_only: false,
        schema: None,
    }
}

fn key(kind: &str, name: &str) -> Key {
    Key::new(declared(kind).kind, "default", name)
}

fn document(kind: &str, name: &str, spec: Value) -> Value {
    let metadata = json!({"name": name, "namespace": "default"});
    json!({"apiVersion": "demo.dev/v1", "kind": kind, "metadata": metadata, "spec": spec})
}

/// Applies a part that the parent owns.
fn part(parent: &Document) -> Vec<Write> {
    let owner = json!([{
        "apiVersion": "demo.dev/v1", "kind": "Parent", "name": parent["metadata"]["name"], "uid": parent["metadata"]["uid"],
        "controller": true,
    }]);
    let mut part = document("Part", "a", parent["spec"].clone());
    part["metadata"]["ownerReferences"] = owner;
    vec![Write::Apply { document: part, manager: "test".into(), force: false }]
}

async fn simulator(behaviour: Behaviour, outcome: fn(&Document) -> Outcome) -> Simulator<ScriptedController> {
    let watch = DeclaredWatch {
        name: "parts".into(),
        of: declared("Part"),
        mapping: Mapping::Owner,
        changes: Changes::All,
        role: Role::Secondary,
    };
    let spec = ControllerSpec {
        manages: declared("Parent"),
        changes: Changes::All,
        watches: vec![watch],
        poll_every: None,
        resync_every: None,
        backoff: None,
        concurrency: None,
        during_delay: Holding::RunNow,
    };
    let reconciler = ScriptedController { spec, behaviour, outcome };
    Simulator::new(reconciler, Grants::everything(), BTreeMap::new()).await.unwrap()
}

fn settled(_: &Document) -> Outcome {
    Outcome::Settled
}

#[tokio::test]
async fn settling_follows_owned_parts_until_nothing_is_queued() {
    let mut simulator = simulator(part, settled).await;
    simulator.put(document("Parent", "a", json!({"size": 1}))).await.unwrap();
    assert_eq!(simulator.settle().await.unwrap().len(), 2, "the parent, and the parent again after its part is made");
    assert_eq!(simulator.settle().await.unwrap(), []);
    simulator.delete(&key("Part", "a")).await.unwrap();
    assert_eq!(simulator.settle().await.unwrap().len(), 2, "the deleted part queues its owner, which applies it again");
    assert_eq!(simulator.get(&key("Part", "a")).await.unwrap().document()["spec"], json!({"size": 1}));
}

#[tokio::test]
async fn the_parts_of_a_deleted_owner_are_collected() {
    let mut simulator = simulator(part, settled).await;
    simulator.put(document("Parent", "a", json!({}))).await.unwrap();
    simulator.settle().await.unwrap();
    simulator.delete(&key("Parent", "a")).await.unwrap();
    simulator.settle().await.unwrap();
    assert!(simulator.get(&key("Part", "a")).await.is_err());
}

#[tokio::test]
async fn a_lost_answer_of_a_write_is_retried_with_backoff() {
    let mut simulator = simulator(part, settled).await;
    simulator.put(document("Parent", "a", json!({}))).await.unwrap();
    simulator.inject(InjectedFault {
        operation: Operation::Apply,
        kind: Some("Part".into()),
        error: homeostat_component::StoreError::Unavailable("away".into()),
        times: Some(1),
        after_write: true,
    });
    let run = simulator.reconcile(&key("Parent", "a")).await.unwrap();
    assert_eq!(run.result.unwrap_err().to_string(), "unavailable: away");
    assert!(simulator.get(&key("Part", "a")).await.is_ok(), "the write happened");
    let runs = simulator.settle().await.unwrap();
    assert!(runs.iter().all(|run| run.result == Ok(Outcome::Settled)), "{runs:?}");
}

#[tokio::test]
async fn a_failed_key_waits_for_its_backoff_in_virtual_time() {
    let mut simulator = simulator(
        |_| vec![Write::Apply { document: document("Other", "a", json!({})), manager: "test".into(), force: false }],
        settled,
    )
    .await;
    simulator.put(document("Parent", "a", json!({}))).await.unwrap();
    let runs = simulator.settle().await.unwrap();
    assert_eq!(runs.len(), 1);
    assert!(runs[0].result.as_ref().unwrap_err().to_string().contains("Other"), "an undeclared kind is unknown");
    assert_eq!(simulator.next_due(), Some(Duration::from_millis(5)));
    assert_eq!(simulator.advance(Duration::from_millis(15)).await.unwrap().len(), 2, "after 5 ms, and after 10 more");
}

#[tokio::test]
async fn a_delay_passes_only_when_the_clock_is_moved() {
    let mut simulator = simulator(|_| Vec::new(), |_| Outcome::AgainAfter(Duration::from_secs(3600))).await;
    simulator.put(document("Parent", "a", json!({}))).await.unwrap();
    assert_eq!(simulator.settle().await.unwrap().len(), 1);
    assert_eq!(simulator.settle().await.unwrap().len(), 0);
    assert_eq!(simulator.advance(Duration::from_secs(3599)).await.unwrap().len(), 0);
    assert_eq!(simulator.advance(Duration::from_secs(7201)).await.unwrap().len(), 3);
}

#[tokio::test]
async fn a_controller_that_never_rests_is_named_with_its_key() {
    let count = |parent: &Document| {
        let status = json!({"count": parent["status"]["count"].as_u64().unwrap_or_default() + 1});
        vec![Write::UpdateStatus { key: key("Parent", "a"), status, precondition: Default::default() }]
    };
    let mut simulator = simulator(count, settled).await;
    simulator.put(document("Parent", "a", json!({}))).await.unwrap();
    let error = simulator.settle().await.unwrap_err().to_string();
    assert!(error.contains("demo.dev/v1/Parent default/a is still queued, and ran 1000 times"), "{error}");
}

#[tokio::test]
async fn two_simulations_give_the_same_ids_and_times() {
    let made = async || {
        let mut simulator = simulator(part, settled).await;
        simulator.put(document("Parent", "a", json!({}))).await.unwrap();
        simulator.settle().await.unwrap();
        simulator.get(&key("Part", "a")).await.unwrap().text().to_owned()
    };
    assert_eq!(made().await, made().await);
}

#[tokio::test]
async fn a_case_reports_each_expectation_that_does_not_hold() {
    let case = json!({
        "name": "parts", "given": [document("Parent", "a", json!({"size": 1}))],
        "steps": [{
            "settle": true,
            "expect": {
                "outcome": "again", "againAfter": "30s", "reconciles": 9, "counts": {"Part.demo.dev": 2}, "events": [{"reason": "Made"}],
                "resources": [document("Part", "a", json!({"size": 2}))], "absent": [{"apiVersion": "demo.dev/v1", "kind": "Part", "namespace": "default", "name": "a"}],
            }
        }]
    });
    let case: Case = serde_json::from_value(case).unwrap();
    let lines = run(&case, simulator(part, settled).await).await.unwrap();
    let expected = [
        "step 1: expected 9 reconciles, got 2",
        "step 1: outcome: expected again, got settled",
        "step 1: againAfter: expected 30s, got settled",
        "step 1: demo.dev/v1/Part default/a: spec.size: expected 2, got 1",
        "step 1: demo.dev/v1/Part default/a: expected to be absent, but exists",
        "step 1: Part.demo.dev: expected 2 resources, got 1",
        "step 1: events: expected Made, got no event",
    ];
    assert_eq!(lines, expected);
}

#[tokio::test]
async fn a_case_injects_faults_for_one_step() {
    let case = json!({
        "name": "faults", "given": [document("Parent", "a", json!({}))],
        "steps": [
            {
                "faults": [{"on": "write", "error": "unavailable"}], "settle": true,
                "expect": {"outcome": "failed", "message": "unavailable", "reconciles": 1, "counts": {"Part.demo.dev": 0}}
            },
            {"advance": "1s", "expect": {"outcome": "settled", "counts": {"Part.demo.dev": 1}, "events": []}},
        ]
    });
    let case: Case = serde_json::from_value(case).unwrap();
    assert_eq!(run(&case, simulator(part, settled).await).await.unwrap(), [""; 0]);
}
