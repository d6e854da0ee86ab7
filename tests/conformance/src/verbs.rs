//! The calls that most cases make, each in one word.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use homeostat_store::{
    Error, Event, Key, Kind, Options, Precondition, Propagation, Query, Resource, Result, Store, Watch, Write,
    WriteResponse,
};
use homeostat_testing::soon;
use serde_json::Value;

/// Returns the options of a store that keeps so many changes.
pub fn small_history(history_max: u64) -> Options {
    Options { history_max, ..Options::default() }
}

/// Returns a document with fields merged into its metadata.
///
/// # Panics
/// If `metadata` or the metadata of the document is no object.
pub fn with_metadata(mut document: Value, metadata: Value) -> Value {
    let Value::Object(fields) = metadata else { panic!("metadata is an object") };
    document["metadata"].as_object_mut().unwrap().extend(fields);
    document
}

/// Creates a resource.
///
/// # Panics
/// If the store refuses it.
pub async fn create(store: &dyn Store, document: Value) -> Arc<Resource> {
    store.write(Write::Create { document }).await.unwrap().resource
}

/// Updates a resource without a precondition.
///
/// # Errors
/// As [`Store::write`].
pub async fn update(store: &dyn Store, document: Value) -> Result<WriteResponse> {
    store.write(Write::Update { document, precondition: Precondition::default() }).await
}

/// Updates a status without a precondition.
///
/// # Errors
/// As [`Store::write`].
pub async fn update_status(store: &dyn Store, key: Key, status: Value) -> Result<WriteResponse> {
    store.write(Write::UpdateStatus { key, status, precondition: Precondition::default() }).await
}

/// Deletes a resource without a precondition.
///
/// # Errors
/// As [`Store::write`].
pub async fn delete(store: &dyn Store, key: Key, propagation: Propagation) -> Result<WriteResponse> {
    store.write(Write::Delete { key, precondition: Precondition::default(), propagation, grace_seconds: None }).await
}

/// Lists all resources of some kinds.
///
/// # Panics
/// If the store cannot be read.
pub async fn everything_of(store: &dyn Store, kinds: Vec<Kind>) -> Vec<Arc<Resource>> {
    let mut found = Vec::new();
    for kind in kinds {
        found.extend(store.list(&Query::all(kind)).await.unwrap().items);
    }
    found
}

/// Waits for the next event, for a minute at most.
///
/// # Errors
/// As [`Watch::next`].
pub async fn next(watch: &mut Watch) -> Result<Event> {
    soon(watch.next()).await
}

/// Returns whether a resource does not exist.
pub async fn is_gone(store: &dyn Store, key: &Key) -> bool {
    matches!(store.get(key).await, Err(Error::NotFound { .. }))
}

/// Submits calls in order, before the first response.
pub async fn in_order<T>(calls: Vec<impl Future<Output = T>>) -> Vec<T> {
    let mut calls: Vec<_> = calls.into_iter().map(|call| (Box::pin(call), None)).collect();
    poll_fn(|context| {
        for (call, answer) in calls.iter_mut().filter(|(_, answer)| answer.is_none()) {
            if let Poll::Ready(ready) = call.as_mut().poll(context) {
                *answer = Some(ready);
            }
        }
        if calls.iter().all(|(_, answer)| answer.is_some()) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    calls.into_iter().filter_map(|(_, answer)| answer).collect()
}

/// Returns the next event of a watch without waiting; `None` when there is none yet.
pub async fn at_once(watch: &mut Watch) -> Option<Result<Event>> {
    poll_fn(|context| match pin!(watch.next()).poll(context) {
        Poll::Ready(told) => Poll::Ready(Some(told)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

/// Returns whether a watch has no event now.
pub async fn is_waiting(watch: &mut Watch) -> bool {
    at_once(watch).await.is_none()
}
