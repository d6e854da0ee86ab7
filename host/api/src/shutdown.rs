//! The shutdown signal, which ends watches, other streams and idle connections.

use tokio::sync::watch;

/// Waits for the stop; for ever if all handles are dropped, because only a handle can stop the server.
pub(crate) async fn requested(stopped: &watch::Receiver<bool>) {
    if stopped.clone().wait_for(|stop| *stop).await.is_err() {
        std::future::pending::<()>().await;
    }
}
