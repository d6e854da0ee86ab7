//! The client of a host's API: one request per connection, JSON in both directions.

use std::fmt;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use homeostat_api::Address;
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::header::{HeaderMap, HeaderValue};
use hyper::{Method, Request, Response, header};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::ServerName;

use crate::address;
use crate::exit;
use crate::failure::{ApiError, Unreachable};
use crate::global::Global;

mod kinds;
mod trust;

#[cfg(test)]
pub(crate) use kinds::tests::{document as tests_kinds_document, kinds as tests_kinds};
pub(crate) use kinds::{ApiResource, Kinds};
pub(crate) use trust::{FILE_BYTES_MAX, token};

/// Time limit for the first byte of a response.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(60);

/// How long a request waits before the client probes `/livez`, and the time limit of that probe.
const LIVENESS_TIMEOUT: Duration = Duration::from_secs(5);

/// Time limit for the first byte of a backup: the host copies its store first.
const BACKUP_TIMEOUT: Duration = Duration::from_secs(3600);

/// Bytes of one line of a stream, and of one error document, at most.
const LINE_BYTES_MAX: usize = 64 << 20;

/// The message for status 401.
const NO_TOKEN: &str =
    "the host requires a token, and none or a wrong one was sent: pass --token-file or set HOMEOSTAT_TOKEN";

/// The format of the answer to a request for resources.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ResponseFormat {
    /// The documents as the host stores them.
    #[default]
    Documents,
    /// The columns of their kind and a row for each of them.
    Table,
}

impl ResponseFormat {
    fn accept(self) -> &'static str {
        match self {
            Self::Documents => "application/json",
            Self::Table => "application/json;as=Table;g=meta.k8s.io;v=v1, application/json",
        }
    }
}

/// A client of one host.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    address: Address,
    /// The header with the token; `None` without a token.
    authorization: Option<HeaderValue>,
    /// For an `https` address.
    tls: Option<Arc<ClientConfig>>,
}

/// The response to a successful request.
pub(crate) struct ApiResponse {
    pub(crate) document: Value,
    /// The result of a write: `created`, `configured` or `unchanged`. Empty for other requests.
    pub(crate) change: String,
}

impl Client {
    /// Returns a client of the host that the command line names. Nothing is sent yet.
    ///
    /// # Errors
    /// When the address is invalid, or the token or the certificates cannot be read.
    pub(crate) fn new(global: &Global) -> anyhow::Result<Self> {
        let address = address::server(global)?;
        let authorization = token(global, &address)?.map(|token| trust::authorization(&token)).transpose()?;
        let is_tls = matches!(address, Address::Tls { .. });
        let tls = is_tls.then(|| trust::tls(global.certificate_authority.as_deref())).transpose()?;
        Ok(Self { address, authorization, tls })
    }

    /// Reads one document.
    ///
    /// # Errors
    /// [`Unreachable`] and [`ApiError`].
    pub(crate) async fn get(&self, path: &str) -> anyhow::Result<Value> {
        self.get_as(ResponseFormat::Documents, path).await
    }

    /// Reads one document or one list in a format.
    ///
    /// # Errors
    /// [`Unreachable`] and [`ApiError`].
    pub(crate) async fn get_as(&self, format: ResponseFormat, path: &str) -> anyhow::Result<Value> {
        self.json(self.request(Method::GET, path, headers(format, ""), Bytes::new()).await?).await
    }

    /// Sends a request. An empty `content_type` means no body.
    ///
    /// # Errors
    /// [`Unreachable`] and [`ApiError`].
    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        content_type: &'static str,
        body: Bytes,
    ) -> anyhow::Result<ApiResponse> {
        let response = self.request(method, path, headers(ResponseFormat::Documents, content_type), body).await?;
        let change = response
            .headers()
            .get("homeostat-change")
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default()
            .to_owned();
        Ok(ApiResponse { document: self.json(response).await?, change })
    }

    async fn json(&self, response: Response<Incoming>) -> anyhow::Result<Value> {
        let bytes = response.into_body().collect().await.map_err(|error| self.unreachable(&error))?.to_bytes();
        serde_json::from_slice(&bytes).context("the host's answer is not JSON: is it a Homeostat host?")
    }

    /// Downloads `path` to a new file, which appears when it is complete and synced. Returns its length in
    /// bytes.
    ///
    /// # Errors
    /// [`ApiError`], [`Unreachable`], and errors of the file system. An existing file is not replaced.
    pub(crate) async fn save(&self, path: &str, file: &Path) -> anyhow::Result<u64> {
        if file.symlink_metadata().is_ok() {
            return Err(exit::failed(format!("{} already exists; choose another file", file.display())));
        }
        let response = self.request_within(BACKUP_TIMEOUT, Method::GET, path, HeaderMap::new(), Bytes::new()).await?;
        let length =
            response.headers().get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
        let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut draft =
            tempfile::NamedTempFile::new_in(folder).with_context(|| format!("cannot write in {}", folder.display()))?;
        let mut body = response.into_body();
        let mut saved = 0;
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| self.unreachable(&error))?;
            if let Ok(bytes) = frame.into_data() {
                draft.write_all(&bytes).with_context(|| format!("{} cannot be written", file.display()))?;
                saved += bytes.len() as u64;
            }
        }
        if length.is_some_and(|length: u64| length != saved) {
            return Err(exit::failed(format!("the host closed the connection after {saved} bytes: nothing was saved")));
        }
        draft.as_file().sync_all().with_context(|| format!("{} cannot be written", file.display()))?;
        draft.persist_noclobber(file).with_context(|| format!("{} cannot be written", file.display()))?;
        Ok(saved)
    }

    /// Opens a stream of lines.
    ///
    /// # Errors
    /// [`Unreachable`] and [`ApiError`].
    pub(crate) async fn lines(&self, path: &str) -> anyhow::Result<LineStream> {
        self.lines_as(ResponseFormat::Documents, path).await
    }

    /// Opens a watch whose events have their resources in a format.
    ///
    /// # Errors
    /// [`Unreachable`] and [`ApiError`].
    pub(crate) async fn lines_as(&self, format: ResponseFormat, path: &str) -> anyhow::Result<LineStream> {
        let response = self.request(Method::GET, path, headers(format, ""), Bytes::new()).await?;
        Ok(LineStream { body: response.into_body(), buffer: Vec::new(), address: self.address.clone() })
    }

    /// Sends a request. Returns the response if its status is a success.
    async fn request(
        &self,
        method: Method,
        path: &str,
        headers: HeaderMap,
        body: Bytes,
    ) -> anyhow::Result<Response<Incoming>> {
        self.request_within(RESPONSE_TIMEOUT, method, path, headers, body).await
    }

    async fn request_within(
        &self,
        answer_max: Duration,
        method: Method,
        path: &str,
        headers: HeaderMap,
        body: Bytes,
    ) -> anyhow::Result<Response<Incoming>> {
        let mut request = Request::builder().method(method).uri(path).header(header::HOST, self.host());
        if let Some(authorization) = &self.authorization {
            request = request.header(header::AUTHORIZATION, authorization);
        }
        let request = request.body(Full::new(body));
        let mut request = request.context("a name has a character that is not allowed in a URL")?;
        request.headers_mut().extend(headers);
        let response = tokio::select! {
            answer = self.exchange(request) => answer?,
            () = tokio::time::sleep(answer_max) => {
                return Err(self.unreachable(&format!("it did not answer within {} s", answer_max.as_secs())).into());
            }
            () = self.until_unresponsive() => return Err(Unreachable::Silent { address: self.address.clone() }.into()),
        };
        if response.status().is_success() {
            return Ok(response);
        }
        let code = response.status().as_u16();
        let body = http_body_util::Limited::new(response.into_body(), LINE_BYTES_MAX).collect().await;
        let bytes = body.map(http_body_util::Collected::to_bytes).unwrap_or_default();
        Err(api_error(code, &bytes).into())
    }

    /// Returns when the host does not answer `/livez` in time. A host that answers may take long for the
    /// request itself.
    async fn until_unresponsive(&self) {
        let mut has_answered = true;
        while has_answered {
            tokio::time::sleep(LIVENESS_TIMEOUT).await;
            let lives = Request::get("/livez").header(header::HOST, self.host()).body(Full::default());
            let lives = lives.expect("the name of a host is a header");
            // Any answer will do: if the probe fails with an error, the request fails with it as well.
            has_answered = tokio::time::timeout(LIVENESS_TIMEOUT, self.exchange(lives)).await.is_ok();
        }
    }

    async fn exchange(&self, request: Request<Full<Bytes>>) -> anyhow::Result<Response<Incoming>> {
        let stream = self.connect().await.map_err(|error| {
            trust::explain(&self.address, &error).unwrap_or_else(|| self.unreachable(&no_connection(&error)).into())
        })?;
        let (mut sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(|error| self.unreachable(&error))?;
        // The connection ends with the response, which also reports its errors.
        drop(tokio::spawn(connection));
        Ok(sender.send_request(request).await.map_err(|error| self.unreachable(&error))?)
    }

    async fn connect(&self) -> io::Result<Box<dyn Stream>> {
        match (&self.address, &self.tls) {
            (Address::Unix(path), _) => Ok(Box::new(UnixStream::connect(path).await?)),
            (Address::Tcp(address), _) => Ok(Box::new(TcpStream::connect(address).await?)),
            (Address::Tls { host, port }, tls) => {
                let config = tls.clone().ok_or(io::ErrorKind::Unsupported)?;
                let name = ServerName::try_from(host.clone()).map_err(io::Error::other)?;
                let stream = TcpStream::connect((host.as_str(), *port)).await?;
                Ok(Box::new(TlsConnector::from(config).connect(name, stream).await?))
            }
        }
    }

    /// Returns the `Host` header. Local hosts ignore its value.
    fn host(&self) -> String {
        match &self.address {
            Address::Unix(_) | Address::Tcp(_) => "localhost".to_owned(),
            address @ Address::Tls { .. } => address.to_string().replace("https://", ""),
        }
    }

    fn unreachable(&self, why: &dyn fmt::Display) -> Unreachable {
        Unreachable::Gone { address: self.address.clone(), why: why.to_string() }
    }
}

/// Returns the headers of a request. An empty `content_type` means no body.
fn headers(format: ResponseFormat, content_type: &'static str) -> HeaderMap {
    let mut headers = HeaderMap::from_iter([(header::ACCEPT, HeaderValue::from_static(format.accept()))]);
    if !content_type.is_empty() {
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    }
    headers
}

trait Stream: tokio::io::AsyncRead + tokio::io::AsyncWrite + Send + Unpin {}
impl<S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Send + Unpin> Stream for S {}

/// Explains a failed connection.
fn no_connection(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "there is no such socket".to_owned(),
        io::ErrorKind::ConnectionRefused => "nothing is listening there".to_owned(),
        io::ErrorKind::PermissionDenied => "this user may not connect to it".to_owned(),
        _ => error.to_string(),
    }
}

/// Reads an error response: a `Status` document, or a body of any other kind.
fn api_error(code: u16, body: &[u8]) -> ApiError {
    let status: Value = serde_json::from_slice(body).unwrap_or_default();
    let text = |name: &str| status[name].as_str().map(str::to_owned);
    let message = text("message").filter(|message| !message.is_empty());
    let message = message.unwrap_or_else(|| format!("the host answered with status {code}"));
    let message = if code == 401 { NO_TOKEN.to_owned() } else { message };
    ApiError { code, reason: text("reason").unwrap_or_default(), message }
}

/// A stream of JSON documents, one for each line.
pub(crate) struct LineStream {
    body: Incoming,
    buffer: Vec<u8>,
    address: Address,
}

impl LineStream {
    /// Returns the next document; `None` at the end.
    ///
    /// # Errors
    /// [`Unreachable`] when the connection breaks.
    pub(crate) async fn next(&mut self) -> anyhow::Result<Option<Value>> {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.buffer.drain(..=end).collect();
                return serde_json::from_slice(&line).map(Some).context("the host sent a line that is not JSON");
            }
            if self.buffer.len() > LINE_BYTES_MAX {
                return Err(exit::internal(format!("the host sent a line of more than {} MiB", LINE_BYTES_MAX >> 20)));
            }
            let Some(frame) = self.body.frame().await else { return Ok(None) };
            let frame =
                frame.map_err(|error| Unreachable::Gone { address: self.address.clone(), why: error.to_string() })?;
            if let Ok(data) = frame.into_data() {
                self.buffer.extend_from_slice(&data);
            }
        }
    }
}

/// Appends a query to `path`: the pairs that have a value, escaped.
pub(crate) fn with_query(path: &str, pairs: &[(&str, Option<&str>)]) -> String {
    let mut address = path.to_owned();
    let mut mark = '?';
    for (name, value) in pairs {
        if let Some(value) = value {
            address.push(mark);
            address.push_str(name);
            address.push('=');
            escape(&mut address, value);
            mark = '&';
        }
    }
    address
}

/// Appends `text`, percent-encoded for any part of a URL.
fn escape(address: &mut String, text: &str) {
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            address.push(char::from(byte));
        } else {
            address.push_str(&format!("%{byte:02X}"));
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
