//! Questions to the other hosts of a fleet: one request each, bounded in time, size and number.
//!
//! Where another host serves its API stands in a record that every program with access to the store can
//! write. So an address is a suggestion, and nothing that it leads to is trusted:
//!
//! * A request goes to `https` with a certificate that the CA file of the fleet verifies, or to plain HTTP on
//!   a loopback address, where alone a host serves plain HTTP.
//! * Secrets of the caller, as a token, go over verified TLS only.
//! * A request names the run of the host that shall answer ([`FORWARDED_TO`]). Another run refuses it, and an
//!   answer without that name ([`ANSWERED_BY`]) counts as none. So a loopback address of another machine
//!   leads nowhere.
//! * A host that gets a forwarded request answers by itself.
//!
//! Deliberately absent: redirects, proxies, retries, and paths or names of headers that a client chooses.

use std::error::Error as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::IntoResponse;
use bytes::Bytes;
use futures_util::future::join_all;
use homeostat_runtime::OtherHost;
use reqwest::redirect::Policy;
use reqwest::{Certificate, Client, Response};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::status::Failure;
use crate::{Address, BadFile, Error, impersonation};

/// The header of a forwarded request: the identity of the host that shall answer.
pub(crate) const FORWARDED_TO: HeaderName = HeaderName::from_static("homeostat-forwarded-to");

/// The header of the answer to a forwarded request: the identity of the host that answers.
pub(crate) const ANSWERED_BY: HeaderName = HeaderName::from_static("homeostat-answered-by");

/// How long another host may take for its whole answer, and for the start of a stream.
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// Maximum bytes of one answer.
const ANSWER_BYTES_MAX: usize = 4 << 20;

/// Maximum bytes of one line of a stream.
pub(crate) const LINE_BYTES_MAX: usize = 1 << 20;

/// Maximum hosts that one request is forwarded to.
pub(crate) const HOSTS_MAX: usize = 32;

/// Maximum answers of other hosts that are awaited or in memory, over all requests.
const ANSWERS_MAX: usize = 64;

/// Maximum streams from other hosts, over all requests.
const STREAMS_MAX: usize = 256;

/// Maximum bytes of the CA file.
const AUTHORITY_BYTES_MAX: u64 = 1 << 20;

/// Maximum characters of the message of another host that are told on.
const MESSAGE_CHARS_MAX: usize = 500;

/// Sends questions to other hosts.
pub(crate) struct Forwarder {
    /// For loopback addresses. It has no certificates, so it speaks no TLS.
    plain: Client,
    /// Trusts the CA file of the fleet, and nothing else. `None` without such a file.
    verified: Option<Client>,
    answers: Arc<Semaphore>,
    streams: Arc<Semaphore>,
}

/// A request that other hosts can answer.
#[derive(Clone, Debug)]
pub(crate) struct Question {
    pub(crate) method: Method,
    /// The path with the query.
    pub(crate) path: String,
    pub(crate) body: Bytes,
    /// Headers of the caller that every route may carry.
    headers: HeaderMap,
    /// Headers with secrets of the caller, as `Authorization`.
    secret_headers: HeaderMap,
}

/// A host that has not answered, for people.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct UnansweredHost {
    /// Its name.
    pub(crate) host: String,
    /// Why, and what helps.
    pub(crate) reason: String,
    /// The status that the other host responded with.
    #[serde(skip)]
    pub(crate) status: Option<StatusCode>,
}

/// The answers of several hosts. They count against [`ANSWERS_MAX`] until this is dropped.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    /// In the order of the hosts.
    pub(crate) answered: Vec<HostAnswer>,
    pub(crate) unanswered: Vec<UnansweredHost>,
    _permits: Vec<OwnedSemaphorePermit>,
}

/// The whole answer of a host.
#[derive(Debug)]
pub(crate) struct HostAnswer {
    pub(crate) host: OtherHost,
    pub(crate) body: Bytes,
}

/// A stream from another host. It counts against [`STREAMS_MAX`] until this is dropped.
pub(crate) struct AnswerStream {
    pub(crate) response: Response,
    _permit: OwnedSemaphorePermit,
}

/// How a request reaches an address.
#[derive(Debug, PartialEq)]
enum Route {
    Plain,
    Verified,
}

impl Question {
    /// Returns a question with the caller's token, and as whom the caller acts.
    pub(crate) fn new(method: Method, path: String, body: Bytes, headers: &HeaderMap) -> Self {
        let mut question = Self { method, path, body, headers: HeaderMap::new(), secret_headers: HeaderMap::new() };
        for (name, value) in headers.iter().filter(|(name, _)| impersonation::is_header(name)) {
            question.headers.append(name, value.clone());
        }
        question.with_secret(header::AUTHORIZATION, headers)
    }

    /// Returns the question with a header of the caller, if it is there.
    pub(crate) fn with(mut self, name: HeaderName, headers: &HeaderMap) -> Self {
        self.headers.extend(headers.get(&name).cloned().map(|value| (name, value)));
        self
    }

    /// Returns the question with a header of the caller that has a secret, if it is there.
    pub(crate) fn with_secret(mut self, name: HeaderName, headers: &HeaderMap) -> Self {
        if let Some(mut value) = headers.get(&name).cloned() {
            value.set_sensitive(true);
            self.secret_headers.insert(name, value);
        }
        self
    }

    /// Returns whether a request was forwarded by another host, so that this one answers it by itself.
    pub(crate) fn is_forwarded(headers: &HeaderMap) -> bool {
        headers.contains_key(FORWARDED_TO)
    }
}

impl Answers {
    /// Returns the answers as documents. A host whose answer is none has not answered.
    pub(crate) fn documents<T: DeserializeOwned>(&mut self) -> Vec<T> {
        let mut documents = Vec::new();
        for HostAnswer { host, body } in self.answered.drain(..) {
            match serde_json::from_slice(&body) {
                Ok(document) => documents.push(document),
                Err(error) => self.unanswered.push(UnansweredHost::unreadable(&host, &error)),
            }
        }
        documents
    }
}

impl From<UnansweredHost> for Failure {
    /// Another host's own refusal keeps its status. Any other failure is that of a gateway.
    fn from(UnansweredHost { host, reason, status }: UnansweredHost) -> Self {
        let (code, word) = match status {
            Some(code @ StatusCode::BAD_REQUEST) => (code, "BadRequest"),
            Some(code @ StatusCode::FORBIDDEN) => (code, "Forbidden"),
            Some(code @ StatusCode::NOT_FOUND) => (code, "NotFound"),
            Some(code @ StatusCode::CONFLICT) => (code, "Conflict"),
            Some(code @ StatusCode::UNPROCESSABLE_ENTITY) => (code, "Invalid"),
            Some(code @ StatusCode::GATEWAY_TIMEOUT) => (code, "Timeout"),
            _ => (StatusCode::BAD_GATEWAY, "BadGateway"),
        };
        Self::new(code, word, format!("host {host:?}: {reason}"))
    }
}

impl UnansweredHost {
    pub(crate) fn unreadable(host: &OtherHost, error: &serde_json::Error) -> Self {
        Self::new(host, format!("its answer cannot be read: {error}"))
    }

    pub(crate) fn new(host: &OtherHost, reason: impl Into<String>) -> Self {
        Self { host: host.name.clone(), reason: reason.into(), status: None }
    }
}

impl Forwarder {
    /// Returns a forwarder that trusts the certificates in a file, and those that they have signed. Without a
    /// file it asks no host over TLS.
    ///
    /// # Errors
    /// [`Error::FleetAuthority`] if the file cannot be read or has no certificate.
    pub(crate) fn new(authority: Option<&Path>) -> Result<Self, Error> {
        let none: [Certificate; 0] = [];
        let plain = client(none).map_err(|source| Error::Client { source })?;
        let verified = authority.map(|path| {
            let failed = |source| Error::FleetAuthority { path: path.to_owned(), source };
            client(certificates(path).map_err(failed)?).map_err(|source| Error::Client { source })
        });
        let (answers, streams) = (Arc::new(Semaphore::new(ANSWERS_MAX)), Arc::new(Semaphore::new(STREAMS_MAX)));
        Ok(Self { plain, verified: verified.transpose()?, answers, streams })
    }

    /// Asks several hosts at once, [`HOSTS_MAX`] at most. Each answer has a bound in time and size.
    ///
    /// *Cancel safety*: the hosts may have got the question.
    pub(crate) async fn ask_all(&self, hosts: &[OtherHost], question: &Question) -> Answers {
        let (asked, left) = hosts.split_at(hosts.len().min(HOSTS_MAX));
        let mut answers = Answers::default();
        let all = join_all(asked.iter().map(|host| self.ask_bounded(host, question))).await;
        for (host, (answer, permit)) in asked.iter().cloned().zip(all) {
            match answer {
                Ok(body) => answers.answered.push(HostAnswer { host, body }),
                Err(unanswered) => answers.unanswered.push(unanswered),
            }
            answers._permits.extend(permit);
        }
        let too_many = || format!("a question is forwarded to {HOSTS_MAX} hosts at most: ask this one directly");
        answers.unanswered.extend(left.iter().map(|host| UnansweredHost::new(host, too_many())));
        answers
    }

    /// Asks one host.
    ///
    /// *Cancel safety*: the host may have got the question.
    async fn ask(&self, host: &OtherHost, question: &Question) -> Result<Bytes, UnansweredHost> {
        self.ask_bounded(host, question).await.0
    }

    /// Asks one host, and responds with its JSON document.
    ///
    /// # Errors
    /// The host has not answered, or not with JSON.
    pub(crate) async fn ask_document(
        &self,
        host: &OtherHost,
        question: &Question,
    ) -> Result<axum::response::Response, Failure> {
        let body = self.ask(host, question).await?;
        let document: Value =
            serde_json::from_slice(&body).map_err(|error| UnansweredHost::unreadable(host, &error))?;
        Ok(Json(document).into_response())
    }

    async fn ask_bounded(
        &self,
        host: &OtherHost,
        question: &Question,
    ) -> (Result<Bytes, UnansweredHost>, Option<OwnedSemaphorePermit>) {
        let Ok(permit) = Arc::clone(&self.answers).try_acquire_owned() else {
            return (Err(UnansweredHost::new(host, "this host waits for too many answers of others: ask again")), None);
        };
        let answer = async {
            let response = self.send(host, question).await?;
            read(host, response).await
        };
        let answer = timeout(ANSWER_MAX, answer).await.unwrap_or_else(|_| Err(late(host, question)));
        (answer, Some(permit))
    }

    /// Opens a stream of lines from a host.
    ///
    /// *Cancel safety*: nothing is lost.
    pub(crate) async fn stream(&self, host: &OtherHost, question: &Question) -> Result<AnswerStream, UnansweredHost> {
        let Ok(permit) = Arc::clone(&self.streams).try_acquire_owned() else {
            return Err(UnansweredHost::new(host, "this host reads too many streams of others: ask again"));
        };
        let response = timeout(ANSWER_MAX, self.send(host, question)).await;
        Ok(AnswerStream { response: response.unwrap_or_else(|_| Err(late(host, question)))?, _permit: permit })
    }

    /// Sends a question, and checks who answers.
    async fn send(&self, host: &OtherHost, question: &Question) -> Result<Response, UnansweredHost> {
        let failed = |reason: String| UnansweredHost::new(host, reason);
        let (address, route) = route(host.address.as_deref()).map_err(failed)?;
        let client = match route {
            Route::Plain => &self.plain,
            Route::Verified => self.verified.as_ref().ok_or_else(|| failed(no_authority(&address)))?,
        };
        let Question { method, path, body, headers: plain, secret_headers } = question;
        let mut headers = HeaderMap::from_iter([(header::ACCEPT, HeaderValue::from_static("application/json"))]);
        let mark = HeaderValue::from_str(&host.identity);
        headers.insert(FORWARDED_TO, mark.map_err(|_| failed("its identity cannot stand in a header".to_owned()))?);
        if *method != Method::GET {
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        headers.extend(plain.clone());
        if route == Route::Verified {
            headers.extend(secret_headers.clone());
        }
        let request = client.request(method.clone(), format!("{address}{path}")).headers(headers).body(body.clone());
        let response = request.send().await.map_err(|error| failed(unreachable(&address, &error)))?;
        if response.headers().get(ANSWERED_BY).is_none_or(|by| by.as_bytes() != host.identity.as_bytes()) {
            return Err(failed(format!("at {address} another program answers: its address must lead to it from here")));
        }
        if response.status() == StatusCode::UNAUTHORIZED {
            return Err(UnansweredHost {
                status: Some(StatusCode::UNAUTHORIZED),
                ..failed(unauthorized(&address, &route, !secret_headers.is_empty()))
            });
        }
        if response.status().is_success() { Ok(response) } else { Err(refused(host, response).await) }
    }
}

/// Returns a client for one kind of address. It follows no redirect, uses no proxy, and sends nothing twice.
fn client(trusted: impl IntoIterator<Item = Certificate>) -> reqwest::Result<Client> {
    let builder = Client::builder().http1_only().no_proxy().redirect(Policy::none()).retry(reqwest::retry::never());
    // A connection that is kept would outlive the host behind it.
    builder.pool_max_idle_per_host(0).connect_timeout(ANSWER_MAX).tls_certs_only(trusted).build()
}

/// Reads the certificates of the CA file.
fn certificates(path: &Path) -> Result<Vec<Certificate>, BadFile> {
    let text = homeostat_files::read_text(path, AUTHORITY_BYTES_MAX).map_err(BadFile::Io)?;
    let found = Certificate::from_pem_bundle(text.as_bytes());
    let found = found.map_err(|error| BadFile::Content(format!("it is not PEM: {error}")))?;
    if found.is_empty() { Err(BadFile::Content("it has no certificate".into())) } else { Ok(found) }
}

/// Returns the address in a record, and how a request reaches it.
///
/// # Errors
/// Why no request is sent there, and what helps.
fn route(address: Option<&str>) -> Result<(Address, Route), String> {
    let Some(text) = address else { return Err("no record tells where it serves its API".to_owned()) };
    let fix = "start it with `--listen https://HOST:PORT`, or with `--advertise`";
    let address: Address = text.parse().map_err(|_| format!("its address {text:?} cannot be read: {fix}"))?;
    let is_nowhere = |number: std::net::IpAddr| number.is_unspecified();
    match &address {
        Address::Unix(_) => Err(format!("its address {text:?} is a socket of its own machine: {fix}")),
        Address::Tcp(number) if number.ip().is_loopback() => Ok((address, Route::Plain)),
        Address::Tcp(_) => Err(format!("its address {text:?} is plain HTTP of another machine: {fix}")),
        Address::Tls { host, .. } if host.parse().is_ok_and(is_nowhere) => {
            Err(format!("its address {text:?} names no machine: {fix}"))
        }
        Address::Tls { .. } => Ok((address, Route::Verified)),
    }
}

fn no_authority(address: &Address) -> String {
    format!("its address is {address}: start this host with `--fleet-ca FILE`, the CA of the fleet's certificates")
}

fn unauthorized(address: &Address, route: &Route, has_token: bool) -> String {
    match (route, has_token) {
        (Route::Plain, _) => format!(
            "it demands a token, which is never sent to {address}: start it with `--listen https://HOST:PORT`, and this \
             host with `--fleet-ca FILE`"
        ),
        (Route::Verified, true) => "it does not know the token: hosts of one fleet need the same tokens".to_owned(),
        (Route::Verified, false) => "it demands a token, and the request has none".to_owned(),
    }
}

fn late(host: &OtherHost, question: &Question) -> UnansweredHost {
    let change = if question.method == Method::GET { "" } else { ", and may have made the change" };
    let reason = format!("it did not answer within {} s{change}", ANSWER_MAX.as_secs());
    UnansweredHost { status: Some(StatusCode::GATEWAY_TIMEOUT), ..UnansweredHost::new(host, reason) }
}

/// Returns why a connection failed. A certificate that is not trusted is named.
fn unreachable(address: &Address, error: &reqwest::Error) -> String {
    let causes = std::iter::successors(error.source(), |error| (*error).source());
    let cause = causes.last().map_or_else(|| "the connection failed".to_owned(), ToString::to_string);
    let cause: String = cause.chars().take(MESSAGE_CHARS_MAX).collect();
    let fix = match address {
        Address::Tls { .. } => "; its certificate must be signed by the CA in the file of `--fleet-ca`",
        _ => "",
    };
    format!("{address} cannot be asked: {cause:?}{fix}")
}

/// Reads the refusal of another host. Its status is kept, and its message is quoted.
async fn refused(host: &OtherHost, response: Response) -> UnansweredHost {
    let status = response.status();
    let body = read(host, response).await.unwrap_or_default();
    let document: Value = serde_json::from_slice(&body).unwrap_or_default();
    let message: String = document["message"].as_str().unwrap_or_default().chars().take(MESSAGE_CHARS_MAX).collect();
    let reason = format!("it answered with status {}: {message:?}", status.as_u16());
    UnansweredHost { status: Some(status), ..UnansweredHost::new(host, reason) }
}

/// Reads a whole answer.
async fn read(host: &OtherHost, mut response: Response) -> Result<Bytes, UnansweredHost> {
    let broken = |error: reqwest::Error| UnansweredHost::new(host, format!("its answer broke off: {error}"));
    let mut body = Vec::new();
    while let Some(bytes) = response.chunk().await.map_err(broken)? {
        if body.len() + bytes.len() > ANSWER_BYTES_MAX {
            let mebibytes = ANSWER_BYTES_MAX >> 20;
            return Err(UnansweredHost::new(host, format!("its answer has more than {mebibytes} MiB: ask for less")));
        }
        body.extend_from_slice(&bytes);
    }
    Ok(body.into())
}

#[cfg(test)]
mod tests;
