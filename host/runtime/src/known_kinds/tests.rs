use homeostat_component::{EntryPoint, KindDeclaration};
use homeostat_fixtures::demo_kind;
use homeostat_store::{Key, Query, View};
use parking_lot::Mutex;
use serde_json::json;

use super::*;
use crate::KindInfo;

/// Records the effects that reach it.
#[derive(Default)]
struct EffectLog(Mutex<Vec<Effect>>);

#[async_trait]
impl Effects for EffectLog {
    async fn perform(&self, _: &Call, effect: Effect) -> Answer {
        self.0.lock().push(effect);
        Answer::Unit
    }
}

/// Performs an effect. Returns the answer, and the effect that reached the inner layer.
async fn perform(effect: Effect) -> (Answer, Option<Effect>) {
    let kinds = Arc::new(Kinds::with_built_in(Default::default()));
    let declaration = KindDeclaration {
        kind: demo_kind("App"),
        plural: "apps".into(),
        namespaced: true,
        keys_only: false,
        schema: None,
    };
    kinds.declare(KindInfo::declared(&declaration, "test")).unwrap();
    let declaration =
        KindDeclaration { kind: demo_kind("Site"), plural: "sites".into(), namespaced: false, ..declaration };
    kinds.declare(KindInfo::declared(&declaration, "test")).unwrap();
    let layer = KnownKinds::new(kinds, EffectLog::default());
    let call = Call { id: 1, controller: "test".into(), entry: EntryPoint::Reconcile, key: None };
    let answer = layer.perform(&call, effect).await;
    (answer, layer.inner.0.into_inner().pop())
}

fn create(document: Value) -> Effect {
    Effect::Write(Write::Create { document })
}

#[tokio::test]
async fn a_kind_that_nobody_declared_is_not_found() {
    for kind in [demo_kind("Ghost"), Kind::new("demo.homeostat.dev", "v2", "App")] {
        let (answer, reached) =
            perform(Effect::Get { key: Key::new(kind.clone(), "a", "b"), view: View::Whole, live: false }).await;
        assert!(
            matches!(answer, Answer::Resource(Err(StoreError::NotFound(text))) if text.contains("demo.homeostat.dev"))
        );
        assert_eq!(reached, None);
        let (answer, _) = perform(Effect::List { query: Query::all(kind), view: View::Whole }).await;
        assert!(matches!(answer, Answer::Page(Err(StoreError::NotFound(_)))));
    }
    let ghost = json!({"apiVersion": "demo.homeostat.dev/v1", "kind": "Ghost", "metadata": {"name": "a"}});
    assert!(matches!(perform(create(ghost)).await.0, Answer::Written(Err(StoreError::NotFound(_)))));
}

#[tokio::test]
async fn declared_kinds_pass_and_get_their_default_namespace() {
    let effect = Effect::Get { key: Key::new(demo_kind("App"), "a", "b"), view: View::Whole, live: false };
    assert_eq!(perform(effect.clone()).await, (Answer::Unit, Some(effect)));
    let document = json!({"apiVersion": "demo.homeostat.dev/v1", "kind": "App", "metadata": {"name": "a"}});
    let (_, reached) = perform(create(document)).await;
    let Some(Effect::Write(Write::Create { document })) = reached else { panic!("it did not pass: {reached:?}") };
    assert_eq!(document["metadata"]["namespace"], "default");
}

/// A guest that could write them could grant itself everything.
#[tokio::test]
async fn a_guest_can_neither_read_nor_write_controllers() {
    for name in ["Controller", "ControllerRevision"] {
        let kind = Kind::new("homeostat.dev", "v1alpha1", name);
        let get = Effect::Get { key: Key::new(kind.clone(), "", "a"), view: View::Whole, live: false };
        let (answer, reached) = perform(get).await;
        assert!(matches!(answer, Answer::Resource(Err(StoreError::Forbidden(_)))), "{answer:?}");
        assert_eq!(reached, None);
        let (answer, _) = perform(Effect::List { query: Query::all(kind), view: View::Whole }).await;
        assert!(matches!(answer, Answer::Page(Err(StoreError::Forbidden(_)))), "{answer:?}");
        let document = json!({"apiVersion": "homeostat.dev/v1alpha1", "kind": name, "metadata": {"name": "a"}});
        let (answer, _) = perform(create(document)).await;
        assert!(matches!(answer, Answer::Written(Err(StoreError::Forbidden(_)))), "{answer:?}");
    }
}

#[tokio::test]
async fn a_guest_can_read_hosts_and_not_write_them() {
    let key = Key::new(Kind::new("homeostat.dev", "v1alpha1", "Host"), "", "a");
    let get = Effect::Get { key: key.clone(), view: View::Whole, live: false };
    assert_eq!(perform(get.clone()).await, (Answer::Unit, Some(get)));
    let document = json!({"apiVersion": "homeostat.dev/v1alpha1", "kind": "Host", "metadata": {"name": "a"}});
    let precondition = homeostat_store::Precondition::default();
    let propagation = homeostat_store::Propagation::Background;
    for write in [
        create(document),
        Effect::Write(Write::UpdateStatus { key: key.clone(), status: json!({}), precondition: precondition.clone() }),
        Effect::Write(Write::Delete { key, precondition, propagation, grace_seconds: None }),
    ] {
        let (answer, reached) = perform(write).await;
        assert!(
            matches!(&answer, Answer::Written(Err(StoreError::Forbidden(text))) if text.contains("only be read")),
            "{answer:?}"
        );
        assert_eq!(reached, None);
    }
}

/// A guest that takes `not-found` for a deleted resource would clean up after one that never existed.
#[tokio::test]
async fn a_key_with_the_scope_of_another_kind_is_invalid_and_not_absent() {
    let is_invalid = |answer: &Answer| {
        matches!(
            answer,
            Answer::Resource(Err(StoreError::Invalid(text)))
            | Answer::Done(Err(StoreError::Invalid(text)))
            | Answer::Written(Err(StoreError::Invalid(text))) if text.starts_with("namespace: ")
        )
    };
    for key in [Key::new(demo_kind("App"), "", "a"), Key::new(demo_kind("Site"), "default", "a")] {
        let precondition = homeostat_store::Precondition::default();
        let propagation = homeostat_store::Propagation::Background;
        for effect in [
            Effect::Get { key: key.clone(), view: View::Whole, live: false },
            Effect::Follow { target: key.clone() },
            Effect::Write(Write::Delete { key: key.clone(), precondition, propagation, grace_seconds: None }),
        ] {
            let (answer, reached) = perform(effect).await;
            assert!(is_invalid(&answer) && reached.is_none(), "{key}: {answer:?}");
        }
    }
    let get = Effect::Get { key: Key::new(demo_kind("Site"), "", "a"), view: View::Whole, live: false };
    assert_eq!(perform(get).await.0, Answer::Unit);
}

#[tokio::test]
async fn a_document_of_the_wrong_scope_or_without_a_kind_is_invalid() {
    let metadata = json!({"name": "a", "namespace": "b"});
    let document = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata});
    assert!(matches!(perform(create(document)).await.0, Answer::Written(Err(StoreError::Invalid(_)))));
    assert!(matches!(perform(create(json!({"kind": 3}))).await.0, Answer::Written(Err(StoreError::Invalid(_)))));
}

#[tokio::test]
async fn no_resource_is_created_while_its_definition_is_being_deleted() {
    let document = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "sites.demo.homeostat.dev", "deletionTimestamp": "2026-01-01T00:00:00Z" },
        "spec": {
            "group": "demo.homeostat.dev", "scope": "Cluster", "names": { "kind": "Site", "plural": "sites" },
            "versions": [{ "name": "v1", "served": true, "storage": true }],
        },
    });
    let kinds = Arc::new(Kinds::with_built_in(Default::default()));
    kinds.declare(KindInfo::from_definition(&document).unwrap()).unwrap();
    let layer = KnownKinds::new(kinds, EffectLog::default());
    let call = Call { id: 1, controller: "test".into(), entry: EntryPoint::Reconcile, key: None };
    let site = json!({ "apiVersion": "demo.homeostat.dev/v1", "kind": "Site", "metadata": { "name": "a" } });
    let refused = layer.perform(&call, create(site.clone())).await;
    assert!(matches!(refused, Answer::Written(Err(StoreError::NotFound(text))) if text.contains("being deleted")));
    let update = Effect::Write(Write::Update { document: site, precondition: Default::default() });
    assert_eq!(layer.perform(&call, update).await, Answer::Unit, "what is left of it can be written");
}
