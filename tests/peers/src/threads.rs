//! The threads of contenders. Every Rust program with contenders includes this file.

use std::time::Duration;

use anyhow::{Context, Result};
use tokio::runtime::{Builder, Runtime};

/// Builds the tokio runtime with the settings of the host's binary.
///
/// # Errors
/// The system cannot start threads.
pub(crate) fn tokio() -> Result<Runtime> {
    let mut builder = Builder::new_multi_thread();
    builder.enable_all().event_interval(1).global_queue_interval(1).thread_keep_alive(Duration::from_millis(100));
    builder.build().context("the threads cannot be started")
}
