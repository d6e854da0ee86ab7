//! Contacts a server until it answers, and keeps what is known of its availability for all who ask.

use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Mutex, Notify, watch};
use tokio::time::{Instant, sleep, timeout};

use super::availability::ServerState;
use super::backoff::jitter;
use super::options::{ContentRecord, KnownContent, Options, server_id};
use super::upstream::{Incarnation, Upstream};
use crate::{Availability, ClockAndIds, Error, Result, Revision};

/// Time between two looks at a server whose content was replaced.
const REPLACED_DELAY: Duration = Duration::from_secs(5);

/// The availability of one server.
pub(crate) struct Monitor {
    upstream: Arc<dyn Upstream>,
    clock: Arc<dyn ClockAndIds>,
    record: Option<Arc<dyn ContentRecord>>,
    /// The content that the record has.
    recorded: std::sync::Mutex<Option<KnownContent>>,
    state: watch::Sender<ServerState>,
    /// Asks [`Monitor::run`] for a look at the server.
    hint: Notify,
    /// Grows each time the server is ready again, and when it answers a lease request after one that it did not answer.
    /// A host that holds a lease must not wait out a backoff then.
    recoveries: watch::Sender<u64>,
    /// The start of the last look at a server that was believed to be ready. Its lock makes looks one after
    /// another.
    looked: Mutex<Instant>,
}

impl Monitor {
    /// Creates the state before the first contact.
    pub(crate) fn new(upstream: Arc<dyn Upstream>, options: &Options) -> Self {
        let Options { clock, record, accepted, .. } = options;
        let state = watch::Sender::new(ServerState::new(accepted.clone()));
        Self {
            upstream,
            clock: Arc::clone(clock),
            record: record.clone(),
            recorded: std::sync::Mutex::new(accepted.clone()),
            state,
            hint: Notify::new(),
            recoveries: watch::Sender::new(0),
            looked: Mutex::new(Instant::now()),
        }
    }

    /// Returns what is known now.
    pub(crate) fn state(&self) -> ServerState {
        self.state.borrow().clone()
    }

    /// Contacts the server whenever it is not known to be ready. Ends once the store is closed.
    pub(crate) async fn run(&self) {
        let mut state = self.state.subscribe();
        let mut recoveries = self.recoveries();
        loop {
            if state.borrow_and_update().is_ready() {
                tokio::select! {
                    () = self.hint.notified() => self.look().await,
                    changed = state.changed() => drop(changed),
                }
                continue;
            }
            recoveries.mark_unchanged();
            if self.verify().await == Err(Error::Closed) {
                return;
            }
            let now = self.state();
            if now.is_replaced() {
                sleep(REPLACED_DELAY).await;
            } else if !now.is_ready() {
                // The sender lives as long as this value.
                drop(timeout(now.contact_delay(jitter()), recoveries.changed()).await);
            }
        }
    }

    /// As [`Monitor::verify`]. The content must have reached `seen`, and its revision at the last contact.
    ///
    /// # Errors
    /// As [`Monitor::verify`]; also `Unavailable` for a server that lags, or that was restored a moment ago.
    pub(crate) async fn verify_reached(&self, seen: Revision) -> Result<()> {
        let seen = self.state().known().and_then(|known| known.reached).map_or(seen, |reached| reached.max(seen));
        match self.contact().await {
            Ok(Incarnation { id, at: Some(at) }) if at < seen && self.state().may_have(id.as_deref()) => {
                let reason = format!("its server is at revision {at}, after revision {seen}");
                Err(Error::unavailable(format!("store {}: {reason}", self.upstream.name())))
            }
            contact => self.compare(contact),
        }
    }

    /// Contacts the server and compares its content with the accepted one.
    ///
    /// # Errors
    /// `Unavailable` when the server cannot be used, `Closed`.
    pub(crate) async fn verify(&self) -> Result<()> {
        self.compare(self.contact().await)
    }

    fn compare(&self, contact: Result<Incarnation>) -> Result<()> {
        match contact {
            Ok(incarnation) => self.change(|state| state.contacted(incarnation)),
            Err(Error::Closed) => return Err(Error::Closed),
            Err(error) => self.fail(&error),
        }
        self.usable()
    }

    /// Contacts the server, and records its content if it is the first one.
    async fn contact(&self) -> Result<Incarnation> {
        let incarnation = self.upstream.connect().await?;
        if let (Some(id), None) = (&incarnation.id, self.state().accepted()) {
            self.record(&KnownContent { id: id.clone(), reached: incarnation.at }).await?;
        }
        Ok(incarnation)
    }

    async fn record(&self, content: &KnownContent) -> Result<()> {
        if let Some(record) = &self.record {
            record.write(content).await?;
            *self.recorded() = Some(content.clone());
        }
        Ok(())
    }

    fn recorded(&self) -> MutexGuard<'_, Option<KnownContent>> {
        self.recorded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records how far the content has come, if the server is ready and tells. `seen` is a revision of it.
    pub(crate) async fn record_progress(&self, seen: Option<Revision>) {
        self.state.send_if_modified(|state| {
            seen.into_iter().for_each(|seen| state.reached(seen));
            false
        });
        let state = self.state();
        let Some(known) = state.known().filter(|_| state.is_ready()) else { return };
        if *self.recorded() == Some(known.clone()) {
            return;
        }
        if let Err(error) = self.record(&known).await {
            tracing::warn!(store = self.upstream.name(), %error, "how far the store has come is not recorded");
        }
    }

    /// Returns the name under which the record knows the content that the server has now, if it is another one.
    pub(crate) fn other_name(&self) -> Option<String> {
        let state = self.state();
        let content = match state.availability() {
            Availability::Replaced { now, .. } => Some(now.as_str()),
            _ => state.accepted(),
        };
        self.record.as_ref()?.other_name(server_id(content?))
    }

    /// Looks whether a server that is believed to be ready answers. Returns once it is known.
    pub(crate) async fn look(&self) {
        let asked = Instant::now();
        let mut looked = self.looked.lock().await;
        if *looked > asked || !self.state.borrow().is_ready() {
            return;
        }
        *looked = Instant::now();
        if let Err(error) = self.upstream.ping().await {
            self.fail(&error);
        }
    }

    /// As [`Monitor::look`], without waiting.
    pub(crate) fn hint(&self) {
        self.hint.notify_one();
    }

    /// Records that the server answers again. Ends the waits of [`Monitor::run`] and of the caches.
    pub(crate) fn recovered(&self) {
        self.recoveries.send_modify(|count| *count += 1);
    }

    /// Returns a receiver that changes with each [`Monitor::recovered`].
    pub(crate) fn recoveries(&self) -> watch::Receiver<u64> {
        self.recoveries.subscribe()
    }

    /// Waits until the server can be used. Returns whether that took any time.
    ///
    /// # Errors
    /// `Closed`.
    pub(crate) async fn ready(&self) -> Result<bool> {
        let mut state = self.state.subscribe();
        let mut has_waited = false;
        loop {
            match state.borrow_and_update().availability() {
                Availability::Ready => return Ok(has_waited),
                Availability::Closed => return Err(Error::Closed),
                _ => has_waited = true,
            }
            state.changed().await.map_err(|_| Error::Closed)?;
        }
    }

    /// Waits until the content of the server was replaced.
    pub(crate) async fn replaced(&self) {
        let mut state = self.state.subscribe();
        // The sender lives as long as this.
        drop(state.wait_for(ServerState::is_replaced).await);
    }

    /// Returns whether requests can be made, after waiting for the end of the first attempt to contact the
    /// server.
    ///
    /// # Errors
    /// `Unavailable` with the reason; `Closed`.
    pub(crate) async fn gate(&self, wait: Duration) -> Result<()> {
        let mut state = self.state.subscribe();
        drop(timeout(wait, state.wait_for(|state| !state.is_first_attempt())).await);
        self.usable()
    }

    /// Returns whether the content of the server may be shown, even if the server is away.
    ///
    /// # Errors
    /// As [`Monitor::gate`].
    pub(crate) fn shows(&self) -> Result<()> {
        let state = self.state.borrow();
        match state.availability() {
            gone @ (Availability::Replaced { .. } | Availability::Closed) => gone.health(self.upstream.name()),
            _ => Ok(()),
        }
    }

    /// Records that the content went back in time, see [`ServerState::went_back`].
    pub(crate) fn went_back(&self, before: String, now: String) {
        self.change(|state| state.went_back(before, now));
    }

    /// Accepts the content that the server has now, and records it. See [`ServerState::accept`]. `forget` forgets
    /// the state that depends on the content before.
    ///
    /// # Errors
    /// As [`Store::accept_replacement`](crate::Store::accept_replacement). Cancel safe.
    pub(crate) async fn accept(&self, content: &str, forget: impl FnOnce() + Send) -> Result<()> {
        // On a copy first: the recorded content must be that of the server.
        let (mut accepted, name) = (self.state(), self.clock.uid());
        accepted.accept(content, &name)?;
        if let Some(known) = accepted.known() {
            self.record(&known).await?;
        }
        forget();
        let mut result = Ok(());
        self.change(|state| result = state.accept(content, &name));
        result
    }

    /// Records that the store was closed.
    pub(crate) fn close(&self) {
        self.change(ServerState::close);
    }

    fn usable(&self) -> Result<()> {
        self.state.borrow().availability().health(self.upstream.name())
    }

    fn fail(&self, error: &Error) {
        let (reason, now) = (error.to_string(), self.clock.now());
        self.change(|state| state.failed(reason, now));
    }

    /// Changes the state and logs what became of the server.
    fn change(&self, change: impl FnOnce(&mut ServerState)) {
        self.state.send_modify(|state| {
            let before = state.availability().clone();
            change(state);
            let store = self.upstream.name();
            match state.availability() {
                now if *now == before => {}
                Availability::Ready => {
                    tracing::info!(store, "the server of the store answers");
                    self.recovered();
                }
                Availability::Away { reason, .. } if !matches!(before, Availability::Away { .. }) => {
                    tracing::warn!(store, reason, "the server of the store is away; it is tried again");
                }
                Availability::Starting { reason: Some(reason) }
                    if before == (Availability::Starting { reason: None }) =>
                {
                    tracing::warn!(store, reason, "the server of the store does not answer; it is tried again");
                }
                Availability::Replaced { before, now } => {
                    tracing::error!(store, before, now, "the content of the store was replaced; it is not used");
                }
                _ => {}
            }
        });
    }
}
