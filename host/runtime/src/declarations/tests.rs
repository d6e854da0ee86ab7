use homeostat_component::{Changes, DuringDelay};
use homeostat_fixtures::{create, delete, memory_store};
use homeostat_store::memory::MemoryStore;
use homeostat_store::{Scope, Store};

use super::*;
use crate::Kinds;
use crate::context::tests::context;
use crate::events::EventFilter;

fn sites(version: &str) -> KindDeclaration {
    let kind = Kind::new("example.com", version, "Site");
    let schema = Some(json!({ "type": "object", "properties": { "spec": { "type": "object" } } }));
    KindDeclaration { kind, plural: "sites".to_owned(), namespaced: true, keys_only: false, schema }
}

fn managing(manages: KindDeclaration) -> ControllerSpec {
    ControllerSpec {
        manages,
        changes: Changes::All,
        watches: Vec::new(),
        poll_every: None,
        resync_every: None,
        backoff: None,
        concurrency: None,
        during_delay: DuringDelay::RunNow,
    }
}

fn site(version: &str, name: &str) -> Value {
    let api_version = format!("example.com/{version}");
    json!({ "apiVersion": api_version, "kind": "Site", "metadata": { "name": name, "namespace": "default" } })
}

fn site_key() -> Key {
    Key::new(sites("v1").kind, "default", "one")
}

/// Returns the stored declarations.
async fn kept(store: &MemoryStore) -> Vec<String> {
    let mut names = Vec::new();
    for_each_listed(store, &host_kinds::declarations(), |resource| names.push(resource.key().name().to_owned()))
        .await
        .unwrap();
    names
}

fn definition(group: &str, scope: &str, versions: &[&str]) -> Value {
    let schema = json!({ "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } });
    let version =
        |name: &&str| json!({ "name": name, "served": true, "storage": *name == versions[0], "schema": schema });
    let versions: Vec<Value> = versions.iter().map(version).collect();
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("sites.{group}") },
        "spec": { "group": group, "scope": scope, "names": { "kind": "Site", "plural": "sites" }, "versions": versions },
    })
}

#[tokio::test]
async fn a_kind_outlives_the_code_that_declared_it() {
    let store = memory_store();
    context(store.clone()).declare("web", &managing(sites("v1")), &[]).await.unwrap();
    create(&*store, site("v1", "one")).await;

    let context = context(store.clone());
    context.declare_stored().await.unwrap();
    let known = context.kinds.by_plural("example.com", "v1", "sites").expect("nothing was loaded, and it is known");
    assert_eq!((known.namespaced, &known.schema), (true, &sites("v1").schema));
    let wrong = json!({ "spec": 3 });
    let mut document = site("v1", "two");
    document["spec"] = wrong["spec"].clone();
    assert!(store.write(Write::Create { document }).await.is_err(), "its schema is enforced");
}

#[tokio::test]
async fn a_declaration_is_stored_once_and_again_when_it_changes() {
    let store = memory_store();
    let first = context(store.clone());
    first.declare("web", &managing(sites("v1")), &[]).await.unwrap();
    let revision = store.revision(&Scope::Everything).await.unwrap();
    first.declare("web", &managing(sites("v1")), &[]).await.unwrap();
    first.declare("other", &managing(KindDeclaration { schema: None, ..sites("v1") }), &[]).await.unwrap();
    let again = context(store.clone());
    again.declare_stored().await.unwrap();
    again.declare("web", &managing(sites("v1")), &[]).await.unwrap();
    assert_eq!(store.revision(&Scope::Everything).await.unwrap(), revision, "nothing was written of what was known");
    let schema = Some(json!({ "type": "object", "properties": { "spec": { "type": "integer" } } }));
    again.declare("web", &managing(KindDeclaration { schema: schema.clone(), ..sites("v1") }), &[]).await.unwrap();
    let last = context(store.clone());
    last.declare_stored().await.unwrap();
    assert_eq!(last.kinds.of(&sites("v1").kind).unwrap().schema, schema);
}

#[tokio::test]
async fn a_declaration_ends_when_no_controller_and_no_resource_has_its_kind() {
    let store = memory_store();
    let context = context(store.clone());
    context.declare("web", &managing(sites("v1")), &[]).await.unwrap();
    create(&*store, site("v1", "one")).await;
    assert!(!context.prune_declarations().await.unwrap(), "a controller has it");
    context.withdraw("web");
    assert!(!context.prune_declarations().await.unwrap(), "a resource is there");
    assert_eq!(kept(&store).await, ["site.example.com"]);
    delete(&*store, site_key()).await;
    assert!(context.prune_declarations().await.unwrap());
    assert!(context.kinds.is_ending(&sites("v1").kind), "nothing new of it is taken");
    assert!(!context.prune_declarations().await.unwrap());
    assert_eq!((kept(&store).await.len(), context.kinds.of(&sites("v1").kind)), (0, None));
    // A declaration that comes back starts from nothing.
    context.declare("web", &managing(sites("v2")), &[]).await.unwrap();
    assert_eq!(kept(&store).await, ["site.example.com"]);
}

#[tokio::test]
async fn a_resource_created_while_its_kind_ends_keeps_the_kind() {
    let store = memory_store();
    let context = context(store.clone());
    context.declare("web", &managing(sites("v1")), &[]).await.unwrap();
    context.withdraw("web");
    assert!(context.prune_declarations().await.unwrap());
    create(&*store, site("v1", "one")).await;
    assert!(!context.prune_declarations().await.unwrap());
    assert!(context.kinds.stores(&sites("v1").kind) && !context.kinds.is_ending(&sites("v1").kind));
}

#[tokio::test]
async fn a_controller_that_is_not_loaded_keeps_every_declaration() {
    let store = memory_store();
    context(store.clone()).declare("web", &managing(sites("v1")), &[]).await.unwrap();
    create(&*store, controller("web")).await;
    let context = context(store.clone());
    context.declare_stored().await.unwrap();
    for _ in 0..3 {
        assert!(!context.prune_declarations().await.unwrap());
    }
    assert!(context.kinds.stores(&sites("v1").kind));
}

#[tokio::test]
async fn an_unclaimed_kind_is_replaced_by_another_version_and_migrated() {
    let store = memory_store();
    let context = context(store.clone());
    context.declare("web", &managing(sites("v1")), &[]).await.unwrap();
    create(&*store, site("v1", "one")).await;
    let refused = context.declare("new", &managing(sites("v2")), &[]).await;
    assert!(matches!(refused, Err(Error::KindDiffers { .. })), "a controller has the other version: {refused:?}");
    context.withdraw("web");
    context.prune_declarations().await.unwrap();
    let elsewhere = KindDeclaration { namespaced: false, ..sites("v2") };
    let refused = context.declare("new", &managing(elsewhere), &[]).await;
    assert!(matches!(refused, Err(Error::KindDiffers { .. })), "its resources would have other keys: {refused:?}");
    context.declare("new", &managing(sites("v2")), &[]).await.unwrap();
    assert!(context.kinds.stores(&sites("v2").kind));
    assert_eq!(store.get(&site_key()).await.unwrap().key().kind(), &sites("v2").kind);
}

fn controller(name: &str) -> Value {
    json!({ "apiVersion": API_VERSION, "kind": "Controller", "metadata": { "name": name } })
}

#[tokio::test]
async fn a_controller_in_another_version_replaces_its_own_declaration() {
    let store = memory_store();
    context(store.clone()).declare("web", &managing(sites("v1")), &[]).await.unwrap();
    create(&*store, site("v1", "one")).await;
    for name in ["web", "other"] {
        create(&*store, controller(name)).await;
    }
    let context = context(store.clone());
    context.declare_stored().await.unwrap();
    let refused = context.declare("other", &managing(sites("v2")), &[]).await;
    assert!(matches!(refused, Err(Error::KindDiffers { .. })), "web is to be loaded yet: {refused:?}");
    context.declare("web", &managing(sites("v2")), &[]).await.unwrap();
    assert_eq!(store.get(&site_key()).await.unwrap().key().kind(), &sites("v2").kind);
    let refused = context.declare("web", &managing(sites("v3")), &[]).await;
    assert!(matches!(refused, Err(Error::KindDiffers { .. })), "it runs: {refused:?}");
}

#[tokio::test]
async fn a_definition_that_is_changed_waits_for_no_controller_to_be_loaded() {
    let store = memory_store();
    let first = context(store.clone());
    first
        .submit(Write::Create { document: definition("example.com", "Namespaced", &["v1", "v2"]) }.into())
        .await
        .unwrap();
    first.declare("web", &managing(sites("v1")), &[]).await.unwrap();
    create(&*store, site("v1", "one")).await;
    create(&*store, controller("web")).await;
    let context = context(store.clone());
    context.declare_stored().await.unwrap();
    let change = definition("example.com", "Namespaced", &["v2", "v1"]);
    let write = Write::Update { document: change, precondition: Precondition::default() };
    context.submit(write.into()).await.unwrap();
    context.declare("web", &managing(sites("v2")), &[]).await.unwrap();
    assert_eq!(store.get(&site_key()).await.unwrap().key().kind(), &sites("v2").kind);
}

#[tokio::test]
async fn a_definition_takes_over_a_kind_that_nobody_claims() {
    let store = memory_store();
    let first = context(store.clone());
    first.declare("web", &managing(sites("v1")), &[]).await.unwrap();
    create(&*store, site("v1", "one")).await;
    let document = definition("example.com", "Namespaced", &["v2", "v1"]);
    let write = || Write::Create { document: document.clone() }.into();
    assert!(matches!(first.submit(write()).await, Err(Error::KindDiffers { .. })), "a controller needs it as it is");
    first.withdraw("web");
    first.prune_declarations().await.unwrap();
    first.submit(write()).await.unwrap();
    assert_eq!(store.get(&site_key()).await.unwrap().key().kind(), &sites("v2").kind);
    first.prune_declarations().await.unwrap();
    assert_eq!(kept(&store).await.len(), 0, "the definition alone says what it is");
    let info = first.kinds.of(&sites("v2").kind).unwrap();
    assert!(first.kinds.goes_with(&info), "and its resources go with it");
    let again = context(store.clone());
    again.declare_stored().await.unwrap();
    assert_eq!(again.events.list(&EventFilter::default()).len(), 0);
    assert!(again.kinds.stores(&sites("v2").kind));
}

#[tokio::test]
async fn a_built_in_kind_that_a_component_watches_never_ends() {
    let store = memory_store();
    let context = context(store.clone());
    let kind = Kind::new("", "v1", "Namespace");
    let plural = "namespaces".to_owned();
    let namespaces = KindDeclaration { kind: kind.clone(), plural, namespaced: false, keys_only: false, schema: None };
    context.declare("web", &managing(namespaces), &[]).await.unwrap();
    context.withdraw("web");
    for _ in 0..3 {
        context.prune_declarations().await.unwrap();
    }
    assert!(kept(&store).await.is_empty() && context.kinds.stores(&kind));
}

#[tokio::test]
async fn a_definition_never_takes_over_a_kind_that_is_built_in() {
    let store = memory_store();
    let context = context(store.clone());
    let mut document = definition("homeostat.dev", "Cluster", &["v1alpha1"]);
    document["metadata"]["name"] = "controllers.homeostat.dev".into();
    document["spec"]["names"] = json!({ "kind": "Controller", "plural": "controllers" });
    let refused = context.submit(Write::Create { document: document.clone() }.into()).await;
    assert!(matches!(refused, Err(Error::ReservedKind(_))), "{refused:?}");
    // A definition that reached the store in another way declares nothing, so nothing is deleted with it.
    let stored = store.write(Write::Create { document }).await.unwrap().resource;
    context.declare_stored().await.unwrap();
    let info = KindInfo::from_definition(stored.document()).unwrap();
    assert!(!context.kinds.goes_with(&info));
}

#[tokio::test]
async fn only_the_host_writes_declarations() {
    let store = memory_store();
    let context = context(store.clone());
    context.declare("web", &managing(sites("v1")), &[]).await.unwrap();
    let key = key(&sites("v1").kind);
    let (precondition, propagation) = (Precondition::default(), Propagation::Background);
    let deletion = Write::Delete { key: key.clone(), precondition, propagation, grace_seconds: None };
    let creation = Write::Create { document: store.get(&key).await.unwrap().document().clone() };
    for write in [deletion, creation] {
        assert!(matches!(context.submit(write.into()).await, Err(Error::ReadOnlyKind(_))));
    }
    assert!(host_kinds::is_reserved(&host_kinds::declarations()), "no grant covers it");
    let refused = check_owner(&managing(KindDeclaration { kind: host_kinds::declarations(), ..sites("v1") }));
    assert!(matches!(refused, Err(Error::ReservedKind(_))), "{refused:?}");
}

#[tokio::test]
async fn an_unreadable_declaration_is_reported_and_stays() {
    let store = memory_store();
    let metadata = json!({ "name": "site.example.com" });
    create(
        &*store,
        json!({ "apiVersion": API_VERSION, "kind": DECLARATION_KIND, "metadata": metadata, "spec": { "group": 3 } }),
    )
    .await;
    let context = context(store.clone());
    context.declare_stored().await.unwrap();
    let told = context.events.list(&EventFilter::default());
    assert_eq!((told.len(), told[0].reason.as_ref()), (1, "BadDeclaration"));
    for _ in 0..2 {
        context.prune_declarations().await.unwrap();
    }
    assert_eq!(kept(&store).await, ["site.example.com"]);
}

#[tokio::test]
async fn a_definition_written_by_a_guest_is_checked_like_any_other() {
    let store = memory_store();
    let context = context(store.clone());
    context.declare("web", &managing(sites("v1")), &[]).await.unwrap();
    let checked = crate::known_kinds::ValidatingStore {
        store: store.clone(),
        kinds: Arc::<Kinds>::clone(&context.kinds),
        admission: context.admission.clone(),
    };
    for bad in [
        definition("example.com", "Cluster", &["v1"]),
        definition("example.com", "Namespaced", &["v2"]),
        definition("other.dev", "Nowhere", &["v1"]),
    ] {
        let refused = checked.write(Write::Create { document: bad }).await;
        assert!(matches!(refused, Err(StoreError::Invalid { .. } | StoreError::InvalidFields { .. })), "{refused:?}");
    }
    assert_eq!(store.list(&homeostat_store::Query::all(definitions::definitions())).await.unwrap().items.len(), 0);
    checked.write(Write::Create { document: definition("other.dev", "Cluster", &["v1"]) }).await.unwrap();
    assert!(context.kinds.stores(&Kind::new("other.dev", "v1", "Site")), "it is declared when the write is answered");
}
