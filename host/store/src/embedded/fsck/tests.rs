use std::fs;
use std::path::Path;

use redb::{ReadableTable, WriteTransaction};
use serde_json::{Value, json};

use super::{Fsck, PROBLEMS_MAX, fsck, readable};
use crate::embedded::codec::{LOG, META, META_FORMAT, OWNERS, RESOURCES, TIMES};
use crate::embedded::location::Location;
use crate::embedded::{EmbeddedStore, FORMAT, OpenError};
use crate::fixture::pod_key;
use crate::{Change, Options, Precondition, Revision, Scope, Store, Write, model};

fn path(name: &str) -> Vec<u8> {
    model::Path::of(&pod_key(name)).0
}

/// Creates a file with resources, owners, deletions, and a compacted history.
async fn filled(path: &Path) {
    let store = EmbeddedStore::open(path, Options { history_max: 6, ..Options::default() }).expect("a new store");
    for name in ["a", "b", "c"] {
        let owners = json!([{"apiVersion": "v1", "kind": "Owner", "name": "o", "uid": "u1"}]);
        let metadata = json!({"namespace": "default", "name": name, "ownerReferences": owners});
        let document = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata});
        store.write(Write::Create { document }).await.expect("it is new");
    }
    for round in 0..4 {
        let change = Change::Merge(json!({"spec": {"secret": format!("hunter{round}")}}));
        let write = Write::Patch { key: pod_key("b"), change, precondition: Precondition::default() };
        store.write(write).await.expect("it is there");
    }
    let (precondition, propagation) = Default::default();
    store
        .write(Write::Delete { key: pod_key("c"), precondition, propagation, grace_seconds: None })
        .await
        .expect("it is there");
    store.close().await;
}

fn damage(path: &Path, how: impl FnOnce(&WriteTransaction)) {
    let database = Location::File(path.to_owned()).open().expect("it is a store").database;
    let transaction = database.begin_write().expect("it can be written");
    how(&transaction);
    transaction.commit().expect("it can be written");
}

/// Checks a file, and asserts that the check leaves it unchanged.
fn look(path: &Path) -> Fsck {
    let before = fs::read(path).expect("it is there");
    let found = fsck(path).expect("it can be read");
    assert!(fs::read(path).expect("it is there") == before, "the file was changed");
    found
}

/// Damages a new file and returns the problems.
async fn after(how: impl FnOnce(&WriteTransaction)) -> Vec<String> {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("store");
    filled(&file).await;
    damage(&file, how);
    let problems = look(&file).problems;
    let problems: Vec<_> = problems.iter().map(ToString::to_string).collect();
    assert!(!problems.concat().contains("hunter"), "{problems:?}: the content of a document");
    problems
}

#[tokio::test]
async fn a_sound_file_is_sound_and_counted() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("store");
    filled(&file).await;
    let found = look(&file);
    assert!(found.is_sound(), "{found:?}");
    assert_eq!((found.resources, found.changes, found.owners), (2, 6, 2));
    assert_eq!((found.revision.0, found.oldest.0, found.format), (8, 2, 2));
}

#[tokio::test]
async fn a_file_of_format_1_is_one_of_today_with_its_next_write() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("store");
    filled(&file).await;
    damage(&file, |file| {
        file.open_table(META).expect("a store").insert(META_FORMAT, "1").expect("it works");
    });
    EmbeddedStore::open(&file, Options::default()).expect("it is a store").close().await;
    assert_eq!(look(&file).format, 1, "nothing was written");
    let store = EmbeddedStore::open(&file, Options::default()).expect("it is a store");
    let document = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "d"}});
    store.write(Write::Create { document }).await.expect("it is new");
    store.close().await;
    assert_eq!(look(&file).format, FORMAT);
}

#[tokio::test]
async fn a_document_that_is_damaged_is_named() {
    let found = after(|file| {
        let mut resources = file.open_table(RESOURCES).expect("a store");
        resources.insert(path("a").as_slice(), &b"{"[..]).expect("it works");
    })
    .await;
    assert!(found.contains(&"resources: /Pod/default/a: cannot be read".to_owned()), "{found:?}");
}

#[tokio::test]
async fn a_document_in_the_place_of_another_is_named() {
    let found = after(|file| {
        let mut resources = file.open_table(RESOURCES).expect("a store");
        let document = resources.get(path("a").as_slice()).expect("it works").expect("it is there").value().to_vec();
        resources.insert(path("z").as_slice(), document.as_slice()).expect("it works");
    })
    .await;
    assert!(found.contains(&"resources: /Pod/default/z: has the document of v1/Pod default/a".to_owned()), "{found:?}");
}

#[tokio::test]
async fn a_document_that_the_log_does_not_know_is_named() {
    let edit = |edit: fn(&mut Value)| {
        move |file: &WriteTransaction| {
            let mut resources = file.open_table(RESOURCES).expect("a store");
            let row = resources.get(path("b").as_slice()).expect("it works").expect("it is there").value().to_vec();
            let mut document: Value = serde_json::from_slice(&row).expect("it was written");
            edit(&mut document);
            resources.insert(path("b").as_slice(), document.to_string().as_bytes()).expect("it works");
        }
    };
    let found = after(edit(|document| document["spec"] = json!("other"))).await;
    assert_eq!(found, ["resources: /Pod/default/b: differs from the log at revision 7"]);
    let found = after(edit(|document| document["metadata"]["resourceVersion"] = json!("99"))).await;
    assert!(
        found.contains(&"resources: /Pod/default/b: has revision 99, and the store is at 8".to_owned()),
        "{found:?}"
    );
    let found = after(edit(|document| document["metadata"]["uid"] = json!(""))).await;
    assert!(found.contains(&"resources: /Pod/default/b: has no uid".to_owned()), "{found:?}");
    let found = after(|file| {
        file.open_table(RESOURCES).expect("a store").remove(path("b").as_slice()).expect("it works");
    })
    .await;
    let gone = "resources: /Pod/default/b: was not deleted in the log, but is missing at revision 7";
    assert!(found.contains(&gone.to_owned()), "{found:?}");
}

#[tokio::test]
async fn a_log_with_a_gap_a_damaged_row_or_one_too_many_is_named() {
    let row = |file: &WriteTransaction, revision: u64| {
        let log = file.open_table(LOG).expect("a store");
        log.get(revision).expect("it works").expect("it is there").value().to_vec()
    };
    let remove = |first: u64, last: u64| {
        move |file: &WriteTransaction| {
            let mut log = file.open_table(LOG).expect("a store");
            log.retain_in(first..=last, |_, _| false).expect("it works");
        }
    };
    let insert = |revision: u64, row: &[u8], file: &WriteTransaction| {
        file.open_table(LOG).expect("a store").insert(revision, row).expect("it works");
    };
    let found = after(remove(5, 6)).await;
    assert!(found.contains(&"log: 5: is missing, and so is every one up to 6".to_owned()), "{found:?}");
    let found = after(remove(8, 8)).await;
    assert!(found.contains(&"log: 8: is missing, and so is every one up to 8".to_owned()), "{found:?}");
    let found = after(|file| insert(5, b"?", file)).await;
    assert!(found.contains(&"log: 5: cannot be read".to_owned()), "{found:?}");
    let found = after(|file| insert(9, &row(file, 8), file)).await;
    assert!(found.contains(&"log: 9: is outside of the history of the store".to_owned()), "{found:?}");
    let found = after(|file| insert(1, &row(file, 8), file)).await;
    assert!(found.contains(&"log: 1: is outside of the history of the store".to_owned()), "{found:?}");
    let found = after(|file| insert(6, &row(file, 5), file)).await;
    assert!(found.contains(&"log: 6: has a document of revision 5".to_owned()), "{found:?}");
    assert!(found.contains(&"log: 6: does not start from the result of revision 5".to_owned()), "{found:?}");
    let found = after(|file| {
        let mut row = row(file, 5);
        // Changes the kind, but not the flag for the difference.
        row[0] &= 1 << 7;
        insert(5, &row, file);
    })
    .await;
    assert_eq!(found, ["log: 5: has a kind that contradicts the document before it"]);
}

#[tokio::test]
async fn an_index_of_owners_that_lacks_or_invents_is_named() {
    let entry = |uid: &str, name: &str| [model::owner_prefix(uid), path(name)].concat();
    let insert = |entry: Vec<u8>| {
        move |file: &WriteTransaction| {
            file.open_table(OWNERS).expect("a store").insert(entry.as_slice(), ()).expect("it works");
        }
    };
    let lacking = entry("u1", "a");
    let found = after(|file| {
        file.open_table(OWNERS).expect("a store").remove(lacking.as_slice()).expect("it works");
    })
    .await;
    assert_eq!(found, ["owners: u1//Pod/default/a: is missing"]);
    let found = after(insert(entry("u1", "c"))).await;
    assert_eq!(found, ["owners: u1//Pod/default/c: names a missing resource"]);
    let found = after(insert(entry("u2", "a"))).await;
    assert_eq!(found, ["owners: u2//Pod/default/a: names an owner that is not in the resource"]);
    let found = after(insert(b"?".to_vec())).await;
    assert_eq!(found, ["owners: ?: is malformed"]);
}

#[tokio::test]
async fn facts_and_times_that_cannot_be_are_named() {
    let fact = |name: &'static str, value: &'static str| {
        move |file: &WriteTransaction| {
            file.open_table(META).expect("a store").insert(name, value).expect("it works");
        }
    };
    let found = after(fact("id", "")).await;
    assert_eq!(found, ["meta: id: is empty"]);
    let found = after(fact("compacted", "9")).await;
    assert!(found.contains(&"meta: compacted: is beyond the revision, 8".to_owned()), "{found:?}");
    let found = after(fact("log", "8 5 5")).await;
    assert!(found.iter().any(|problem| problem.starts_with("meta: log: says that the log has 5 bytes")), "{found:?}");
    let found = after(|file| {
        let mut times = file.open_table(TIMES).expect("a store");
        // The number depends on the time it took to create the file.
        times.retain(|_, _| false).expect("it works");
        for (revision, at) in [(4, 9), (5, 8), (99, u64::MAX)] {
            times.insert(revision, at).expect("it works");
        }
    })
    .await;
    assert_eq!(found, ["times: 5: is earlier than the row before", "times: 99: is beyond the revision of the store"]);
}

#[tokio::test]
async fn problems_are_listed_up_to_a_bound_and_all_are_counted() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("store");
    filled(&file).await;
    damage(&file, |file| {
        let mut resources = file.open_table(RESOURCES).expect("a store");
        for number in 0..250 {
            resources.insert(path(&format!("n{number}")).as_slice(), &b"{"[..]).expect("it works");
        }
    });
    let found = look(&file);
    assert_eq!((found.problems.len(), found.problems_total), (PROBLEMS_MAX, 250));
}

#[tokio::test]
async fn a_flipped_byte_anywhere_is_found_or_does_no_harm() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("store");
    filled(&file).await;
    let whole = fs::read(&file).expect("it is there");
    let sound = look(&file);
    for at in (0..whole.len()).step_by(whole.len() / 150) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x20;
        fs::write(&file, &bytes).expect("it can be written");
        match fsck(&file) {
            Ok(found) => assert!(!found.is_sound() || found == sound, "{at}: {found:?}"),
            Err(OpenError::Damaged { .. } | OpenError::NewerFormat { .. }) => {}
            Err(error) => panic!("{at}: {error:?}"),
        }
        assert!(fs::read(&file).expect("it is there") == bytes, "{at}: the file was changed");
    }
}

#[tokio::test]
async fn a_file_that_is_in_use_missing_or_not_a_store_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("store");
    assert!(matches!(fsck(&file), Err(OpenError::Io { .. })));
    fs::write(&file, b"").expect("it can be written");
    assert!(matches!(fsck(&file), Err(OpenError::Damaged { .. })));
    assert_eq!(fs::read(&file).expect("it is there"), b"");
    fs::remove_file(&file).expect("it is there");
    let store = EmbeddedStore::open(&file, Options::default()).expect("a new store");
    assert!(matches!(fsck(&file), Err(OpenError::Locked { .. })));
    drop(store);
    assert!(look(&file).is_sound());
}

#[test]
fn a_displayed_row_has_no_hidden_characters() {
    assert_eq!(readable(b"a\x00\x01b\x1b[2J\xff\x00\x01"), "a/b\\u{1b}[2J\u{fffd}");
}

#[tokio::test]
async fn fsck_checks_changes_that_are_only_in_the_write_ahead_log() {
    let folder = tempfile::tempdir().expect("a folder");
    let (open, crashed) = (folder.path().join("open"), folder.path().join("crashed"));
    let store = EmbeddedStore::open(&open, Options::default()).expect("a new store");
    for name in ["a", "b"] {
        let metadata = json!({"namespace": "default", "name": name});
        let document = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata});
        store.write(Write::Create { document }).await.expect("it is new");
    }
    // As after a crash: the file is not closed.
    let mut bytes = fs::read(&open).expect("it is there");
    fs::write(&crashed, &bytes).expect("it can be written");
    let found = look(&crashed);
    assert_eq!((found.journaled, found.changes, found.resources, found.revision.0), (2, 2, 2, 2));
    assert!(found.is_sound(), "{found:?}");
    store.close().await;
    assert_eq!((look(&open).journaled, look(&open).changes), (0, 2));

    // The first of two changes that are only in the write-ahead log.
    bytes[4096 + 100] ^= 1;
    fs::write(&crashed, &bytes).expect("it can be written");
    let problems = look(&crashed).problems;
    assert!(problems.len() == 1 && problems[0].to_string().contains("journal: "), "{problems:?}");
    let refused = EmbeddedStore::open(&crashed, Options::default()).expect_err("a change is lost");
    assert!(matches!(&refused, OpenError::Damaged { reason, .. } if reason.contains("write-ahead log")), "{refused}");
    assert_eq!(fs::read(&crashed).expect("it is there"), bytes, "a file that is refused is left alone");
}

#[tokio::test]
async fn a_damaged_last_log_entry_is_reported_and_only_that_entry_is_lost() {
    let folder = tempfile::tempdir().expect("a folder");
    let (open, crashed) = (folder.path().join("open"), folder.path().join("crashed"));
    let store = EmbeddedStore::open(&open, Options::default()).expect("a new store");
    for (name, text) in [("a", ""), ("b", "long ".repeat(200).as_str())] {
        let metadata = json!({"namespace": "default", "name": name});
        let document = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": text});
        store.write(Write::Create { document }).await.expect("it is new");
    }
    let mut bytes = fs::read(&open).expect("it is there");
    let second = (4096..bytes.len()).step_by(512).filter(|at| bytes[*at..].starts_with(b"entry 1")).nth(1);
    let second = second.expect("there are two entries");
    // Damages a row, as a crash can.
    bytes[second + 300] ^= 1;
    fs::write(&crashed, &bytes).expect("it can be written");
    let found = look(&crashed);
    assert!(found.is_sound() && found.journaled == 1, "{found:?}");
    let cut_off = found.cut_off.expect("an entry that is not whole");
    assert!(cut_off.first == Revision(2) && !cut_off.is_damage, "{cut_off}");
    // Damages the header, which lies in one sector.
    bytes[second + 20] ^= 1;
    fs::write(&crashed, &bytes).expect("it can be written");
    let found = look(&crashed);
    assert!(!found.is_sound() && found.problems[0].to_string().contains("is damaged"), "{found:?}");
    drop(store);
    let store = EmbeddedStore::open(&crashed, Options::default()).expect("everything else is there");
    assert_eq!(store.revision(&Scope::Everything).await.unwrap(), Revision(1));
}
