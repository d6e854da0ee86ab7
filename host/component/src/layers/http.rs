//! Sends HTTP requests for guests: no redirects, no cookies, no proxy from the environment, and bounds on
//! time and size.
//!
//! The addresses of a name are checked during resolution, and the connection goes only to addresses that
//! passed. So a DNS answer that changes after the check has no effect.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::redirect::Policy;

use crate::effect::{Blob, HttpError, HttpRequest, HttpResponse};
use crate::error::Error;
use crate::grants::{AddressRange, Grants, missing_address};

mod resolver;

use resolver::{FilteringResolver, ForbiddenAddress, Resolver, System};

/// The maximum time to connect.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The maximum time for a whole response, for any timeout of the guest. The deadline of the call is usually
/// shorter.
const TIMEOUT: Duration = Duration::from_secs(120);

/// An HTTP client of one controller. Cheap to clone; clones share their connections.
#[derive(Clone, Debug)]
pub struct HttpClient {
    shared: Arc<ClientPool>,
    grants: Arc<Grants>,
}

/// The connections shared by the clients of all controllers.
struct ClientPool {
    body_bytes_max: u64,
    resolver: Arc<dyn Resolver>,
    /// One for each set of ranges, at most sixteen: a controller without access to an address must not reuse
    /// a connection to it either.
    clients: Mutex<BTreeMap<Ranges, reqwest::Client>>,
}

/// Non-public address ranges that requests may connect to.
type Ranges = BTreeSet<AddressRange>;

impl fmt::Debug for ClientPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("body_bytes_max", &self.body_bytes_max).finish_non_exhaustive()
    }
}

impl HttpClient {
    /// Builds a client that reads bodies of at most `body_bytes_max` bytes. It connects only to public
    /// addresses.
    ///
    /// # Errors
    /// `Http` when the certificates of the system cannot be read.
    pub fn new(body_bytes_max: u64) -> Result<Self, Error> {
        Self::with_resolver(body_bytes_max, Arc::new(System))
    }

    fn with_resolver(body_bytes_max: u64, resolver: Arc<dyn Resolver>) -> Result<Self, Error> {
        let shared = ClientPool { body_bytes_max, resolver, clients: Mutex::default() };
        shared.client(&Ranges::new()).map_err(|error| Error::Http(error.into()))?;
        Ok(Self { shared: Arc::new(shared), grants: Arc::default() })
    }

    /// Returns a client that also connects to the address ranges of the `grants` that cover a request. It
    /// does not check whether the request itself is granted.
    #[must_use]
    pub fn within(&self, grants: Arc<Grants>) -> Self {
        Self { shared: Arc::clone(&self.shared), grants }
    }

    /// Sends one request and reads the whole response.
    pub(super) async fn send(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let HttpRequest { method, url, headers, body, timeout_ms } = request;
        let allowed = self.grants.http_addresses(&method, &url);
        let parsed = reqwest::Url::parse(&url).map_err(invalid)?;
        let refused =
            |refusal: &ForbiddenAddress| HttpError::Forbidden(missing_address(&method, &url, refusal.address));
        // An address literal never reaches the resolver.
        resolver::check_literal(parsed.host_str(), &allowed).map_err(|refusal| refused(&refusal))?;
        let failed = |error: reqwest::Error| match ForbiddenAddress::behind(&error) {
            Some(refusal) => refused(refusal),
            None => to_error(error),
        };
        let verb = reqwest::Method::from_bytes(method.as_bytes()).map_err(invalid)?;
        let client = self.shared.client(&allowed).map_err(to_error)?;
        let mut builder = client.request(verb, parsed).headers(to_headers(headers)?).body(body.into_bytes());
        if let Some(timeout_ms) = timeout_ms {
            builder = builder.timeout(Duration::from_millis(timeout_ms).min(TIMEOUT));
        }
        let response = builder.send().await.map_err(failed)?;
        self.read(response).await
    }

    async fn read(&self, mut response: reqwest::Response) -> Result<HttpResponse, HttpError> {
        let body_bytes_max = self.shared.body_bytes_max;
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(to_error)? {
            if (body.len() + chunk.len()) as u64 > body_bytes_max {
                return Err(HttpError::TooLarge(body_bytes_max));
            }
            body.extend_from_slice(&chunk);
        }
        let headers = response.headers().iter();
        let headers = headers.map(|(name, value)| (name.as_str().to_owned(), Blob::from(value.as_bytes().to_vec())));
        Ok(HttpResponse { status: response.status().as_u16(), headers: headers.collect(), body: body.into() })
    }
}

impl ClientPool {
    /// Returns the client that connects to these ranges and to public addresses.
    fn client(&self, allowed: &Ranges) -> Result<reqwest::Client, reqwest::Error> {
        let mut clients = self.clients.lock();
        if let Some(client) = clients.get(allowed) {
            return Ok(client.clone());
        }
        let client = reqwest::Client::builder()
            .redirect(Policy::none())
            .no_proxy()
            .dns_resolver(Arc::new(FilteringResolver::new(&self.resolver, allowed)))
            .connect_timeout(CONNECT_TIMEOUT)
            .timeout(TIMEOUT)
            .build()?;
        clients.insert(allowed.clone(), client.clone());
        Ok(client)
    }
}

fn to_headers(headers: Vec<(String, Blob)>) -> Result<HeaderMap, HttpError> {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(invalid)?;
        let mut value = HeaderValue::from_maybe_shared(value.into_bytes()).map_err(invalid)?;
        // Keeps the values out of the logs of libraries.
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
    // The URL may contain secrets; the guest knows it anyway.
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
