//! Documents that cannot be read leave the other resources of their kind as they are.

use super::server::{Server, create, delete, key, resize, size, sizes, widget, widgets};
use super::{cache, next, status, subscribed, wait_for};
use crate::{Error, EventType, Precondition, Result, Revision, Store, Write};

/// Returns whether an answer says that the document cannot be read.
fn is_refused<T>(answer: Result<T>) -> bool {
    matches!(answer, Err(Error::Unavailable { reason }) if reason.contains("demo.dev/v1/Widget default/a cannot be read"))
}

#[tokio::test(start_paused = true)]
async fn a_document_that_becomes_unreadable_is_left_out_until_it_can_be_read() {
    let server = Server::new();
    for name in ["a", "b"] {
        create(&*server.store(), name).await.expect("a free name");
    }
    let (store, _user) = subscribed(&server).await;
    let mut watch = store.watch(widgets(), Revision(2)).await.expect("the history is there");
    let opens = server.count(|counts| &counts.opens);
    server.fault(|faults| faults.unreadable = Some("a"));
    resize(&*server.store(), "a", 1).await.expect("it is there");
    let gone = next(&mut watch).await;
    assert_eq!((gone.kind, gone.resource.key().name(), gone.revision), (EventType::Deleted, "a", Revision(3)));
    assert_eq!(sizes(&store).await, Ok(vec![("b".into(), 0)]));
    // No read takes it for deleted, and no write is sent.
    assert!(is_refused(store.get(&key("a")).await) && is_refused(store.get_live(&key("a")).await));
    let submits = server.count(|counts| &counts.submits);
    assert!(is_refused(resize(&store, "a", 2).await) && is_refused(create(&store, "a").await));
    assert!(is_refused(delete(&store, "a").await));
    assert_eq!(server.count(|counts| &counts.submits), submits);
    assert_eq!((cache(&store).resources, cache(&store).unreadable), (1, 1));
    let notes = status(&store).notes.join(" ");
    assert!(notes.contains("demo.dev/v1/Widget default/a is left out, its document cannot be read (no)"), "{notes}");
    // The others go on, on the same stream.
    resize(&store, "b", 5).await.expect("it is there");
    assert_eq!(size(&next(&mut watch).await.resource), 5);
    server.fault(|faults| faults.unreadable = None);
    resize(&*server.store(), "a", 3).await.expect("it is there");
    let back = next(&mut watch).await;
    assert_eq!((back.kind, size(&back.resource)), (EventType::Added, 3));
    assert_eq!(size(&store.get(&key("a")).await.expect("it is there")), 3);
    resize(&store, "a", 4).await.expect("it is there");
    assert_eq!(server.count(|counts| &counts.opens), opens, "the stream never ended");
    assert_eq!((cache(&store).unreadable, status(&store).notes), (0, Vec::new()));
}

#[tokio::test(start_paused = true)]
async fn a_list_leaves_out_what_cannot_be_read_and_forgets_it_when_it_is_gone() {
    let server = Server::new();
    for name in ["a", "b"] {
        create(&*server.store(), name).await.expect("a free name");
    }
    server.fault(|faults| faults.unreadable = Some("a"));
    let (store, _user) = subscribed(&server).await;
    assert_eq!(sizes(&store).await, Ok(vec![("b".into(), 0)]));
    assert!(is_refused(store.get(&key("a")).await));
    delete(&*server.store(), "a").await.expect("it is there");
    wait_for(|| cache(&store).unreadable == 0).await;
    assert!(matches!(store.get(&key("a")).await, Err(Error::NotFound { .. })));
    // The same over a list after a gap.
    create(&*server.store(), "a").await.expect("a free name");
    wait_for(|| cache(&store).unreadable == 1).await;
    server.fault(|faults| (faults.forgets, faults.unreadable) = (true, None));
    server.cut();
    wait_for(|| (cache(&store).unreadable, cache(&store).resources) == (0, 2)).await;
    assert_eq!(size(&store.get(&key("a")).await.expect("it is there")), 0);
}

#[tokio::test(start_paused = true)]
async fn a_document_that_could_not_be_read_back_is_not_written() {
    let server = Server::new();
    let (store, _user) = subscribed(&server).await;
    create(&store, "a").await.expect("a free name");
    let deep = (0..crate::DOCUMENT_DEPTH_MAX).fold(serde_json::json!(1), |inner, _| serde_json::json!([inner]));
    let mut document = widget("a", 1);
    document["spec"]["deep"] = deep;
    let submits = server.count(|counts| &counts.submits);
    let refused = store.write(Write::Update { document, precondition: Precondition::default() }).await;
    assert!(matches!(refused, Err(Error::Invalid { .. })), "{refused:?}");
    assert_eq!(server.count(|counts| &counts.submits), submits);
}
