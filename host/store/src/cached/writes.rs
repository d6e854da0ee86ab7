//! Writes: the server makes them, and later reads show their results before the cache has them.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::kind::CachedKind;
use super::own_writes::OwnWrite;
use super::shared_state::SharedState;
use super::unchanged::is_unchanged;
use super::upstream::{CachedState, UpstreamResponse};
use crate::model::Path;
use crate::{Error, EventType, Key, Request, Result, WriteResponse, validate};

/// Fenced resources that a write reads when there are too many.
const FENCES_AT_ONCE: usize = 16;

/// A write that was sent. Unless it is answered, reads of its resource ask the server from now on.
pub(super) struct SentWrite<'a> {
    shared: &'a SharedState,
    /// `None` for a dry run, for a name that the server generates, and once the write was answered.
    key: Option<Key>,
}

impl<'a> SentWrite<'a> {
    pub(super) fn new(shared: &'a SharedState, key: Option<Key>) -> Self {
        Self { shared, key }
    }

    /// Records that the server has answered the write.
    pub(super) fn was_answered(&mut self) {
        self.key = None;
    }
}

impl Drop for SentWrite<'_> {
    fn drop(&mut self) {
        if let Some(key) = &self.key {
            self.shared.record_unknown(key);
        }
    }
}

impl SharedState {
    /// As [`Store::submit`](crate::Store::submit).
    pub(super) async fn submit(&self, mut request: Request) -> Result<WriteResponse> {
        // The server takes documents that this host could not read.
        if self.upstream.server_validates()
            && let Some(value) = request.write.value_mut()
        {
            validate::nesting("document", value)?;
        }
        self.gate().await?;
        let target = request.write.target()?;
        let kind = self.kind(&target.kind);
        let key = target.name.map(|name| Key::new(target.kind, &target.namespace, &name));
        if let Some(error) = kind.as_ref().zip(key.as_ref()).and_then(|(kind, key)| kind.unreadable(key)) {
            return Err(error);
        }
        let cached = kind.as_ref().zip(key.as_ref()).map_or(CachedState::Unknown, |(kind, key)| kind.cached(key));
        if let Some(response) = self.unchanged(&request, &cached) {
            return Ok(response);
        }
        if let Some(kind) = &kind {
            self.reserve(kind).await?;
        }
        let is_dry_run = request.dry_run;
        let fence = kind.as_ref().zip(key.as_ref()).and_then(|(kind, key)| kind.lock().own.fence_of(&Path::of(key)));
        let mut sent = SentWrite::new(self, key.clone().filter(|_| !is_dry_run));
        let answer = self.answered(self.upstream.submit(request, cached.clone()).await);
        if matches!(answer, Err(Error::Unavailable { .. })) {
            return answer.map(|written| written.response);
        }
        sent.was_answered();
        match answer {
            Ok(written) if is_dry_run => Ok(written.response),
            Ok(written) => {
                let key = written.response.resource.key();
                self.record(key, own_write(&written));
                if let Some((kind, fence)) = kind.zip(fence) {
                    kind.lock().own.remove_fence(&Path::of(key), fence);
                }
                Ok(written.response)
            }
            Err(error) => {
                if let Some((kind, key)) = kind.zip(key).filter(|_| contradicts(&error, &cached)) {
                    kind.lock().own.fence(&key, false);
                }
                Err(error)
            }
        }
    }

    /// Makes room for one more write. If there is none, reads some fenced resources, which removes their fences: a
    /// client that never reads would have more and more.
    ///
    /// # Errors
    /// `Unavailable`: the write must not be sent.
    pub(super) async fn reserve(&self, kind: &CachedKind) -> Result<()> {
        if kind.lock().own.has_room() {
            return Ok(());
        }
        let fenced = kind.lock().own.fenced(FENCES_AT_ONCE);
        for key in fenced {
            match self.get_live(&key).await {
                Ok(_) | Err(Error::NotFound { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        if kind.lock().own.has_room() {
            return Ok(());
        }
        Err(Error::unavailable(format!("too many writes of {} wait to be seen in its cache", kind.kind)))
    }

    /// Returns the response to a write that surely changes nothing. A server whose writes this crate decides
    /// tells by itself.
    fn unchanged(&self, request: &Request, cached: &CachedState) -> Option<WriteResponse> {
        let CachedState::Known { resource: Some(resource), at: _ } = cached else { return None };
        if !self.upstream.server_validates() {
            return None;
        }
        is_unchanged(request, resource, |manager| self.upstream.manager(manager)).then(|| {
            self.skipped.fetch_add(1, Ordering::Relaxed);
            WriteResponse::unchanged(Arc::clone(resource))
        })
    }
}

/// Returns what is known of a resource after an answered write.
fn own_write(written: &UpstreamResponse) -> OwnWrite {
    let UpstreamResponse { response, at } = written;
    let resource = &response.resource;
    if response.change == Some(EventType::Deleted) {
        return OwnWrite::Gone { last: resource.without_document(), at: *at };
    }
    OwnWrite::Put(resource.without_document())
}

/// Returns whether a refusal shows that the cache is old.
fn contradicts(error: &Error, cached: &CachedState) -> bool {
    let CachedState::Known { resource, at: _ } = cached else { return false };
    match (error, resource) {
        (Error::NotFound { .. }, Some(_)) | (Error::AlreadyExists { .. }, None) => true,
        (Error::Conflict { current, .. }, Some(resource)) => {
            current.is_none_or(|current| current > resource.revision())
        }
        _ => false,
    }
}
