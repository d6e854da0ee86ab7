//! The threads on which contenders run. Every program in Rust that has contenders takes this file in.

use std::time::Duration;

use anyhow::{Context, Result};
use tokio::runtime::{Builder, Runtime};

/// Builds the scheduler as the host's binary does: what is measured is what runs.
///
/// # Errors
/// The system gives no threads.
pub(crate) fn tokio() -> Result<Runtime> {
    let mut builder = Builder::new_multi_thread();
    builder.enable_all().event_interval(1).global_queue_interval(1).thread_keep_alive(Duration::from_millis(100));
    builder.build().context("the threads cannot be started")
}
