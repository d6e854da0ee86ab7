//! Sends HTTP requests for guests: no redirects, no cookies, no proxy from the environment, and a bound on everything.

use std::time::Duration;

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::redirect::Policy;

use crate::effect::{Blob, HttpError, HttpRequest, HttpResponse};
use crate::error::Error;

/// Longest wait for a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Longest wait for a whole answer, whatever the guest asks for. The deadline of the call is shorter most of the time.
const TIMEOUT: Duration = Duration::from_secs(120);

/// A client with its connections. Cheap to clone; one is enough for a host.
#[derive(Clone, Debug)]
pub struct HttpClient {
    client: reqwest::Client,
    body_bytes_max: u64,
}

impl HttpClient {
    /// Builds a client that reads bodies of at most `body_bytes_max` bytes.
    ///
    /// # Errors
    /// `Http` when the certificates of the system cannot be read.
    pub fn new(body_bytes_max: u64) -> Result<Self, Error> {
        let client = reqwest::Client::builder()
            .redirect(Policy::none())
            .no_proxy()
            .connect_timeout(CONNECT_TIMEOUT)
            .timeout(TIMEOUT)
            .build()
            .map_err(|error| Error::Http(error.into()))?;
        Ok(Self { client, body_bytes_max })
    }

    /// Sends one request and reads the answer to its end.
    pub(super) async fn send(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let HttpRequest { method, url, headers, body, timeout_ms } = request;
        let method = reqwest::Method::from_bytes(method.as_bytes()).map_err(invalid)?;
        let url = reqwest::Url::parse(&url).map_err(invalid)?;
        let mut builder = self.client.request(method, url).headers(to_headers(headers)?).body(body.into_bytes());
        if let Some(timeout_ms) = timeout_ms {
            builder = builder.timeout(Duration::from_millis(timeout_ms).min(TIMEOUT));
        }
        let mut response = builder.send().await.map_err(to_error)?;
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(to_error)? {
            if (body.len() + chunk.len()) as u64 > self.body_bytes_max {
                return Err(HttpError::TooLarge(self.body_bytes_max));
            }
            body.extend_from_slice(&chunk);
        }
        let headers = response.headers().iter();
        let headers = headers.map(|(name, value)| (name.as_str().to_owned(), Blob::from(value.as_bytes().to_vec())));
        Ok(HttpResponse { status: response.status().as_u16(), headers: headers.collect(), body: body.into() })
    }
}

fn to_headers(headers: Vec<(String, Blob)>) -> Result<HeaderMap, HttpError> {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(invalid)?;
        let mut value = HeaderValue::from_maybe_shared(value.into_bytes()).map_err(invalid)?;
        // Keeps the values out of the logs of the libraries below.
        value.set_sensitive(true);
        map.append(name, value);
    }
    Ok(map)
}

fn invalid(error: impl std::fmt::Display) -> HttpError {
    HttpError::Invalid(error.to_string())
}

fn to_error(error: reqwest::Error) -> HttpError {
    if error.is_timeout() {
        return HttpError::Timeout;
    }
    // The address may carry what its owner wants to keep; the guest knows it anyway.
    let error = error.without_url();
    let mut text = error.to_string();
    let mut source = std::error::Error::source(&error);
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    if error.is_builder() || error.is_request() && error.is_body() {
        invalid(text)
    } else {
        HttpError::Unreachable(text)
    }
}

#[cfg(test)]
mod tests;
