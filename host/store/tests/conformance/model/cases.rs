//! Cases that random traffic may miss, one test each.

use homeostat_store::{Error, EventType, Revision, Scope, Write};
use serde_json::json;

use super::run::{in_order, is_waiting};
use crate::{Make, create, delete, key, next, on_every_store, small_history, thing, update_status};

on_every_store!(
    history_cut_anywhere_among_deletions_loses_none,
    a_watch_that_is_thousands_of_events_behind_loses_none,
    a_watch_reaches_the_revision_that_the_store_reports,
    a_dry_run_leaves_no_trace_for_any_watch,
);

/// S8, S9: a watch delivers every later change, in order, once; no event is lost silently.
async fn history_cut_anywhere_among_deletions_loses_none(make: Make) {
    let store = make(small_history(3));
    for round in 0..60_u64 {
        // Two changes per name, so that every compaction ends after a creation or after a deletion.
        let written = if round % 2 == 0 {
            create(&**store, thing("a", json!({}))).await
        } else {
            delete(&**store, key("a"), Default::default()).await.unwrap().resource
        };
        let newest = written.revision();
        let oldest = match store.watch(Scope::Everything, Revision::ZERO).await {
            Ok(_) => Revision::ZERO,
            Err(Error::Expired { oldest }) => oldest,
            Err(error) => panic!("{error}"),
        };
        let mut watch = store.watch(Scope::Everything, oldest).await.unwrap();
        for revision in oldest.0 + 1..=newest.0 {
            let event = next(&mut watch).await.unwrap();
            let kind = if revision % 2 == 1 { EventType::Added } else { EventType::Deleted };
            assert_eq!((event.revision, event.kind), (Revision(revision), kind));
            assert_eq!(event.previous.is_some(), kind == EventType::Deleted);
        }
        assert!(is_waiting(&mut watch).await);
    }
}

/// S8, S9: a watch delivers every later change, in order, once; no event is lost silently.
async fn a_watch_that_is_thousands_of_events_behind_loses_none(make: Make) {
    let store = make(Default::default());
    create(&**store, thing("a", json!({}))).await;
    let mut slow = store.watch(Scope::Everything, Revision::ZERO).await.unwrap();
    assert_eq!(next(&mut slow).await.unwrap().revision, Revision(1));
    // More events than one read scans, and than a store in a file keeps in memory.
    let mut last = 1;
    for round in 0..40_u64 {
        let statuses = (0..128_u64).map(|number| update_status(&**store, key("a"), json!([round, number])));
        for written in in_order(statuses.collect()).await {
            last += 1;
            assert_eq!(written.unwrap().resource.revision(), Revision(last));
        }
        // It reads, but far fewer events than there are.
        let expected = Revision(round + 2);
        assert_eq!(next(&mut slow).await.unwrap().revision, expected);
    }
    for revision in 42..=last {
        assert_eq!(next(&mut slow).await.unwrap().revision, Revision(revision));
    }
    assert!(is_waiting(&mut slow).await);
}

/// S1, S8: revisions only grow; a watch delivers every later change, in order, once.
async fn a_watch_reaches_the_revision_that_the_store_reports(make: Make) {
    let store = make(Default::default());
    let writing = tokio::spawn({
        let store = store.store.clone();
        async move {
            for number in 0..100 {
                create(&*store, thing(&format!("n{number}"), json!({}))).await;
                tokio::task::yield_now().await;
            }
        }
    });
    let (mut watch, mut at) = (store.watch(Scope::Everything, Revision::ZERO).await.unwrap(), Revision::ZERO);
    while at < Revision(100) {
        let told = store.revision();
        // A watch from the published revision has only later events.
        let mut later = store.watch(Scope::Everything, told).await.unwrap();
        while at < told {
            let event = next(&mut watch).await.unwrap();
            assert_eq!(event.revision, at.next());
            at = event.revision;
        }
        if told < Revision(100) {
            assert_eq!(next(&mut later).await.unwrap().revision, told.next());
        }
    }
    writing.await.unwrap();
}

async fn a_dry_run_leaves_no_trace_for_any_watch(make: Make) {
    let store = make(Default::default());
    let mut watch = store.watch(Scope::Everything, Revision::ZERO).await.unwrap();
    let dry = |write: Write| homeostat_store::Request { dry_run: true, ..write.into() };
    let answer = store.submit(dry(Write::Create { document: thing("a", json!({})) })).await.unwrap();
    assert_eq!(answer.change, Some(EventType::Added));
    assert!(is_waiting(&mut watch).await);
    assert_eq!(store.revision(), Revision::ZERO);
    assert!(crate::is_gone(&**store, &key("a")).await);
    create(&**store, thing("b", json!({}))).await;
    assert_eq!(next(&mut watch).await.unwrap().resource.key().name(), "b");
}
