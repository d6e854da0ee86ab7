//! `wasi:http/outgoing-handler`: a request with its whole body becomes one effect, and its response with its
//! whole body one answer.
//!
//! Deliberately absent: streaming, trailers, and incoming requests.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use wasmtime_wasi_http::{Error, RequestOptions, WasiBody, WasiHttpCtxView, WasiHttpHooks, WasiHttpView};

use crate::call_context::CallContext;
use crate::call_context::State;
use crate::effect::{Answer, Blob, Effect, HttpError, HttpRequest, HttpResponse, Level};

/// Sends the requests of one instance.
pub(crate) struct HttpHooks {
    context: Arc<CallContext>,
}

impl HttpHooks {
    pub(crate) fn new(port: Arc<CallContext>) -> Self {
        Self { context: port }
    }
}

impl WasiHttpView for State {
    fn http(&mut self) -> WasiHttpCtxView<'_> {
        WasiHttpCtxView { hooks: &mut self.hooks, table: &mut self.table, ctx: &mut self.http }
    }
}

type Io = Box<dyn Future<Output = Result<(), Error>> + Send>;
type Sent = Box<dyn Future<Output = Result<(::http::Response<WasiBody>, Io), Error>> + Send>;

impl WasiHttpHooks for HttpHooks {
    fn send_request(
        &mut self,
        request: ::http::Request<WasiBody>,
        options: Option<RequestOptions>,
        _: Box<dyn Future<Output = Result<(), Error>> + Send>,
    ) -> Sent {
        let port = Arc::clone(&self.context);
        Box::new(async move {
            let response = send(&port, request, options).await?;
            let done: Io = Box::new(async { Ok(()) });
            Ok((response, done))
        })
    }
}

async fn send(
    port: &CallContext,
    request: ::http::Request<WasiBody>,
    options: Option<RequestOptions>,
) -> Result<::http::Response<WasiBody>, Error> {
    let (head, body) = request.into_parts();
    // Grants and records have the address that will be sent: `a/../b` is `b`.
    let url = reqwest::Url::parse(&head.uri.to_string()).map_err(|_| Error::HttpRequestUriInvalid)?;
    let body_bytes_max = port.limits.http_body_bytes_max;
    let body = Limited::new(body, usize::try_from(body_bytes_max).unwrap_or(usize::MAX)).collect().await;
    let body = body.map_err(|_| Error::HttpRequestBodySize(Some(body_bytes_max)))?.to_bytes();
    let request = HttpRequest {
        method: head.method.as_str().to_owned(),
        url: url.into(),
        headers: from_headers(&head.headers),
        body: body.into(),
        timeout_ms: options.and_then(timeout_ms),
    };
    let what = format!("{} {}", request.method, request.url);
    match port.perform(Effect::Http(request)).await {
        Ok(Answer::Http(Ok(response))) if response.body.len() as u64 > body_bytes_max => {
            Err(to_error(HttpError::TooLarge(body_bytes_max)))
        }
        Ok(Answer::Http(Ok(response))) => to_response(response),
        Ok(Answer::Http(Err(error))) => {
            explain(port, &what, &error).await;
            Err(to_error(error))
        }
        Ok(other) => Err(Error::InternalError(Some(format!("the host answered {} instead of Http", other.name())))),
        // The call ends with this limit, regardless of how the guest reacts.
        Err(limit) => Err(Error::InternalError(Some(limit.to_string()))),
    }
}

/// Logs the details that the error codes of `wasi:http` cannot express.
async fn explain(port: &CallContext, what: &str, error: &HttpError) {
    let message = format!("{what}: {error}");
    // Only a limit can make this fail, and it has been recorded already.
    drop(port.log(Effect::Log { level: Level::Warn, message, fields: Vec::new() }).await);
}

fn from_headers(headers: &::http::HeaderMap) -> Vec<(String, Blob)> {
    // The host derives this header from the URL.
    let sent = headers.iter().filter(|(name, _)| *name != ::http::header::HOST);
    sent.map(|(name, value)| (name.as_str().to_owned(), Bytes::copy_from_slice(value.as_bytes()).into())).collect()
}

fn to_response(response: HttpResponse) -> Result<::http::Response<WasiBody>, Error> {
    let HttpResponse { status, headers, body } = response;
    let mut builder = ::http::Response::builder().status(status);
    for (name, value) in headers {
        builder = builder.header(name, &*value);
    }
    let body = Full::new(body.into_bytes()).map_err(|never| match never {}).boxed_unsync();
    builder.body(body).map_err(|error| Error::InternalError(Some(error.to_string())))
}

fn to_error(error: HttpError) -> Error {
    match error {
        HttpError::Forbidden(_) => Error::HttpRequestDenied,
        HttpError::Invalid(reason) => Error::InternalError(Some(reason)),
        HttpError::TooLarge(bytes_max) => Error::HttpResponseBodySize(Some(bytes_max)),
        HttpError::Timeout => Error::HttpResponseTimeout,
        HttpError::Unreachable(_) => Error::DestinationUnavailable,
    }
}

/// Returns the total timeout: the response arrives in one piece, so its phases are added up.
fn timeout_ms(options: RequestOptions) -> Option<u64> {
    let RequestOptions { connect_timeout, first_byte_timeout, between_bytes_timeout: _ } = options;
    let parts: [Option<Duration>; 2] = [connect_timeout, first_byte_timeout];
    parts.into_iter().flatten().reduce(Duration::saturating_add).map(crate::millis::of)
}
