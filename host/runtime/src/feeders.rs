//! Feeders: the sources of keys for a queue.
//!
//! A feeder implements one small trait. The runtime has feeders for watches, polls and resyncs, and
//! those that a manifest declares ([`FeederDefinition`](crate::feeder_definition::FeederDefinition)); embedders can add
//! their own in Rust. A failed feeder is restarted with backoff and does not affect other feeders.

use std::convert::Infallible;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use homeostat_component::Severity;
use homeostat_workqueue::Backoff;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::context::Context;

mod cron;
pub mod files;
mod follow;
mod guest_map;
mod inbox;
mod intake;
mod interval;
mod key_adder;
mod nats;
mod poll;
mod resync;
mod room;
mod run_record;
mod suspend_filter;
mod sync_barrier;
mod undelivered;
mod watch;
pub mod webhook;

pub(crate) use cron::CronFeeder;
pub(crate) use files::FilesFeeder;
pub(crate) use follow::FollowFeeder;
pub(crate) use guest_map::{GuestMap, MAPPED_KEYS_MAX, SlotGuest, WAITING_BYTES_MAX};
pub(crate) use inbox::Inbox;
use intake::add_answered;
pub use intake::{Intake, IntakeError};
pub(crate) use interval::IntervalFeeder;
pub(crate) use key_adder::KeyAdder;
pub(crate) use nats::NatsFeeder;
pub(crate) use poll::PollFeeder;
pub(crate) use resync::ResyncFeeder;
pub(crate) use room::{Capacity, RoomWait};
pub(crate) use run_record::{RunRecord, SCHEDULES, retained as retained_run_records};
pub(crate) use suspend_filter::{DELETIONS_BAND, DeletionState, SuspendFilter};
pub(crate) use sync_barrier::{FeederId, SyncBarrier};
pub(crate) use undelivered::UNDELIVERED_KEYS_MAX;
pub(crate) use watch::{KeyMapper, WatchFeeder};
pub(crate) use webhook::WebhookFeeder;

/// The backoff of failed feeders.
const RESTART: Backoff =
    Backoff { base: Duration::from_millis(200), max: Duration::from_secs(30), retries_max: None, jitter: 0.0 };
/// A failed feeder that has not listed since counts as healthy after running this long, which is longer than
/// any wait.
const WELL_AFTER: Duration = Duration::from_secs(40);
/// A feeder that ran this long without failing starts over with the first wait.
const HEALTHY_AFTER: Duration = Duration::from_secs(120);

/// Why a feeder failed.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct FeederError(
    /// The reason, for a person.
    pub String,
);

impl From<homeostat_store::Error> for FeederError {
    fn from(error: homeostat_store::Error) -> Self {
        Self(error.to_string())
    }
}

/// A source of keys for one controller's queue.
pub trait Feeder: Send + Sync + 'static {
    /// Returns the feeder's name in events and logs, unique within its controller.
    fn name(&self) -> &str;

    /// Returns whether reconciles must wait until the feeder has called [`Intake::listed`].
    fn lists_first(&self) -> bool {
        false
    }

    /// Adds keys until there are no more to add.
    ///
    /// *Cancel safety*: the future is dropped when the controller is removed or the host stops.
    ///
    /// # Errors
    /// Any reason that keeps it from going on. It is reported in an event, and the feeder is restarted with
    /// backoff.
    fn run(&self, intake: &Intake) -> impl Future<Output = Result<(), FeederError>> + Send;
}

/// A [`Feeder`] of any type.
pub(crate) trait DynFeeder: Send + Sync + 'static {
    /// As [`Feeder::name`].
    fn name(&self) -> &str;

    /// As [`Feeder::lists_first`].
    fn lists_first(&self) -> bool;

    /// As [`Feeder::run`].
    fn run<'a>(&'a self, intake: &'a Intake) -> BoxFuture<'a, Result<(), FeederError>>;
}

impl<F: Feeder> DynFeeder for F {
    fn name(&self) -> &str {
        Feeder::name(self)
    }

    fn lists_first(&self) -> bool {
        Feeder::lists_first(self)
    }

    fn run<'a>(&'a self, intake: &'a Intake) -> BoxFuture<'a, Result<(), FeederError>> {
        Box::pin(Feeder::run(self, intake))
    }
}

/// Runs a feeder and restarts it after failures, until it ends or `stop` is cancelled.
pub(crate) async fn supervise(
    feeder: Arc<dyn DynFeeder>,
    intake: Intake,
    controller: Arc<str>,
    context: Arc<Context>,
    stop: CancellationToken,
) {
    let mut failures = 0;
    loop {
        let started = Instant::now();
        let ended = tokio::select! {
            biased;
            () = stop.cancelled() => break,
            ended = AssertUnwindSafe(feeder.run(&intake)).catch_unwind() => {
                ended.unwrap_or_else(|_| Err(FeederError("it panicked".into())))
            }
            never = well_after_a_while(&intake), if failures > 0 => match never {},
        };
        let Err(error) = ended else { break };
        if started.elapsed() >= HEALTHY_AFTER {
            failures = 0;
        }
        failures += 1;
        let delay = RESTART.delay(failures, 0);
        intake.mark_failed(&error);
        let message = format!("{} failed: {error}", feeder.name());
        context.event(&controller, None, Severity::Warning, "FeederFailed", &message);
        tracing::warn!(%controller, feeder = feeder.name(), %error, ?delay, "feeder failed, it will be restarted");
        tokio::select! {
            biased;
            () = stop.cancelled() => break,
            () = tokio::time::sleep(delay) => {}
        }
    }
    intake.mark_healthy();
}

/// Marks a feeder as healthy when it has run for a while without failing. Never returns.
async fn well_after_a_while(intake: &Intake) -> Infallible {
    tokio::time::sleep(WELL_AFTER).await;
    intake.mark_healthy();
    std::future::pending().await
}

#[cfg(test)]
pub(crate) mod tests;
