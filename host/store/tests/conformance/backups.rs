//! Backup and restore of a store in a file: complete, of one revision, never over another file.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use homeostat_conformance::{create, delete, next, update, update_status};
use homeostat_store::embedded::{BackupError, EmbeddedStore, OpenError, RestoreOptions, backup, fsck, restore};
use homeostat_store::{Error, Options, Query, Revision, Scope, Store};
use serde_json::json;

use crate::{all, everything, key, kind, newest, thing};

async fn filled(path: &Path) -> EmbeddedStore {
    let store = EmbeddedStore::open(path, Options::default()).unwrap();
    for number in 0..30 {
        create(&store, thing(&format!("n{number:02}"), json!({"number": number}))).await;
    }
    delete(&store, key("n03"), Default::default()).await.unwrap();
    store
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[tokio::test]
async fn a_backup_is_the_store_with_its_history() {
    let folder = tempfile::tempdir().unwrap();
    let store = filled(&folder.path().join("store")).await;
    let to = folder.path().join("backup");
    let report = backup(&store, &to).await.unwrap();
    let at = newest(&store).await;
    assert_eq!((report.id.as_str(), report.revision, report.resources), (store.id(), at, 29));
    assert_eq!(report.bytes, fs::metadata(&to).unwrap().len());
    assert_eq!(names(folder.path()), ["backup", "store"], "no draft was left");
    assert!(fsck(&to).unwrap().is_sound());
    let copy = EmbeddedStore::open(&to, Options::default()).unwrap();
    assert_eq!(everything(&copy).await, everything(&store).await);
    assert_eq!(copy.id(), store.id());
    let mut watches = [
        copy.watch(Scope::Everything, Revision::ZERO).await.unwrap(),
        store.watch(Scope::Everything, Revision::ZERO).await.unwrap(),
    ];
    for _ in 0..at.0 {
        let [one, two] = &mut watches;
        assert_eq!(next(one).await, next(two).await);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_of_a_running_store_is_one_moment() {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(filled(&folder.path().join("store")).await);
    let (done, running) = tokio::sync::watch::channel(());
    let writing = tokio::spawn({
        let store = Arc::clone(&store);
        async move {
            let mut round = 0;
            while running.has_changed().is_ok() {
                round += 1;
                update(&*store, thing("n00", json!({"round": round}))).await.unwrap();
                update_status(&*store, key("n01"), json!({"round": round})).await.unwrap();
            }
        }
    });
    for number in 0..5 {
        let before = newest(&*store).await;
        let to = folder.path().join(format!("backup-{number}"));
        let report = backup(&store, &to).await.unwrap();
        assert!(before <= report.revision && report.revision <= newest(&*store).await);
        let found = fsck(&to).unwrap();
        assert!(found.is_sound(), "{found:?}");
        assert_eq!((found.revision, found.resources), (report.revision, 29));
    }
    drop(done);
    writing.await.unwrap();
}

#[tokio::test]
async fn a_backup_never_replaces_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = filled(&path).await;
    let to = folder.path().join("backup");
    fs::write(&to, "precious").unwrap();
    for to in [&to, &path] {
        assert!(matches!(backup(&store, to).await, Err(BackupError::Exists { .. })));
    }
    assert_eq!(fs::read(&to).unwrap(), b"precious");
    let nowhere = backup(&store, &folder.path().join("missing/backup")).await;
    assert!(matches!(nowhere, Err(BackupError::Io { .. })), "{nowhere:?}");
    assert_eq!(names(folder.path()), ["backup", "store"]);
    store.close().await;
    let closed = backup(&store, &folder.path().join("later")).await;
    assert!(matches!(closed, Err(BackupError::Store(Error::Closed))), "{closed:?}");
}

/// S1, S8: revisions only grow; a watch delivers every later change, in order, once.
#[tokio::test]
async fn a_restored_store_is_another_store_that_continues() {
    let folder = tempfile::tempdir().unwrap();
    let store = filled(&folder.path().join("store")).await;
    let (from, to) = (folder.path().join("backup"), folder.path().join("restored"));
    backup(&store, &from).await.unwrap();
    let backed_up = all(&store).await;
    let page = store.list(&Query { limit: Some(3), ..Query::all(kind("Thing")) }).await.unwrap();
    // The lost store continued after the backup.
    for number in 0..10 {
        create(&store, thing(&format!("lost{number}"), json!({}))).await;
    }
    let before = fs::read(&from).unwrap();
    let report = restore(&from, &to, &RestoreOptions::default()).unwrap();
    assert_eq!(fs::read(&from).unwrap(), before, "a backup is only read");
    assert_eq!((report.id_before.as_str(), report.revision_before, report.resources), (store.id(), Revision(31), 29));
    assert_eq!(names(folder.path()), ["backup", "restored", "store"], "no draft was left");
    assert!(fsck(&to).unwrap().is_sound());

    let restored = EmbeddedStore::open(&to, Options::default()).unwrap();
    let at = newest(&restored).await;
    assert_eq!((restored.id(), at), (report.id.as_str(), report.revision));
    assert_ne!(restored.id(), store.id());
    assert_eq!(all(&restored).await, backed_up);
    for from in [0, 5, 31, 41] {
        let watch = restored.watch(Scope::Everything, Revision(from)).await;
        assert!(matches!(watch, Err(Error::Expired { .. })), "{from}: {watch:?}");
    }
    let token = restored.list(&Query { limit: Some(3), from: page.next, ..Query::all(kind("Thing")) }).await;
    assert!(matches!(token, Err(Error::Expired { .. })), "{token:?}");
    let mut watch = restored.watch(Scope::Everything, at).await.unwrap();
    let written = update(&restored, thing("n00", json!({"x": 1}))).await.unwrap().resource;
    assert_eq!(written.revision(), report.revision.next());
    let event = next(&mut watch).await.unwrap();
    assert_eq!(event.previous.as_ref(), Some(&backed_up[0]));
    drop(restored);
    assert!(fsck(&to).unwrap().is_sound());
}

#[tokio::test]
async fn a_restore_replaces_a_file_only_on_request_and_when_it_is_not_in_use() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = filled(&path).await;
    let from = folder.path().join("backup");
    backup(&store, &from).await.unwrap();
    let asked = RestoreOptions { overwrite: true, revisions_skipped: 0 };
    let refused = restore(&from, &path, &RestoreOptions::default());
    assert!(matches!(refused, Err(OpenError::Exists { .. })), "{refused:?}");
    for (from, to) in [(&from, &path), (&path, &from)] {
        let refused = restore(from, to, &asked);
        assert!(matches!(refused, Err(OpenError::Locked { .. })), "{refused:?}");
    }
    let itself = restore(&from, &from, &asked);
    assert!(matches!(itself, Err(OpenError::Exists { .. })), "{itself:?}");
    drop(store);
    // The reason for the restore.
    fs::write(&path, "damaged").unwrap();
    assert_eq!(restore(&from, &path, &asked).unwrap().revision, Revision(31));
    assert_eq!(all(&EmbeddedStore::open(&path, Options::default()).unwrap()).await.len(), 29);
    assert_eq!(names(folder.path()), ["backup", "store"]);
}

#[tokio::test]
async fn a_damaged_backup_is_not_restored() {
    let folder = tempfile::tempdir().unwrap();
    let store = filled(&folder.path().join("store")).await;
    let (from, to) = (folder.path().join("backup"), folder.path().join("restored"));
    backup(&store, &from).await.unwrap();
    let whole = fs::read(&from).unwrap();
    let database = redb::Database::open(&from).unwrap();
    let transaction = database.begin_write().unwrap();
    let log: redb::TableDefinition<'_, u64, &[u8]> = redb::TableDefinition::new("log");
    transaction.open_table(log).unwrap().remove(7).unwrap();
    transaction.commit().unwrap();
    drop(database);
    let refused = restore(&from, &to, &RestoreOptions::default());
    assert!(matches!(&refused, Err(OpenError::Damaged { reason, .. }) if reason.contains("log: 7")), "{refused:?}");
    fs::write(&from, &whole[..whole.len() / 2]).unwrap();
    let refused = restore(&from, &to, &RestoreOptions::default());
    assert!(matches!(refused, Err(OpenError::Damaged { .. })), "{refused:?}");
    assert_eq!(names(folder.path()), ["backup", "store"]);
}
