//! The requests about one artifact to one registry: authentication, redirects, and bounded responses.

use std::time::Duration;

use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue, LOCATION, WWW_AUTHENTICATE};
use reqwest::redirect::Policy;
use reqwest::{Body, Client, Method, Response, StatusCode, Url};
use serde::Deserialize;

use crate::challenge::Challenge;
use crate::credentials::{self, Credential};
use crate::error::Error;
use crate::reference::{Reference, is_loopback};
use crate::registry::Options;

/// The timeout of connecting.
const CONNECT_MAX: Duration = Duration::from_secs(10);
/// How long a registry may pause within a response.
const SILENCE_MAX: Duration = Duration::from_secs(30);
/// Maximum redirects of one request.
const REDIRECTS_MAX: usize = 5;
/// Maximum length of a token response, in bytes.
const TOKEN_BYTES_MAX: u64 = 256 << 10;
/// The `User-Agent` of requests.
const AGENT: &str = concat!("homeostat/", env!("CARGO_PKG_VERSION"));

/// The HTTP clients of all sessions.
#[derive(Clone, Debug)]
pub(crate) struct Clients {
    /// Uses the system's proxy, and only TLS.
    remote: Client,
    /// For this machine, without a proxy.
    loopback: Client,
}

impl Clients {
    /// Makes the clients.
    ///
    /// # Errors
    /// [`Error::Client`].
    pub(crate) fn new() -> Result<Self, Error> {
        let builder = || {
            let builder = Client::builder().user_agent(AGENT).redirect(Policy::none());
            builder.connect_timeout(CONNECT_MAX).read_timeout(SILENCE_MAX)
        };
        Ok(Self {
            remote: builder().https_only(true).build().map_err(Error::Client)?,
            loopback: builder().no_proxy().build().map_err(Error::Client)?,
        })
    }
}

/// One request.
#[derive(Clone)]
pub(crate) struct RegistryRequest {
    pub(crate) method: Method,
    pub(crate) url: Url,
    /// The accepted content type.
    pub(crate) accept: Option<&'static str>,
    /// The body and its content type.
    pub(crate) body: Option<(&'static str, bytes::Bytes)>,
}

impl RegistryRequest {
    pub(crate) fn new(method: Method, url: Url) -> Self {
        Self { method, url, accept: None, body: None }
    }
}

/// A session with a registry.
pub(crate) struct Session<'a> {
    clients: &'a Clients,
    options: &'a Options,
    reference: &'a Reference,
    base: Url,
    authorization: Option<HeaderValue>,
}

#[derive(Deserialize)]
struct TokenResponse {
    token: Option<String>,
    access_token: Option<String>,
}

impl<'a> Session<'a> {
    /// Starts without credentials, which are only sent after a challenge.
    ///
    /// # Errors
    /// [`Error::Reference`] if the registry does not form a URL.
    pub(crate) fn new(clients: &'a Clients, options: &'a Options, reference: &'a Reference) -> Result<Self, Error> {
        let wrong = |_| Error::Reference { text: reference.to_string(), reason: "its registry is not a valid host" };
        let base = Url::parse(&reference.base()).map_err(wrong)?;
        Ok(Self { clients, options, reference, base, authorization: None })
    }

    /// Returns the URL of a path in this repository, such as `manifests/1.2`.
    pub(crate) fn url(&self, path: &str) -> Url {
        let mut url = self.base.clone();
        url.set_path(&format!("/v2/{}/{path}", self.reference.repository()));
        url
    }

    /// Sends a request, authenticates after a challenge, and follows the redirects of a GET. `what` names the
    /// target in errors.
    ///
    /// # Errors
    /// [`Error::Transport`], [`Error::Denied`], [`Error::Protocol`], [`Error::Insecure`],
    /// [`Error::Credentials`].
    pub(crate) async fn send(&mut self, what: &str, ask: RegistryRequest) -> Result<Response, Error> {
        let mut ask = ask;
        for _ in 0..=REDIRECTS_MAX {
            let mut response = self.send_once(what, &ask).await?;
            if response.status() == StatusCode::UNAUTHORIZED && self.is_registry_origin(&ask.url) {
                self.authorize(what, &response).await?;
                response = self.send_once(what, &ask).await?;
            }
            let leads_on = response.status().is_redirection() && ask.method == Method::GET;
            if !leads_on {
                return Ok(response);
            }
            ask.url = self.location(what, &ask.url, &response)?;
        }
        Err(Error::Protocol { what: what.to_owned(), reason: format!("more than {REDIRECTS_MAX} redirects") })
    }

    /// Returns the target of a response's `Location`.
    ///
    /// # Errors
    /// [`Error::Protocol`], [`Error::Insecure`].
    pub(crate) fn location(&self, what: &str, from: &Url, response: &Response) -> Result<Url, Error> {
        let location = response.headers().get(LOCATION).and_then(|location| location.to_str().ok());
        let to = location.and_then(|location| from.join(location).ok());
        let to = to.ok_or_else(|| Error::Protocol {
            what: what.to_owned(),
            reason: "it has no valid Location header".to_owned(),
        })?;
        self.check_transport(what, &to)?;
        Ok(to)
    }

    /// Refuses a URL whose response could be read or changed on the way.
    fn check_transport(&self, what: &str, url: &Url) -> Result<(), Error> {
        let host = url.host_str().unwrap_or_default();
        let is_safe = match url.scheme() {
            "https" => true,
            // A remote registry cannot redirect to services on this machine.
            "http" => is_loopback(host) && self.base.scheme() == "http",
            _ => false,
        };
        let insecure = || Error::Insecure { what: what.to_owned(), host: host.to_owned() };
        if is_safe { Ok(()) } else { Err(insecure()) }
    }

    /// Returns whether a URL belongs to the registry itself, which alone receives credentials.
    fn is_registry_origin(&self, url: &Url) -> bool {
        url.origin() == self.base.origin()
    }

    async fn send_once(&self, what: &str, ask: &RegistryRequest) -> Result<Response, Error> {
        let mut request = self.client(&ask.url).request(ask.method.clone(), ask.url.clone());
        if let Some(accept) = ask.accept {
            request = request.header(ACCEPT, accept);
        }
        if let Some((kind, body)) = &ask.body {
            request = request.header(CONTENT_TYPE, *kind).body(Body::from(body.clone()));
        }
        if let Some(authorization) = self.authorization.as_ref().filter(|_| self.is_registry_origin(&ask.url)) {
            request = request.header(AUTHORIZATION, authorization.clone());
        }
        request.send().await.map_err(|error| transport(what, error))
    }

    fn client(&self, url: &Url) -> &Client {
        if url.scheme() == "http" { &self.clients.loopback } else { &self.clients.remote }
    }

    /// Answers the challenge of a response, and keeps the authorisation for later requests.
    async fn authorize(&mut self, what: &str, response: &Response) -> Result<(), Error> {
        let headers = response.headers().get_all(WWW_AUTHENTICATE).iter();
        let challenge = headers.filter_map(|header| header.to_str().ok()).find_map(Challenge::read);
        let denied = |hint| Error::Denied { what: what.to_owned(), status: 401, hint };
        let challenge = challenge.ok_or_else(|| denied("it sent no challenge that is supported"))?;
        let credential = credentials::find(&self.options.credentials, self.reference).await?;
        let value = match (challenge, credential) {
            (Challenge::Basic, Some(Credential::Basic { username, password })) => basic(&username, &password),
            (Challenge::Basic, _) => {
                return Err(denied("no name and password is configured for it: log in with `docker login`"));
            }
            (Challenge::Bearer { realm, service, scope }, credential) => {
                format!("Bearer {}", self.token(what, &realm, service, scope, credential).await?)
            }
        };
        let unusable =
            Error::Protocol { what: what.to_owned(), reason: "its token is not allowed in a header".to_owned() };
        let mut value = HeaderValue::from_str(&value).map_err(|_| unusable)?;
        // Keeps the value out of the logs of the HTTP libraries.
        value.set_sensitive(true);
        self.authorization = Some(value);
        Ok(())
    }

    /// Requests a token from the token server.
    async fn token(
        &self,
        what: &str,
        realm: &str,
        service: Option<String>,
        scope: Option<String>,
        credential: Option<Credential>,
    ) -> Result<String, Error> {
        let wrong = |reason: &str| Error::Protocol { what: what.to_owned(), reason: reason.to_owned() };
        let mut url = Url::parse(realm).map_err(|_| wrong("it names no valid URL for tokens"))?;
        self.check_transport(what, &url)?;
        let mut parameters = vec![("scope", scope.unwrap_or_else(|| self.scope()))];
        parameters.extend(service.map(|service| ("service", service)));
        let request = match credential {
            Some(Credential::Identity { token }) => {
                let own = [("grant_type", "refresh_token"), ("client_id", "homeostat"), ("refresh_token", &token)];
                parameters.extend(own.map(|(name, value)| (name, value.to_owned())));
                let mut form = url.clone();
                form.query_pairs_mut().clear().extend_pairs(&parameters);
                let form = form.query().unwrap_or_default().to_owned();
                self.client(&url).post(url.clone()).header(CONTENT_TYPE, "application/x-www-form-urlencoded").body(form)
            }
            known => {
                url.query_pairs_mut().extend_pairs(&parameters);
                let request = self.client(&url).get(url.clone());
                match known {
                    Some(Credential::Basic { username, password }) => request.basic_auth(username, Some(password)),
                    _ => request,
                }
            }
        };
        let response = request.send().await.map_err(|error| transport(what, error))?;
        if !response.status().is_success() {
            return Err(status_error(what, response.status()));
        }
        let bytes = read(what, response, TOKEN_BYTES_MAX).await?;
        let answer: TokenResponse =
            serde_json::from_slice(&bytes).map_err(|_| wrong("its token response cannot be parsed"))?;
        answer.token.or(answer.access_token).ok_or_else(|| wrong("its token response has no token"))
    }

    /// Returns the scope of a token if the challenge has none.
    fn scope(&self) -> String {
        format!("repository:{}:pull", self.reference.repository())
    }
}

fn basic(username: &str, password: &str) -> String {
    use base64::Engine;
    let pair = base64::engine::general_purpose::STANDARD.encode(format!("{username}:{password}"));
    format!("Basic {pair}")
}

/// Returns the error of an unexpected status.
pub(crate) fn status_error(what: &str, status: StatusCode) -> Error {
    let (what, code) = (what.to_owned(), status.as_u16());
    match status {
        StatusCode::NOT_FOUND => Error::NotFound { what },
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
            Error::Denied { what, status: code, hint: "check the credentials, for example with `docker login`" }
        }
        _ => Error::Status { what, status: code },
    }
}

/// Reads the body of a response, at most `bytes_max`.
///
/// # Errors
/// [`Error::TooLarge`], [`Error::Transport`].
pub(crate) async fn read(what: &str, mut response: Response, bytes_max: u64) -> Result<Vec<u8>, Error> {
    let too_large = || Error::TooLarge { what: what.to_owned(), bytes_max };
    if response.content_length().is_some_and(|bytes| bytes > bytes_max) {
        return Err(too_large());
    }
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| transport(what, error))? {
        if (body.len() + chunk.len()) as u64 > bytes_max {
            return Err(too_large());
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

fn transport(what: &str, error: reqwest::Error) -> Error {
    Error::Transport { what: what.to_owned(), source: error.without_url() }
}
