//! The signal that ends what goes on: watches, streams and idle connections.

use tokio::sync::watch;

/// Waits for the stop; for ever when the handle is gone, and with it everyone who could stop the server.
pub(crate) async fn requested(stopped: &watch::Receiver<bool>) {
    if stopped.clone().wait_for(|stop| *stop).await.is_err() {
        std::future::pending::<()>().await;
    }
}
