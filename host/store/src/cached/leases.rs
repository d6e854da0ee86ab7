//! The leases of a server, held back from content that may have gone back in time.
//!
//! A server that was restored from a backup is noticed by the revisions of its content, which are lower than those that
//! were seen. Leases are written all the time. Without this, those of the hosts themselves would raise the revisions
//! beyond the former ones before anybody has compared them.

use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use homeostat_fleet::{Answer, Epoch, Identity, LeaseName, Observation, Record, Request, Version};
use tokio::time::Instant;

use super::shared_state::SharedState;
use crate::{Error, Fence, LeaseRequests, LeaseStore, LeaseWatch, OtherTerm, Result, Revision};

/// How long content has to be older than the resources that were seen of it: then it was restored. A server that has just
/// become the leader of others catches up in this time.
const CONFIRM: Duration = Duration::from_secs(5);

/// How long leases are held back from content that is older than their last versions, but not older than the resources
/// that were seen: a server that has lost nothing but renewals is used again.
const HOLD: Duration = Duration::from_secs(30);

/// What the leases have seen of the content of a server.
#[derive(Debug, Default)]
pub(super) struct LeaseProgress {
    /// The id of the content.
    content: Option<String>,
    /// The latest version of a record.
    seen: Revision,
    /// When the content was found to be older.
    older_since: Option<Instant>,
    /// Whether the last request that ended was not answered.
    is_unanswered: bool,
    /// Whether the server may have been exchanged since its revision was compared.
    is_doubtful: bool,
}

impl LeaseProgress {
    /// Returns the latest revision that was seen of this content.
    fn seen(&mut self, content: Option<&str>) -> Revision {
        if self.content.as_deref() != content {
            let Self { is_unanswered, is_doubtful, .. } = *self;
            *self = Self { content: content.map(str::to_owned), is_unanswered, is_doubtful, ..Self::default() };
        }
        self.seen
    }

    /// Takes the revision of the content now, and the latest one of a resource that was seen of it.
    fn compare(&mut self, at: Revision, resources: Revision, now: Instant) -> Verdict {
        if at >= self.seen.max(resources) {
            (self.older_since, self.is_doubtful) = (None, false);
            return Verdict::Current;
        }
        let older_for = now.duration_since(*self.older_since.get_or_insert(now));
        if at < resources {
            return if older_for >= CONFIRM { Verdict::Restored } else { Verdict::Older };
        }
        if older_for < HOLD {
            return Verdict::Older;
        }
        (self.seen, self.older_since, self.is_doubtful) = (at, None, false);
        Verdict::Current
    }
}

/// What a revision says about the content of a server.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    /// Leases may be written.
    Current,
    /// The server lags, or was restored a moment ago.
    Older,
    /// It was restored from a backup.
    Restored,
}

/// The leases of a server.
pub(super) struct CachedLeases {
    inner: Arc<dyn LeaseStore>,
    shared: Arc<SharedState>,
}

impl CachedLeases {
    pub(super) fn new(inner: Arc<dyn LeaseStore>, shared: Arc<SharedState>) -> Self {
        Self { inner, shared }
    }
}

impl SharedState {
    fn lease_progress(&self) -> MutexGuard<'_, LeaseProgress> {
        self.lease_progress.lock().expect("no thread panics while holding the progress")
    }

    fn note_lease(&self, version: Version) {
        let content = self.monitor.state().content().map(str::to_owned);
        let mut progress = self.lease_progress();
        let seen = progress.seen(content.as_deref());
        progress.seen = seen.max(Revision(version.0));
    }

    /// Passes the answer of a lease request on. The first one after a request without an answer ends the waits of the
    /// caches. A request that is dropped counts as one without an answer.
    async fn answered_lease<T>(&self, request: impl Future<Output = Result<T>>) -> Result<T> {
        let mut end = LeaseRequestEnd { shared: self, is_answered: false };
        let answer = request.await;
        end.is_answered = !matches!(answer, Err(Error::Unavailable { .. }));
        answer
    }

    /// Records that a stream of the server ended: the server may have been exchanged.
    pub(super) fn doubt_content(&self) {
        self.lease_progress().is_doubtful = true;
    }

    /// Compares the revision of the server if it may have been exchanged.
    ///
    /// # Errors
    /// As [`Self::verify_leases`].
    async fn verify_doubtful_leases(&self) -> Result<()> {
        let is_doubtful = self.lease_progress().is_doubtful;
        if is_doubtful { self.verify_leases().await } else { self.monitor.shows() }
    }

    /// Compares the revision of the server with the revisions of this content that the host has seen. Leases may be
    /// written if the server's is no older.
    ///
    /// # Errors
    /// `Unavailable` for content that was replaced or is older than what was seen of it, and without an answer; `Closed`.
    async fn verify_leases(&self) -> Result<()> {
        self.monitor.shows()?;
        let content = self.monitor.state().content().map(str::to_owned);
        let resources = self.seen();
        if self.lease_progress().seen(content.as_deref()).max(resources) == Revision::ZERO {
            return Ok(());
        }
        let Some(at) = self.answered_lease(self.upstream.reached()).await? else { return Ok(()) };
        let verdict = self.lease_progress().compare(at, resources, Instant::now());
        match verdict {
            Verdict::Current => return Ok(()),
            Verdict::Older => {}
            Verdict::Restored => self.monitor.went_back(format!("revision {resources}"), format!("revision {at}")),
        }
        let reason = format!("store {}: its server is at revision {at}, behind its leases", self.upstream.name());
        Err(Error::unavailable(reason))
    }
}

/// Records the end of a lease request when it is dropped.
struct LeaseRequestEnd<'a> {
    shared: &'a SharedState,
    is_answered: bool,
}

impl Drop for LeaseRequestEnd<'_> {
    fn drop(&mut self) {
        let mut progress = self.shared.lease_progress();
        progress.is_doubtful |= !self.is_answered;
        let was_unanswered = std::mem::replace(&mut progress.is_unanswered, !self.is_answered);
        drop(progress);
        if was_unanswered && self.is_answered {
            self.shared.monitor.recovered();
        }
    }
}

#[async_trait]
impl LeaseStore for CachedLeases {
    fn lease(&self, name: &LeaseName, identity: &Identity, length: Duration) -> Result<Arc<dyn LeaseRequests>> {
        let inner = self.inner.lease(name, identity, length)?;
        Ok(Arc::new(CachedLease { inner, shared: Arc::clone(&self.shared) }))
    }

    async fn raise_fence(&self, term: &OtherTerm) -> Result<Option<Fence>> {
        self.shared.verify_leases().await?;
        self.inner.raise_fence(term).await
    }

    async fn watch_leases(&self) -> Result<Box<dyn LeaseWatch>> {
        let inner = self.inner.watch_leases().await?;
        Ok(Box::new(CachedLeaseWatch { inner, shared: Arc::clone(&self.shared) }))
    }
}

/// A stream of records whose end puts the content of the server in doubt.
struct CachedLeaseWatch {
    inner: Box<dyn LeaseWatch>,
    shared: Arc<SharedState>,
}

#[async_trait]
impl LeaseWatch for CachedLeaseWatch {
    async fn next(&mut self) -> Result<(LeaseName, Observation)> {
        self.inner.next().await.inspect_err(|_| self.shared.doubt_content())
    }
}

struct CachedLease {
    inner: Arc<dyn LeaseRequests>,
    shared: Arc<SharedState>,
}

#[async_trait]
impl LeaseRequests for CachedLease {
    fn fence(&self, epoch: Epoch) -> Option<Fence> {
        self.inner.fence(epoch)
    }

    fn describe(&self, description: &str) {
        self.inner.describe(description);
    }

    async fn carry_out(&self, request: &Request) -> Result<Answer> {
        match request {
            Request::Acquire { .. } => self.shared.verify_leases().await?,
            // The record of a backup may have the version of the last renewal.
            Request::Renew { .. } | Request::Release { .. } => self.shared.verify_doubtful_leases().await?,
            Request::Read => {}
        }
        let answer = self.shared.answered_lease(self.inner.carry_out(request)).await?;
        if let Answer::Stored { version, .. } | Answer::Found(Observation::Present(Record { version, .. })) = &answer {
            self.shared.note_lease(*version);
        }
        Ok(answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: Revision = Revision::ZERO;

    #[tokio::test(start_paused = true)]
    async fn a_server_that_lost_only_renewals_is_used_after_a_while() {
        let mut progress = LeaseProgress::default();
        assert_eq!(progress.seen(Some("a")), NONE);
        progress.seen = Revision(40);
        assert_eq!(progress.compare(Revision(40), NONE, Instant::now()), Verdict::Current);
        assert_eq!(progress.compare(Revision(10), Revision(10), Instant::now()), Verdict::Older);
        tokio::time::advance(HOLD / 2).await;
        assert_eq!(progress.compare(Revision(12), Revision(10), Instant::now()), Verdict::Older);
        // It has caught up, and the next time counts from then.
        assert_eq!(progress.compare(Revision(41), Revision(10), Instant::now()), Verdict::Current);
        assert_eq!(progress.compare(Revision(10), Revision(10), Instant::now()), Verdict::Older);
        tokio::time::advance(HOLD).await;
        assert_eq!(progress.compare(Revision(10), Revision(10), Instant::now()), Verdict::Current);
        assert_eq!(progress.compare(Revision(11), Revision(10), Instant::now()), Verdict::Current);
        progress.seen = Revision(40);
        assert_eq!(progress.seen(Some("b")), NONE, "other content has other revisions");
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_stays_behind_its_resources_was_restored() {
        let mut progress = LeaseProgress::default();
        assert_eq!(progress.compare(Revision(10), Revision(20), Instant::now()), Verdict::Older);
        tokio::time::advance(CONFIRM).await;
        assert_eq!(progress.compare(Revision(12), Revision(20), Instant::now()), Verdict::Restored);
        // One that lagged has caught up.
        assert_eq!(progress.compare(Revision(20), Revision(20), Instant::now()), Verdict::Current);
        assert_eq!(progress.compare(Revision(10), Revision(20), Instant::now()), Verdict::Older);
    }
}
