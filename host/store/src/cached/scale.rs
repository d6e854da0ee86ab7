//! The scale of a resource, which the server reads and writes by itself.
//!
//! The cache has no such documents. A scale shows a revision of its resource: later reads of the resource do not go
//! behind it.

use serde_json::Value;

use super::kind::CachedKind;
use super::shared_state::SharedState;
use super::writes::SentWrite;
use crate::{Error, Key, Result, Revision, ScaleRequest};

impl SharedState {
    /// As [`Store::scale`](crate::Store::scale).
    pub(super) async fn scale(&self, key: &Key) -> Result<Value> {
        self.gate().await?;
        let scale = self.answered(self.upstream.scale(key).await)?;
        self.show_scale(key, &scale);
        Ok(scale)
    }

    /// As [`Store::update_scale`](crate::Store::update_scale).
    pub(super) async fn update_scale(&self, request: ScaleRequest) -> Result<Value> {
        self.gate().await?;
        let key = request.key.clone();
        if let Some(kind) = self.kind(key.kind()) {
            self.reserve(&kind).await?;
        }
        let is_dry_run = request.dry_run;
        let mut sent = SentWrite::new(self, Some(key.clone()).filter(|_| !is_dry_run));
        let answer = self.answered(self.upstream.update_scale(request).await);
        if !matches!(answer, Err(Error::Unavailable { .. })) {
            sent.was_answered();
        }
        if let Some(scale) = answer.as_ref().ok().filter(|_| !is_dry_run) {
            self.show_scale(&key, scale);
        }
        answer
    }

    /// Records that a scale showed a revision of its resource.
    fn show_scale(&self, key: &Key, scale: &Value) {
        let at = revision_of(scale);
        match self.kind(key.kind()) {
            Some(kind) => kind.showed(key, at),
            None => self.show(key.kind(), at),
        }
    }
}

impl CachedKind {
    /// Has reads of a resource ask the server, unless the cache has the revision at which something else showed it.
    fn showed(&self, key: &Key, at: Revision) {
        let mut state = self.lock();
        let contents = state.synced.as_ref().and_then(|synced| Some(synced.contents.lock().ok()?.newest()));
        if contents.is_some_and(|newest| newest >= at) {
            return;
        }
        if state.own.has_room() {
            state.own.fence(key, true);
        } else {
            state.own.raise_floor(at);
        }
    }
}

/// Returns the revision of the resource that a scale shows.
fn revision_of(scale: &Value) -> Revision {
    let text = scale.pointer("/metadata/resourceVersion").and_then(Value::as_str);
    text.and_then(|text| text.parse().ok()).unwrap_or(Revision::ZERO)
}
