//! The client of a host's API: one request per connection, JSON in both directions.

use std::error::Error;
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use homeostat_api::Address;
use reqwest::header::{self, HeaderMap, HeaderValue};
use reqwest::{Body, Method, RequestBuilder, Response, Url};
use serde_json::Value;

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
pub(crate) enum ResourceFormat {
    /// The documents as the host stores them.
    #[default]
    Documents,
    /// The columns of their kind and a row for each of them.
    Table,
}

impl ResourceFormat {
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
    http: reqwest::Client,
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
        let http = trust::http_client(&address, global.certificate_authority.as_deref())?;
        Ok(Self { address, authorization, http })
    }

    /// Reads one document.
    ///
    /// # Errors
    /// [`Unreachable`] and [`ApiError`].
    pub(crate) async fn get(&self, path: &str) -> anyhow::Result<Value> {
        self.get_as(ResourceFormat::Documents, path).await
    }

    /// Reads one document or one list in a format.
    ///
    /// # Errors
    /// [`Unreachable`] and [`ApiError`].
    pub(crate) async fn get_as(&self, format: ResourceFormat, path: &str) -> anyhow::Result<Value> {
        self.json(self.request(Method::GET, path, headers(format, ""), "").await?).await
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
        body: impl Into<Body>,
    ) -> anyhow::Result<ApiResponse> {
        let response = self.request(method, path, headers(ResourceFormat::Documents, content_type), body).await?;
        let change = response
            .headers()
            .get("homeostat-change")
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default()
            .to_owned();
        Ok(ApiResponse { document: self.json(response).await?, change })
    }

    async fn json(&self, response: Response) -> anyhow::Result<Value> {
        let bytes = response.bytes().await.map_err(|error| self.unreachable(&error))?;
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
        let request = self.http.get(self.url(path)?);
        let mut response = self.request_within(BACKUP_TIMEOUT, request).await?;
        let length = response.content_length();
        let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut draft =
            tempfile::NamedTempFile::new_in(folder).with_context(|| format!("cannot write in {}", folder.display()))?;
        let mut saved = 0;
        while let Some(bytes) = response.chunk().await.map_err(|error| self.unreachable(&error))? {
            draft.write_all(&bytes).with_context(|| format!("{} cannot be written", file.display()))?;
            saved += bytes.len() as u64;
        }
        if length.is_some_and(|length| length != saved) {
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
        self.lines_as(ResourceFormat::Documents, path).await
    }

    /// Opens a watch whose events have their resources in a format.
    ///
    /// # Errors
    /// [`Unreachable`] and [`ApiError`].
    pub(crate) async fn lines_as(&self, format: ResourceFormat, path: &str) -> anyhow::Result<LineStream> {
        let response = self.request(Method::GET, path, headers(format, ""), "").await?;
        Ok(LineStream { response, buffer: Vec::new(), address: self.address.clone() })
    }

    /// Sends a request. Returns the response if its status is a success.
    async fn request(
        &self,
        method: Method,
        path: &str,
        headers: HeaderMap,
        body: impl Into<Body>,
    ) -> anyhow::Result<Response> {
        let request = self.http.request(method, self.url(path)?).headers(headers).body(body);
        self.request_within(RESPONSE_TIMEOUT, request).await
    }

    async fn request_within(&self, answer_max: Duration, mut request: RequestBuilder) -> anyhow::Result<Response> {
        if let Some(authorization) = &self.authorization {
            request = request.header(header::AUTHORIZATION, authorization);
        }
        let mut response = tokio::select! {
            answer = request.send() => answer.map_err(|error| self.unreachable(&error))?,
            () = tokio::time::sleep(answer_max) => {
                let why = format!("it did not answer within {} s", answer_max.as_secs());
                return Err(Unreachable::Gone { address: self.address.clone(), why }.into());
            }
            () = self.until_unresponsive() => return Err(Unreachable::Silent { address: self.address.clone() }.into()),
        };
        if response.status().is_success() {
            return Ok(response);
        }
        let (code, mut body) = (response.status().as_u16(), Vec::new());
        while let Ok(Some(bytes)) = response.chunk().await
            && body.len() + bytes.len() <= LINE_BYTES_MAX
        {
            body.extend_from_slice(&bytes);
        }
        Err(api_error(code, &body).into())
    }

    /// Returns when the host does not answer `/livez` in time. A host that answers may take long for the
    /// request itself.
    async fn until_unresponsive(&self) {
        let mut has_answered = true;
        while has_answered {
            tokio::time::sleep(LIVENESS_TIMEOUT).await;
            let Ok(url) = self.url("/livez") else { return };
            // Any answer will do: if the probe fails with an error, the request fails with it as well.
            has_answered = tokio::time::timeout(LIVENESS_TIMEOUT, self.http.get(url).send()).await.is_ok();
        }
    }

    /// Returns the URL of a path. The path is sent as it is: a URL would resolve `..`, and escape characters.
    fn url(&self, path: &str) -> anyhow::Result<Url> {
        let host = match &self.address {
            Address::Unix(_) => "http://localhost".to_owned(),
            address => address.to_string(),
        };
        let url = Url::parse(&format!("{host}{path}")).ok();
        url.filter(|url| url.as_str().ends_with(path) && url.fragment().is_none())
            .context("a name has a character that is not allowed in a URL")
    }

    fn unreachable(&self, error: &reqwest::Error) -> anyhow::Error {
        unreachable(&self.address, error)
    }
}

/// Returns the headers of a request. An empty `content_type` means no body.
fn headers(format: ResourceFormat, content_type: &'static str) -> HeaderMap {
    let mut headers = HeaderMap::from_iter([(header::ACCEPT, HeaderValue::from_static(format.accept()))]);
    if !content_type.is_empty() {
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    }
    headers
}

/// Explains a failed request.
fn unreachable(address: &Address, error: &reqwest::Error) -> anyhow::Error {
    let gone = || Unreachable::Gone { address: address.clone(), why: reason(error) }.into();
    trust::explain(address, error).unwrap_or_else(gone)
}

/// Returns why a connection failed.
fn reason(error: &(dyn Error + 'static)) -> String {
    let system = causes(error).filter_map(|cause| cause.downcast_ref::<io::Error>()).last();
    match system.map(io::Error::kind) {
        Some(io::ErrorKind::NotFound) => "there is no such socket".to_owned(),
        Some(io::ErrorKind::ConnectionRefused) => "nothing is listening there".to_owned(),
        Some(io::ErrorKind::PermissionDenied) => "this user may not connect to it".to_owned(),
        _ => causes(error).last().map(ToString::to_string).unwrap_or_default(),
    }
}

/// Returns an error and its causes, the outermost first. `source` of an [`io::Error`] skips the error that it
/// wraps; this list has it.
fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&error| -> Option<&'a (dyn Error + 'static)> {
        match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
            Some(wrapped) => Some(wrapped),
            None => error.source(),
        }
    })
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
    response: Response,
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
            let bytes = self.response.chunk().await.map_err(|error| unreachable(&self.address, &error))?;
            let Some(bytes) = bytes else { return Ok(None) };
            self.buffer.extend_from_slice(&bytes);
        }
    }
}

/// Appends a query to `path`: the pairs that have a value, escaped.
pub(crate) fn with_query(path: &str, pairs: &[(&str, Option<&str>)]) -> String {
    let mut url = Url::parse("http://localhost").expect("it is a URL");
    url.query_pairs_mut().extend_pairs(pairs.iter().filter_map(|(name, value)| Some((name, (*value)?))));
    match url.query() {
        Some(query) if !query.is_empty() => format!("{path}?{query}"),
        _ => path.to_owned(),
    }
}

#[cfg(test)]
pub(crate) mod tests;
