//! The store in a file: durability, and files that it refuses to open.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use homeostat_conformance::{create, delete, next, small_history, update};
use homeostat_store::embedded::{EmbeddedStore, OpenError};
use homeostat_store::{Options, Query, Revision, Scope, Store};
use redb::{Database, TableDefinition};
use serde_json::json;

use crate::{all, everything, key, kind, newest, thing};

fn open(path: &Path) -> Result<EmbeddedStore, OpenError> {
    EmbeddedStore::open(path, Options::default())
}

/// Creates a store with some resources, and closes it.
async fn filled(path: &Path) -> Revision {
    let store = open(path).unwrap();
    for number in 0..20 {
        create(&store, thing(&format!("n{number}"), json!({"number": number}))).await;
    }
    delete(&store, key("n3"), Default::default()).await.unwrap();
    store.close().await;
    newest(&store).await
}

fn assert_untouched(path: &Path, wanted: impl Fn(&OpenError) -> bool) {
    let before = fs::read(path).unwrap();
    let refused = open(path).expect_err("should be refused");
    assert!(wanted(&refused), "{refused:?}");
    assert_eq!(fs::read(path).unwrap(), before, "{refused}: the file is as it was");
    let parent = path.parent().unwrap();
    assert_eq!(fs::read_dir(parent).unwrap().count(), 1, "nothing was left beside it");
}

#[tokio::test]
async fn a_store_that_is_opened_again_has_everything() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = open(&path).unwrap();
    let id = store.id().to_owned();
    create(&store, thing("a", json!({"x": [1.5, "ä"]}))).await;
    update(&store, thing("a", json!({"x": 2}))).await.unwrap();
    create(&store, thing("b", json!({}))).await;
    let before = everything(&store).await;
    drop(store);
    let store = open(&path).unwrap();
    assert_eq!(store.id(), id);
    assert_eq!(everything(&store).await, before);
    assert_eq!(create(&store, thing("c", json!({}))).await.revision(), Revision(4));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[tokio::test]
async fn a_watch_goes_on_over_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let last = filled(&path).await;
    let store = open(&path).unwrap();
    let mut watch = store.watch(Scope::Everything, Revision(5)).await.unwrap();
    create(&store, thing("later", json!({}))).await;
    for revision in 6..=last.0 + 1 {
        assert_eq!(next(&mut watch).await.unwrap().revision, Revision(revision));
    }
}

#[tokio::test]
async fn a_list_goes_on_over_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    filled(&path).await;
    let store = open(&path).unwrap();
    let whole = store.list(&Query::all(kind("Thing"))).await.unwrap().items;
    let mut query = Query { limit: Some(10), ..Query::all(kind("Thing")) };
    let first = store.list(&query).await.unwrap();
    query.from = first.next;
    delete(&store, whole[15].key().clone(), Default::default()).await.unwrap();
    drop(store);
    let store = open(&path).unwrap();
    let second = store.list(&query).await.unwrap();
    assert_eq!([first.items, second.items].concat(), whole);
}

#[tokio::test]
async fn history_stays_bounded_in_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = EmbeddedStore::open(&path, small_history(10)).unwrap();
    for number in 0..100 {
        create(&store, thing(&format!("n{number}"), json!({}))).await;
    }
    drop(store);
    let store = EmbeddedStore::open(&path, small_history(10)).unwrap();
    assert!(store.watch(Scope::Everything, Revision(89)).await.is_err());
    let mut watch = store.watch(Scope::Everything, Revision(90)).await.unwrap();
    assert_eq!(next(&mut watch).await.unwrap().revision, Revision(91));
}

#[tokio::test]
async fn a_store_that_is_open_elsewhere_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = open(&path).unwrap();
    create(&store, thing("a", json!({}))).await;
    assert_untouched(&path, |error| matches!(error, OpenError::Locked { .. }));
    assert_eq!(update(&store, thing("a", json!({"x": 1}))).await.unwrap().resource.revision(), Revision(2));
    store.close().await;
    assert_eq!(newest(&open(&path).unwrap()).await, Revision(2));
}

#[tokio::test]
async fn a_newer_format_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    // Without a write-ahead log, so that redb can open the file.
    let store = EmbeddedStore::open(&path, Options { wal_bytes: 0, ..Options::default() }).unwrap();
    create(&store, thing("a", json!({}))).await;
    drop(store);
    let database = Database::open(&path).unwrap();
    let transaction = database.begin_write().unwrap();
    let meta: TableDefinition<'_, &str, &str> = TableDefinition::new("meta");
    transaction.open_table(meta).unwrap().insert("format", "3").unwrap();
    transaction.commit().unwrap();
    // A file after a crash: redb would repair it before it reads the content.
    let crashed = fs::read(&path).unwrap();
    drop(database);
    let refused = |error: &OpenError| matches!(error, OpenError::NewerFormat { found: 3, .. });
    assert_untouched(&path, refused);
    fs::write(&path, crashed).unwrap();
    assert_untouched(&path, refused);
}

#[tokio::test]
async fn a_crash_at_any_moment_loses_no_acknowledged_write() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = open(&path).unwrap();
    let mut crashes = Vec::new();
    for number in 0..10 {
        create(&store, thing(&format!("n{number}"), json!({}))).await;
        crashes.push((fs::read(&path).unwrap(), everything(&store).await));
    }
    store.close().await;
    for (file, before) in crashes {
        fs::write(&path, file).unwrap();
        let store = open(&path).unwrap();
        assert_eq!(everything(&store).await, before);
        store.close().await;
    }
}

#[tokio::test]
async fn a_file_that_is_not_a_store_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let text = b"apiVersion: v1\nkind: List\n".repeat(1000);
    for content in [Vec::new(), b"x".to_vec(), text, vec![0; 100_000], vec![0xFF; 1 << 20]] {
        fs::write(&path, content).unwrap();
        assert_untouched(&path, |error| matches!(error, OpenError::Damaged { .. }));
    }
    fs::remove_file(&path).unwrap();
    let other = Database::create(&path).unwrap();
    let transaction = other.begin_write().unwrap();
    transaction.open_table(TableDefinition::<&str, u64>::new("something")).unwrap().insert("a", 1).unwrap();
    transaction.commit().unwrap();
    drop(other);
    assert_untouched(&path, |error| matches!(error, OpenError::Damaged { .. }));
}

#[tokio::test]
async fn a_damaged_file_is_refused_or_whole() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    filled(&path).await;
    let whole = fs::read(&path).unwrap();
    for length in [9, 100, 4096, whole.len() / 2, whole.len() - 1] {
        fs::write(&path, &whole[..length]).unwrap();
        assert_untouched(&path, |error| matches!(error, OpenError::Damaged { .. }));
    }
    // Both commit slots of the header, the magic number, and the version before them.
    for range in [0..9, 64..320] {
        let mut bytes = whole.clone();
        bytes[range].fill(0xA5);
        fs::write(&path, bytes).unwrap();
        assert_untouched(&path, |error| matches!(error, OpenError::Damaged { .. }));
    }
}

#[tokio::test]
async fn opening_finds_a_document_that_was_changed_outside_the_store() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    filled(&path).await;
    let whole = fs::read(&path).unwrap();
    let (right, wrong) = (br#""spec":{"number":7}"#, br#""spec":{"number":8}"#);
    let mut found = 0;
    for at in 0..whole.len() - right.len() {
        if whole[at..].starts_with(right) {
            let mut bytes = whole.clone();
            bytes[at..at + wrong.len()].copy_from_slice(wrong);
            fs::write(&path, bytes).unwrap();
            // Damage to free pages has no effect.
            match open(&path) {
                Err(OpenError::Damaged { .. }) => found += 1,
                Err(error) => panic!("{error}"),
                Ok(store) => {
                    let specs = all(&store).await.into_iter().map(|thing| thing.document()["spec"]["number"].clone());
                    assert_eq!(specs.filter(|number| *number == 8).count(), 1);
                }
            }
        }
    }
    assert!(found >= 2, "the resource and its row of the log");
}

#[tokio::test]
async fn a_path_that_cannot_be_used_says_why() {
    let folder = tempfile::tempdir().unwrap();
    for path in [folder.path().to_owned(), folder.path().join("missing/store")] {
        let refused = open(&path).expect_err("should be refused");
        assert!(matches!(refused, OpenError::Io { .. }), "{refused:?}");
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_concurrent_creators_of_a_file_end_with_one_store() {
    let folder = tempfile::tempdir().unwrap();
    let path = Arc::new(folder.path().join("store"));
    for _ in 0..5 {
        let opened: Vec<_> = (0..4)
            .map(|_| {
                let path = Arc::clone(&path);
                std::thread::spawn(move || open(&path))
            })
            .collect();
        let mut stores: Vec<_> = opened.into_iter().filter_map(|thread| thread.join().unwrap().ok()).collect();
        assert!(stores.len() <= 1, "one process at a time");
        let store = stores.pop().unwrap_or_else(|| open(&path).unwrap());
        create(&store, thing("a", json!({}))).await;
        drop(store);
        assert_eq!(newest(&open(&path).unwrap()).await, Revision(1));
        fs::remove_file(&*path).unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "no draft was left");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn close_finishes_submitted_writes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = Arc::new(open(&path).unwrap());
    let writers: Vec<_> = (0..200)
        .map(|number| {
            let store = Arc::clone(&store);
            tokio::spawn(async move {
                let document = thing(&format!("n{number}"), json!({}));
                store.write(homeostat_store::Write::Create { document }).await.is_ok()
            })
        })
        .collect();
    tokio::task::yield_now().await;
    store.close().await;
    let mut acknowledged = 0;
    for writer in writers {
        acknowledged += u64::from(writer.await.unwrap());
    }
    let store = open(&path).unwrap();
    assert_eq!(newest(&store).await, Revision(acknowledged));
    assert_eq!(all(&store).await.len() as u64, acknowledged);
}
