//! HTTP requests through `wasi:http`.
//!
//! ```no_run
//! # use homeostat_sdk::http;
//! # use std::time::Duration;
//! # fn f() -> Result<(), http::Error> {
//! let answer = http::get("https://example.com/health").timeout(Duration::from_secs(2)).send()?;
//! assert_eq!(answer.status, 200);
//! # Ok(()) }
//! ```
//!
//! The manifest grants addresses and methods under `grants.http`. The host adds secrets to the headers; the
//! guest never sees them. A component imports `wasi:http` only if it calls a function of this module.
//!
//! Deliberately absent: redirects (a 3xx response is returned as it is), cookies, streaming.

use std::fmt;
use std::time::Duration;

use wasip2::http::outgoing_handler::{self, OutgoingRequest, RequestOptions};
use wasip2::http::types::{ErrorCode, Fields, IncomingBody, IncomingResponse, Method, OutgoingBody, Scheme};
use wasip2::io::streams::StreamError;

/// The timeout of a request that sets none.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The maximum response body of a request that sets no other.
const BODY_BYTES_MAX: usize = 1 << 20;
/// The bytes that one call to the host reads.
const READ_BYTES: u64 = 64 << 10;
/// The maximum that `wasi:io` accepts in one blocking write.
const WRITE_BYTES_MAX: usize = 4096;

/// The reason why a request has no response.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The address, the method or a header is malformed.
    #[error("invalid request: {0}")]
    Invalid(String),
    /// No grant of the manifest covers it, or the host allows no request to that address.
    #[error("the request is not granted: add the address to spec.grants.http of the controller")]
    Forbidden,
    /// The timeout passed.
    #[error("no answer in time ({0})")]
    Timeout(String),
    /// No connection, or it broke.
    #[error("not reachable ({0})")]
    Unreachable(String),
    /// The response is larger than the request allows.
    #[error("the answer is larger than {bytes_max} bytes")]
    TooLarge {
        /// The limit of the request.
        bytes_max: usize,
    },
    /// Any other failure.
    #[error("the request failed ({0})")]
    Failed(String),
}

/// A response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    /// 100 to 599.
    pub status: u16,
    /// Names in lower case, values as received.
    pub headers: Vec<(String, Vec<u8>)>,
    /// The whole body; empty for a request [`without_body`](Request::without_body).
    pub body: Vec<u8>,
}

impl Response {
    /// Returns the first header of that name, if it is text. `name` is in lower case.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        let (_, value) = self.headers.iter().find(|(there, _)| there == name)?;
        std::str::from_utf8(value).ok()
    }

    /// Parses the body as JSON.
    ///
    /// # Errors
    ///
    /// When it is not JSON, or does not fit the type.
    pub fn json<T: serde::de::DeserializeOwned>(&self) -> serde_json::Result<T> {
        serde_json::from_slice(&self.body)
    }
}

/// A request that has not been sent.
#[derive(Debug, Clone)]
#[must_use = "it is not sent before `send`"]
pub struct Request {
    method: String,
    url: String,
    headers: Vec<(String, Vec<u8>)>,
    body: Vec<u8>,
    timeout: Duration,
    /// `None`: the body is not read.
    body_bytes_max: Option<usize>,
}

/// Creates a `GET` request.
pub fn get(url: impl Into<String>) -> Request {
    request("GET", url)
}

/// Creates a request with any method to an absolute address: `http://` or `https://`.
pub fn request(method: &str, url: impl Into<String>) -> Request {
    Request {
        method: method.to_owned(),
        url: url.into(),
        headers: Vec::new(),
        body: Vec::new(),
        timeout: TIMEOUT,
        body_bytes_max: Some(BODY_BYTES_MAX),
    }
}

impl Request {
    /// Adds a header.
    pub fn header(mut self, name: &str, value: impl Into<Vec<u8>>) -> Self {
        self.headers.push((name.to_owned(), value.into()));
        self
    }

    /// Sets the body.
    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    /// Sets the timeout of each phase: connecting, waiting for the first byte, and each pause between bytes.
    /// Default: 10 s. The deadline of the reconcile applies as well.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sets the maximum size of the response body. Default: 1 MiB.
    pub fn body_bytes_max(mut self, bytes: usize) -> Self {
        self.body_bytes_max = Some(bytes);
        self
    }

    /// Does not read the response body, however large it is: status and headers are enough.
    pub fn without_body(mut self) -> Self {
        self.body_bytes_max = None;
        self
    }

    /// Sends the request, and waits for the whole response. Every status is a response, including 404 and
    /// 503.
    ///
    /// # Errors
    ///
    /// Every [`Error`].
    pub fn send(self) -> Result<Response, Error> {
        let Self { method, url, headers, body, timeout, body_bytes_max } = self;
        let answer = start(&method, &url, &headers, &body, timeout)?;
        let status = answer.status();
        let headers = answer.headers().entries();
        let body = body_bytes_max.map_or(Ok(Vec::new()), |bytes_max| read_body(&answer, bytes_max))?;
        Ok(Response { status, headers, body })
    }
}

/// Sends the request, and waits for the head of the response.
fn start(
    method: &str,
    url: &str,
    headers: &[(String, Vec<u8>)],
    body: &[u8],
    timeout: Duration,
) -> Result<IncomingResponse, Error> {
    let Address { scheme, authority, path } =
        Address::parse(url).ok_or_else(|| Error::Invalid(format!("address {url:?}")))?;
    let fields = Fields::from_list(headers).map_err(|error| Error::Invalid(format!("header: {error:?}")))?;
    let request = OutgoingRequest::new(fields);
    let invalid = |what: &str| Error::Invalid(format!("{what} of {method} {url:?}"));
    request.set_method(&method_of(method)).map_err(|()| invalid("method"))?;
    request.set_scheme(Some(&scheme)).map_err(|()| invalid("scheme"))?;
    request.set_authority(Some(authority)).map_err(|()| invalid("host"))?;
    request.set_path_with_query(Some(&path)).map_err(|()| invalid("path"))?;

    let options = RequestOptions::new();
    let nanoseconds = Some(u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX));
    // Unsupported options are ignored; the deadline of the reconcile still applies.
    let _ = options.set_connect_timeout(nanoseconds);
    let _ = options.set_first_byte_timeout(nanoseconds);
    let _ = options.set_between_bytes_timeout(nanoseconds);

    let outgoing = request.body().map_err(|()| Error::Failed("the body was taken".to_owned()))?;
    let future = outgoing_handler::handle(request, Some(options)).map_err(|code| from_code(&code))?;
    write_body(outgoing, body)?;
    future.subscribe().block();
    match future.get() {
        Some(Ok(Ok(answer))) => Ok(answer),
        Some(Ok(Err(code))) => Err(from_code(&code)),
        Some(Err(())) | None => Err(Error::Failed("the answer was lost".to_owned())),
    }
}

fn write_body(outgoing: OutgoingBody, body: &[u8]) -> Result<(), Error> {
    if !body.is_empty() {
        let stream = outgoing.write().map_err(|()| Error::Failed("the body was taken".to_owned()))?;
        for part in body.chunks(WRITE_BYTES_MAX) {
            stream.blocking_write_and_flush(part).map_err(|error| from_stream(&error))?;
        }
    }
    OutgoingBody::finish(outgoing, None).map_err(|code| from_code(&code))
}

fn read_body(answer: &IncomingResponse, bytes_max: usize) -> Result<Vec<u8>, Error> {
    let incoming: IncomingBody = answer.consume().map_err(|()| Error::Failed("the body was taken".to_owned()))?;
    let stream = incoming.stream().map_err(|()| Error::Failed("the body was taken".to_owned()))?;
    let mut body = Vec::new();
    loop {
        match stream.blocking_read(READ_BYTES) {
            Ok(part) if body.len() + part.len() > bytes_max => {
                return Err(Error::TooLarge { bytes_max });
            }
            Ok(part) => body.extend(part),
            Err(StreamError::Closed) => return Ok(body),
            Err(error) => return Err(from_stream(&error)),
        }
    }
}

fn method_of(method: &str) -> Method {
    match method {
        "GET" => Method::Get,
        "HEAD" => Method::Head,
        "POST" => Method::Post,
        "PUT" => Method::Put,
        "DELETE" => Method::Delete,
        "OPTIONS" => Method::Options,
        "PATCH" => Method::Patch,
        other => Method::Other(other.to_owned()),
    }
}

fn from_stream(error: &StreamError) -> Error {
    match error {
        StreamError::Closed => Error::Unreachable("the connection was closed".to_owned()),
        StreamError::LastOperationFailed(error) => Error::Unreachable(error.to_debug_string()),
    }
}

fn from_code(code: &ErrorCode) -> Error {
    match code {
        ErrorCode::HttpRequestDenied | ErrorCode::DestinationIpProhibited => Error::Forbidden,
        ErrorCode::HttpRequestUriInvalid | ErrorCode::HttpRequestMethodInvalid => Error::Invalid(short(code)),
        ErrorCode::DnsTimeout
        | ErrorCode::ConnectionTimeout
        | ErrorCode::ConnectionReadTimeout
        | ErrorCode::ConnectionWriteTimeout
        | ErrorCode::HttpResponseTimeout => Error::Timeout(short(code)),
        ErrorCode::DnsError(_)
        | ErrorCode::DestinationNotFound
        | ErrorCode::DestinationUnavailable
        | ErrorCode::DestinationIpUnroutable
        | ErrorCode::ConnectionRefused
        | ErrorCode::ConnectionTerminated
        | ErrorCode::ConnectionLimitReached
        | ErrorCode::TlsProtocolError
        | ErrorCode::TlsCertificateError
        | ErrorCode::TlsAlertReceived(_) => Error::Unreachable(short(code)),
        _ => Error::Failed(short(code)),
    }
}

/// Returns WASI's name of the error with its details.
fn short(code: &ErrorCode) -> String {
    let text = format!("{code:?}");
    text.strip_prefix("ErrorCode::").map_or(text.clone(), str::to_owned)
}

/// The parts of an absolute address, as `wasi:http` needs them.
#[derive(Debug)]
struct Address<'a> {
    scheme: Scheme,
    authority: &'a str,
    path: String,
}

impl<'a> Address<'a> {
    fn parse(url: &'a str) -> Option<Self> {
        let (scheme, rest) = url.split_once("://")?;
        let scheme = match scheme.to_ascii_lowercase().as_str() {
            "http" => Scheme::Http,
            "https" => Scheme::Https,
            _ => return None,
        };
        let rest = rest.split('#').next().unwrap_or(rest);
        let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        let slash = if path.starts_with('/') { "" } else { "/" };
        // Credentials belong in the manifest, as a secret, not in an address.
        let usable = !authority.is_empty() && !authority.contains('@') && !url.contains(char::is_whitespace);
        usable.then(|| Self { scheme, authority, path: format!("{slash}{path}") })
    }
}

impl fmt::Display for Response {
    /// Writes the status and the length of the body: `200, 512 bytes`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {} bytes", self.status, self.body.len())
    }
}

#[cfg(test)]
mod tests;
