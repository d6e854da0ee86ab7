use homeostat_component::EntryPoint;
use homeostat_store::memory::MemoryStore;
use homeostat_store::{Options, Precondition, Propagation};

use super::*;
use crate::manifest::Spec;

/// Writes to a store, as the world does, without any checks.
struct World(Arc<dyn Store>);

#[async_trait]
impl Effects for World {
    async fn perform(&self, _: &Call, effect: Effect) -> Answer {
        match effect {
            Effect::Get { key, view, .. } => Answer::Resource(
                self.0.get(&key).await.map(|found| ResourceData::new(&found, view)).map_err(StoreError::from),
            ),
            Effect::Write(write) => Answer::Written(match self.0.submit(write.into()).await {
                Ok(written) => Ok(WriteData {
                    resource: ResourceData::new(&written.resource, View::Whole),
                    change: written.change,
                }),
                Err(error) => Err(error.into()),
            }),
            _ => Answer::Unit,
        }
    }
}

/// Answers every effect as a layer that grants nothing.
struct RefusingEffects;

#[async_trait]
impl Effects for RefusingEffects {
    async fn perform(&self, _: &Call, _: Effect) -> Answer {
        Answer::Unit
    }
}

fn grants(max: u32) -> Grants {
    let text = json!({
        "resources": [{"kinds": ["demo.homeostat.dev/*"], "verbs": ["get", "apply"], "namespaces": ["a"]}],
        "controllers": [{"names": ["made-*"], "components": [{"file": "made.wasm"}], "max": max}],
    });
    serde_json::from_value(text).unwrap()
}

/// The layer of a creator with these grants, over a store.
struct Creation {
    store: Arc<dyn Store>,
    layer: CreatedControllers<RefusingEffects, World>,
}

impl Creation {
    fn with(grants: &Grants) -> Self {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new(Options::default()));
        let creator = Creator { name: "maker", grants, limits: &Limits::default() };
        let layer = CreatedControllers::new(&creator, store.clone(), RefusingEffects, World(store.clone()));
        Self { store, layer }
    }

    async fn perform(&self, effect: Effect) -> Answer {
        let call = Call { id: 1, controller: "maker".into(), entry: EntryPoint::Reconcile, key: None };
        self.layer.perform(&call, effect).await
    }

    async fn apply(&self, name: &str, spec: Value) -> Result<Value, StoreError> {
        let write = Write::Apply { document: controller(name, spec), manager: "maker".to_owned(), force: true };
        match self.perform(Effect::Write(write)).await {
            Answer::Written(answer) => answer.map(|written| serde_json::from_str(&written.resource.json).unwrap()),
            other => panic!("{other:?}"),
        }
    }
}

fn controller(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "homeostat.dev/v1alpha1", "kind": "Controller", "metadata": {"name": name}, "spec": spec})
}

fn made() -> Value {
    let line = json!({"kinds": ["demo.homeostat.dev/Site"], "verbs": ["get"], "namespaces": ["a"]});
    json!({"component": {"file": "made.wasm"}, "grants": {"resources": [line]}})
}

fn key(name: &str) -> Key {
    Key::new(controllers(), "", name)
}

fn delete(name: &str) -> Effect {
    let (precondition, propagation) = (Precondition::default(), Propagation::Background);
    Effect::Write(Write::Delete { key: key(name), precondition, propagation, grace_seconds: None })
}

fn is_forbidden<T>(answer: &Result<T, StoreError>) -> bool {
    matches!(answer, Err(StoreError::Forbidden(_)))
}

#[tokio::test]
async fn a_guest_creates_a_controller_and_sees_its_status_and_not_its_spec() {
    let creation = Creation::with(&grants(2));
    let shown = creation.apply("made-a", made()).await.unwrap();
    assert_eq!((&shown["metadata"]["labels"][CREATED_BY], &shown["spec"]), (&json!("maker"), &Value::Null));
    let stored = creation.store.get(&key("made-a")).await.unwrap();
    assert_eq!((creator_of(&stored), &stored.document()["spec"]), (Some("maker"), &made()));
    let read = creation.perform(Effect::Get { key: key("made-a"), view: View::Whole, live: false }).await;
    let Answer::Resource(Ok(read)) = read else { panic!("{read:?}") };
    assert!(!read.json.contains("made.wasm"), "{}", read.json);
    assert!(matches!(creation.perform(delete("made-a")).await, Answer::Written(Ok(_))));
}

#[tokio::test]
async fn a_created_controller_has_no_more_rights_than_its_creator() {
    let creation = Creation::with(&grants(9));
    let with = |field: &str, value: Value| {
        let mut spec = made();
        *spec.pointer_mut(field).unwrap() = value;
        spec
    };
    let line = "/grants/resources/0";
    let wider = [
        with(&format!("{line}/verbs"), json!(["get", "delete"])),
        with(&format!("{line}/kinds"), json!(["*"])),
        with(&format!("{line}/namespaces"), json!(["*"])),
        with("/component", json!({"file": "other.wasm"})),
        with("/grants", json!({"http": [{"urls": ["https://a.example/*"]}]})),
        with(
            "/grants",
            json!({"controllers": [{"names": ["made-*"], "components": [{"file": "made.wasm"}], "max": 1}]}),
        ),
        json!({"component": {"file": "made.wasm"}, "limits": {"memory": "128Mi"}}),
    ];
    for spec in wider {
        let answer = creation.apply("made-a", spec.clone()).await;
        assert!(is_forbidden(&answer), "{spec}: {answer:?}");
    }
    assert!(is_forbidden(&creation.apply("other", made()).await));
    assert!(matches!(creation.apply("made-a", json!({"componen": 1})).await, Err(StoreError::Invalid(_))));
    assert!(matches!(creation.store.get(&key("made-a")).await, Err(Error::NotFound { .. })));
}

#[tokio::test]
async fn a_guest_creates_no_more_controllers_than_granted() {
    let creation = Creation::with(&grants(2));
    for name in ["made-a", "made-b", "made-a"] {
        creation.apply(name, made()).await.unwrap();
    }
    assert!(is_forbidden(&creation.apply("made-c", made()).await));
    creation.perform(delete("made-b")).await;
    creation.apply("made-c", made()).await.unwrap();
}

#[tokio::test]
async fn a_guest_touches_no_controller_that_it_has_not_created() {
    let creation = Creation::with(&grants(2));
    creation.store.submit(Write::Create { document: controller("made-x", made()) }.into()).await.unwrap();
    assert!(is_forbidden(&creation.apply("made-x", made()).await));
    assert!(matches!(creation.perform(delete("made-x")).await, Answer::Written(Err(StoreError::Forbidden(_)))));
    let get = Effect::Get { key: key("made-x"), view: View::Keys, live: false };
    assert!(matches!(creation.perform(get).await, Answer::Resource(Err(StoreError::Forbidden(_)))));
    let create = Effect::Write(Write::Create { document: controller("made-y", made()) });
    assert!(matches!(creation.perform(create).await, Answer::Written(Err(StoreError::Forbidden(_)))));
    let list = Effect::List { query: Query::all(controllers()), view: View::Keys };
    assert!(matches!(creation.perform(list).await, Answer::Page(Err(StoreError::Forbidden(_)))));
}

#[tokio::test]
async fn effects_on_controllers_reach_the_other_layers_without_such_a_grant() {
    let creation = Creation::with(&Grants::everything());
    let get = Effect::Get { key: key("made-x"), view: View::Keys, live: false };
    assert_eq!(creation.perform(get).await, Answer::Unit);
}

#[tokio::test]
async fn a_creator_that_was_created_itself_gives_no_rights() {
    let creation = Creation::with(&grants(2));
    let store = &*creation.store;
    assert!(read_creator(store, "maker").await.unwrap().is_err(), "it is not there");
    creation.apply("made-a", made()).await.unwrap();
    assert!(read_creator(store, "made-a").await.unwrap().is_err());
    store.submit(Write::Create { document: controller("maker", made()) }.into()).await.unwrap();
    let spec: Spec = serde_json::from_value(made()).unwrap();
    assert_eq!(read_creator(store, "maker").await.unwrap().map(|own| own.grants), Ok(spec.check().unwrap().grants));
}
