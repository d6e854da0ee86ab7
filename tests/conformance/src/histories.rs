//! Cases of watches that random traffic may miss.

use homeostat_store::{Error, EventType, Options, Request, Revision, Write};
use serde_json::json;

use crate::{Difference, Make, create, delete, in_order, is_gone, is_waiting, next, small_history, update_status};

/// S8, S9: a watch delivers every later change, in order, once; no event is lost silently.
pub(crate) async fn history_cut_anywhere_among_deletions_loses_none(make: Make) {
    let store = make(small_history(3)).await;
    let mut begin = store.begin().await;
    for round in 0..60_u64 {
        // Two changes per name, so that every compaction ends after a creation or after a deletion.
        let newest = if round % 2 == 0 {
            let created = create(&**store, store.thing("a", json!({}))).await.revision();
            begin.see(created).await;
            created
        } else {
            begin.see_deletion(&delete(&**store, store.key("a"), Default::default()).await.unwrap()).await
        };
        let oldest = match store.watch(store.scope(), Revision::ZERO).await {
            Ok(_) => Revision::ZERO,
            Err(Error::Expired { oldest }) => oldest,
            Err(error) => panic!("{error}"),
        };
        let mut watch = store.watch(store.scope(), oldest).await.unwrap();
        let (mut at, mut kinds) = (oldest, Vec::new());
        while at < newest {
            let event = next(&mut watch).await.unwrap();
            store.assert_next(at, event.revision);
            at = event.revision;
            assert_eq!(event.previous.is_some(), event.kind == EventType::Deleted);
            kinds.push(event.kind);
        }
        assert_eq!(at, newest);
        let last = if round % 2 == 0 { EventType::Added } else { EventType::Deleted };
        assert_eq!(kinds.last(), Some(&last));
        assert!(kinds.windows(2).all(|pair| pair[0] != pair[1]), "{kinds:?}");
        assert!(is_waiting(&mut watch).await);
    }
}

/// S8, S9: a watch delivers every later change, in order, once; no event is lost silently.
pub(crate) async fn a_watch_that_is_thousands_of_events_behind_loses_none(make: Make) {
    let store = make(Options::default()).await;
    let begin = store.begin().await;
    let mut last = create(&**store, store.thing("a", json!({}))).await.revision();
    let mut slow = store.watch(store.scope(), begin.at).await.unwrap();
    let mut at = next(&mut slow).await.unwrap().revision;
    assert_eq!(at, last);
    // More events than one read scans, and than a store in a file keeps in memory.
    let rounds = if store.differs(Difference::SeenLater) { 4 } else { 40 };
    for round in 0..rounds {
        let statuses = (0..128_u64).map(|number| update_status(&**store, store.key("a"), json!([round, number])));
        let written =
            in_order(statuses.collect()).await.into_iter().map(|written| written.unwrap().resource.revision());
        let mut revisions: Vec<_> = written.collect();
        if store.differs(Difference::SeenLater) {
            revisions.sort_unstable();
        }
        store.assert_consecutive(last, revisions.iter().copied());
        last = revisions[127];
        // It reads, but far fewer events than there are.
        let event = next(&mut slow).await.unwrap();
        store.assert_next(at, event.revision);
        at = event.revision;
    }
    store.assert_count(at, 41);
    while at < last {
        let event = next(&mut slow).await.unwrap();
        store.assert_next(at, event.revision);
        at = event.revision;
    }
    assert_eq!(at, last);
    assert!(is_waiting(&mut slow).await);
}

/// S1, S8: revisions only grow; a watch delivers every later change, in order, once.
pub(crate) async fn a_watch_reaches_the_revision_that_the_store_reports(make: Make) {
    let store = make(Options::default()).await;
    let begin = store.begin().await;
    let writing = tokio::spawn({
        let store = store.clone();
        async move {
            for number in 0..100 {
                create(&**store, store.thing(&format!("n{number}"), json!({}))).await;
                tokio::task::yield_now().await;
            }
        }
    });
    let mut watch = store.watch(store.scope(), begin.at).await.unwrap();
    let (mut seen, mut later) = (Vec::new(), Vec::new());
    while seen.len() < 100 {
        let told = store.newest().await;
        later.push((told, store.watch(store.scope(), told).await.unwrap()));
        // Where each revision is a change, the watch has all of them without a further write.
        let wanted = if store.differs(Difference::GapsInRevisions) { seen.len() as u64 + 1 } else { told.0 };
        while (seen.len() as u64) < wanted {
            seen.push(next(&mut watch).await.unwrap().revision);
        }
    }
    store.assert_consecutive(begin.at, seen.iter().copied());
    // A watch from a published revision has only later events, and all of them.
    for (told, mut watch) in later {
        if let Some(first) = seen.iter().find(|revision| **revision > told) {
            assert_eq!(next(&mut watch).await.unwrap().revision, *first);
        }
    }
    writing.await.unwrap();
}

pub(crate) async fn a_dry_run_leaves_no_trace_for_any_watch(make: Make) {
    let store = make(Options::default()).await;
    let begin = store.begin().await;
    let mut watch = store.watch(store.scope(), begin.at).await.unwrap();
    let before = store.everything().await;
    let dry = |write: Write| Request { dry_run: true, ..write.into() };
    let answer = store.submit(dry(Write::Create { document: store.thing("a", json!({})) })).await.unwrap();
    assert_eq!(answer.change, Some(EventType::Added));
    assert!(is_waiting(&mut watch).await);
    assert_eq!(store.everything().await, before);
    assert!(is_gone(&**store, &store.key("a")).await);
    create(&**store, store.thing("b", json!({}))).await;
    assert_eq!(next(&mut watch).await.unwrap().resource.key().name(), "b");
}
