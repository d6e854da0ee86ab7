use std::sync::Arc;

use homeostat_component::{Engine, EngineOptions};
use homeostat_fixtures::{FaultyStore, memory_store};
use homeostat_registry::Registry;
use homeostat_runtime::Host;
use homeostat_store::Store;

use super::*;
use crate::components::Components;
use crate::terminal::{Screen, Style};

#[test]
fn a_rejection_is_reported_again_only_with_another_cause() {
    let now = Instant::now();
    let why = |bytes: &[u8], reason: &str| RejectionCause {
        digest: Some(Digest::of(bytes)),
        reason: reason.to_owned(),
        stage: Stage::Run,
    };
    let told = || Rejection { since: now, why: why(b"1", "cut off"), told: true };
    let later = now + Duration::from_secs(1);
    assert!(Rejection::after(Some(told()), why(b"1", "cut off"), later).told);
    assert!(!Rejection::after(Some(told()), why(b"2", "cut off"), later).told);
    assert!(!Rejection::after(Some(told()), why(b"1", "other"), later).told);
    assert!(!Rejection::after(None, why(b"1", "cut off"), later).told);
}

#[test]
fn every_change_restarts_the_wait_before_a_rejection_is_reported() {
    let now = Instant::now();
    let why = || RejectionCause { digest: None, reason: "gone".to_owned(), stage: Stage::Read };
    let untold = Rejection { since: now, why: why(), told: false };
    let later = now + Duration::from_secs(1);
    let after = Rejection::after(Some(untold), why(), later);
    assert!(after.since == later && !after.told);
}

#[test]
fn an_unwritten_controller_is_retried_even_with_only_an_oci_tag() {
    let text = "apiVersion: homeostat.dev/v1alpha1\nkind: Controller\nmetadata: {name: a}\nspec: {component: {oci: \"registry.example/a:1\"}}\n";
    let (documents, _) = crate::manifest::read_bytes(Path::new("a.yaml"), text.as_bytes());
    let mut installed = FolderController::new(&documents[0], documents[0].controller.as_deref().unwrap());
    for (stage, is_unwritten) in [(Stage::Read, false), (Stage::Write, true), (Stage::Run, false)] {
        let why = RejectionCause { digest: None, reason: String::new(), stage };
        installed.refused = Some(Rejection { since: Instant::now(), why, told: false });
        assert_eq!(installed.is_unwritten(), is_unwritten, "{stage:?}");
    }
}

#[test]
fn reasons_are_a_list_and_digests_are_short() {
    assert_eq!(list(&["one", "two\nlines"]), "  - one\n  - two\n    lines");
    assert_eq!(short("sha256:0123456789abcdef"), "sha256:0123456789ab");
    assert_eq!(short("odd"), "odd");
}

#[test]
fn a_managed_document_has_the_folders_label_and_source_digest() {
    let document = json!({ "metadata": { "name": "a", "labels": { "b": "c" } }, "spec": { "component": {} } });
    let (one, source) = managed_document(&document, Some(&Digest::of(b"1")));
    assert_eq!(one["metadata"]["labels"], json!({ "b": "c", MANAGED_BY: MANAGER }));
    assert_eq!(one["metadata"]["annotations"][SOURCE], source.as_str());
    assert_eq!(one["spec"]["component"]["digest"], Digest::of(b"1").as_str());
    assert_ne!(managed_document(&document, Some(&Digest::of(b"2"))).1, source, "other code is another source");
    assert_eq!(managed_document(&document, Some(&Digest::of(b"1"))).1, source);
}

/// The document of controller `a` in the folder, which names a component, and its source digest.
fn of_file(concurrency: u32) -> (Value, String) {
    let spec = json!({ "component": { "digest": Digest::of(b"code").as_str() }, "concurrency": concurrency });
    let document = json!({ "apiVersion": API_VERSION, "kind": KIND, "metadata": { "name": "a" }, "spec": spec });
    managed_document(&document, None)
}

/// The document of the same controller by another client.
fn of_somebody() -> Value {
    let (mut document, _) = of_file(7);
    document["metadata"] = json!({ "name": "a" });
    document
}

/// A folder whose host has a store with concurrent writes by others.
async fn folder(scratch: &Path) -> (ControllerInstaller, Arc<FaultyStore>) {
    let store = FaultyStore::over(memory_store());
    let engine = Engine::new(EngineOptions::default()).unwrap();
    let host = Host::start(homeostat_runtime::Options::new(engine, store.clone())).await.unwrap();
    let registry = Registry::new(homeostat_registry::Options::default()).unwrap();
    let code = Components::new(scratch.join("components"), scratch.to_owned(), registry, None);
    (ControllerInstaller::new(host, Screen::new(Style::Lines), code), store)
}

/// Writes the folder's document. Returns the result, and the concurrency in the store afterwards.
async fn written(
    folder: &ControllerInstaller,
    (document, source): &(Value, String),
) -> (Option<ControllerWrite>, Value) {
    let written = retry_on_conflict(|| folder.write_if_changed("a", document, source)).await.unwrap();
    let stored = folder.host.store().get(&key("a")).await.unwrap();
    (written, stored.document()["spec"]["concurrency"].clone())
}

#[tokio::test]
async fn a_concurrent_undo_is_seen_before_the_write_ends_it() {
    let scratch = tempfile::tempdir().unwrap();
    let (folder, store) = folder(scratch.path()).await;
    assert_eq!(written(&folder, &of_file(1)).await.1, 1);
    let (mut undone, _) = of_file(1);
    undone["spec"]["concurrency"] = 3.into();
    undone["metadata"]["annotations"][UNDONE_TO] = "5".into();
    store.come_between(Write::Apply { document: undone, manager: MANAGER.to_owned(), force: true });
    let (done, concurrency) = written(&folder, &of_file(2)).await;
    assert_eq!(done.unwrap().ends_undo_to.as_deref(), Some("5"), "nobody would have said that it is over");
    assert_eq!(concurrency, 2, "the file has changed");
}

#[tokio::test]
async fn a_controller_that_another_client_creates_or_takes_over_concurrently_stays() {
    let scratch = tempfile::tempdir().unwrap();
    let (folder, store) = folder(scratch.path()).await;
    store.come_between(Write::Create { document: of_somebody() });
    let (done, concurrency) = written(&folder, &of_file(1)).await;
    assert!(done.is_none() && concurrency == 7, "{concurrency}");
    store
        .write(Write::Delete {
            key: key("a"),
            precondition: Precondition::default(),
            propagation: Propagation::Background,
            grace_seconds: None,
        })
        .await
        .unwrap();

    assert_eq!(written(&folder, &of_file(1)).await.1, 1);
    store.come_between(Write::Update { document: of_somebody(), precondition: Precondition::default() });
    let (done, concurrency) = written(&folder, &of_file(2)).await;
    assert!(done.is_none() && concurrency == 7, "{concurrency}");
}

#[tokio::test]
async fn a_controller_taken_over_while_its_file_is_deleted_stays() {
    let scratch = tempfile::tempdir().unwrap();
    let (mut folder, store) = folder(scratch.path()).await;
    written(&folder, &of_file(1)).await;
    store.come_between(Write::Update { document: of_somebody(), precondition: Precondition::default() });
    folder.uninstall("a").await;
    assert_eq!(store.get(&key("a")).await.unwrap().document()["spec"]["concurrency"], 7);
}
