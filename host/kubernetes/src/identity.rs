//! Who the host is to the server: makes clients of credentials, and new ones when the credentials change.
//!
//! A client is made anew when the server refuses its credentials, before a certificate or a token of a plugin
//! expires, and every few minutes, because files of credentials are replaced. The files of tokens and
//! authorities of a pod are read again by the client itself, within a minute.

mod exec;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;
use jiff::Timestamp;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use tokio::sync::Mutex;

use crate::requests::describe;
use crate::settings::Credentials;

/// How long before its end a credential is replaced.
const EXPIRY_MARGIN: Duration = Duration::from_secs(60);
/// Age at which the credentials are read again.
const AGE_MAX: Duration = Duration::from_secs(300);
/// Shortest time between two clients after refusals.
const RENEW_INTERVAL_MIN: Duration = Duration::from_secs(5);
/// Longest wait for a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest time without progress of a write to a connection.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);

/// Makes clients of credentials.
pub(crate) struct Identity {
    credentials: Credentials,
    current: ArcSwapOption<Session>,
    /// Held while a client is made. Has the number of the last one.
    last: Mutex<u64>,
}

/// A client, and how long to use it.
pub(crate) struct Session {
    /// The client.
    pub(crate) client: Client,
    /// The number of the session; later ones have larger numbers.
    pub(crate) number: u64,
    /// The namespace of the context; `default` without one.
    pub(crate) namespace: String,
    made: Instant,
    /// When to make another one.
    due: Instant,
}

impl Identity {
    pub(crate) fn new(credentials: Credentials) -> Self {
        Self { credentials, current: ArcSwapOption::empty(), last: Mutex::default() }
    }

    /// Returns a client whose credentials are believed to be good.
    ///
    /// # Errors
    /// The reason, for a person. Cancel safe.
    pub(crate) async fn session(&self) -> Result<Arc<Session>, String> {
        if let Some(session) = self.current.load_full().filter(|session| Instant::now() < session.due) {
            return Ok(session);
        }
        let mut last = self.last.lock().await;
        let current = self.current.load_full();
        if let Some(session) = current.as_ref().filter(|session| Instant::now() < session.due) {
            return Ok(Arc::clone(session));
        }
        match (self.make(&mut last).await, current) {
            (Ok(session), _) => Ok(session),
            // The server decides whether the old credentials are still good.
            (Err(reason), Some(old)) => {
                tracing::warn!(reason = ?reason, "the credentials of a cluster could not be read again");
                Ok(self.keep(Session {
                    client: old.client.clone(),
                    number: old.number,
                    namespace: old.namespace.clone(),
                    made: old.made,
                    due: Instant::now() + RENEW_INTERVAL_MIN,
                }))
            }
            (Err(reason), None) => Err(reason),
        }
    }

    /// Makes a new client after the server refused the credentials of session `refused`. Does nothing when
    /// that has happened already, or was tried a moment ago.
    pub(crate) async fn renew(&self, refused: u64) {
        let mut last = self.last.lock().await;
        let current = self.current.load_full();
        let is_due = current.is_none_or(|session| {
            session.number == refused && (session.number == 1 || session.made.elapsed() >= RENEW_INTERVAL_MIN)
        });
        if !is_due {
            return;
        }
        if let Err(reason) = self.make(&mut last).await {
            tracing::warn!(reason = ?reason, "the credentials of a cluster could not be renewed");
        }
    }

    async fn make(&self, last: &mut u64) -> Result<Arc<Session>, String> {
        let mut config = match &self.credentials {
            Credentials::Kubeconfig { files, context } => from_files(files.clone(), context.clone()).await?,
            Credentials::Pod { server, folder } => of_pod(server, folder)?,
        };
        // The output of the plugin goes into the configuration, so that it runs once for each client.
        let expires = match config.auth_info.exec.take() {
            Some(plugin) => exec::run(&plugin).await?.put_into(&mut config.auth_info)?,
            None => None,
        };
        // Requests are tried again by this crate, which honours the time that the server asks to wait.
        config.default_retry = false;
        config.connect_timeout = Some(CONNECT_TIMEOUT);
        config.write_timeout = Some(WRITE_TIMEOUT);
        let namespace = config.default_namespace.clone();
        let client = Client::try_from(config).map_err(|error| describe(&error))?;
        *last += 1;
        let made = Instant::now();
        Ok(self.keep(Session {
            client,
            number: *last,
            namespace,
            made,
            due: made + lifetime(expires, Timestamp::now()),
        }))
    }

    fn keep(&self, session: Session) -> Arc<Session> {
        let session = Arc::new(session);
        self.current.store(Some(Arc::clone(&session)));
        session
    }
}

/// Returns how long to use credentials.
fn lifetime(expires: Option<Timestamp>, now: Timestamp) -> Duration {
    let left = expires.map(|expires| Duration::try_from(expires.duration_since(now)).unwrap_or_default());
    let until_margin = left.map(|left| left.saturating_sub(EXPIRY_MARGIN).max(RENEW_INTERVAL_MIN));
    until_margin.map_or(AGE_MAX, |left| left.min(AGE_MAX))
}

async fn from_files(files: Vec<PathBuf>, context: Option<String>) -> Result<Config, String> {
    // Files of an automounted folder, or of a plugin that makes them, can take their time.
    let read = tokio::task::spawn_blocking(move || merged(&files)).await.map_err(|error| describe(&error))?;
    let options = KubeConfigOptions { context, ..KubeConfigOptions::default() };
    Config::from_custom_kubeconfig(read?, &options).await.map_err(|error| describe(&error))
}

/// Reads files of kubectl. As in kubectl, the first file that has something counts.
fn merged(files: &[PathBuf]) -> Result<Kubeconfig, String> {
    let read = |file: &PathBuf| Kubeconfig::read_from(file).map_err(|error| describe(&error));
    let merge = |merged: Kubeconfig, file: &PathBuf| merged.merge(read(file)?).map_err(|error| describe(&error));
    files.iter().try_fold(Kubeconfig::default(), merge)
}

fn of_pod(server: &str, folder: &Path) -> Result<Config, String> {
    let server = server.parse::<http::Uri>().map_err(|error| format!("the URL of the server {server:?}: {error}"))?;
    let mut config = Config::new(server);
    config.auth_info.token_file = Some(folder.join("token").display().to_string());
    config.root_cert_file = Some(folder.join("ca.crt"));
    Ok(config)
}

#[cfg(test)]
mod tests;
