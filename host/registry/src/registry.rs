//! Pulling and pushing components.

use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use homeostat_digest::Digest;
use reqwest::header::CONTENT_TYPE;
use reqwest::{Method, StatusCode};

use crate::artifact::{self, ArtifactParts, Blob, COMPONENT_BYTES_MAX, MANIFEST, MANIFEST_BYTES_MAX, Manifest};
use crate::cache::Cache;
use crate::error::Error;
use crate::reference::Reference;
use crate::session::{Clients, RegistryRequest, Session, read, status_error};

/// How long a pull or a push may take, all together.
pub const DEADLINE: Duration = Duration::from_secs(120);
/// The type of a blob that is pushed.
const BLOB: &str = "application/octet-stream";
/// Where a registry says what it has put a manifest under.
const CONTENT_DIGEST: &str = "docker-content-digest";

/// What pulling and pushing needs to know of this machine.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Files of credentials, in the forms of Docker and Podman; the first that knows a registry counts. One that is not there is passed over.
    pub credentials: Vec<PathBuf>,
    /// The folder of what was pulled, of [`CACHE_BYTES_MAX`](crate::CACHE_BYTES_MAX) at most. `None`: nothing is kept.
    pub cache: Option<PathBuf>,
}

/// A component that was pulled.
#[derive(Clone, Debug)]
pub struct FetchedComponent {
    /// The digest of the manifest: what a tag was resolved to. With it, [`Reference::at`] names the same bytes for ever.
    pub manifest: Digest,
    /// The digest of the component, by which hosts know code.
    pub component: Digest,
    /// The component. Its digest was checked.
    pub bytes: Vec<u8>,
}

/// The registries that references name. Cheap to clone.
///
/// Nothing is tried twice: whoever asks knows when that makes sense.
#[derive(Clone, Debug)]
pub struct Registry {
    clients: Clients,
    options: Options,
    cache: Option<Cache>,
}

impl Registry {
    /// Makes what talks to registries. Nothing is asked yet.
    ///
    /// # Errors
    /// [`Error::Client`].
    pub fn new(options: Options) -> Result<Self, Error> {
        let cache = options.cache.clone().map(Cache::new);
        Ok(Self { clients: Clients::new()?, options, cache })
    }

    /// Pulls a component.
    ///
    /// A reference with a digest is taken from the cache when it is there, and no registry is asked. A tag is resolved now, and only now: what it
    /// was resolved to is [`FetchedComponent::manifest`]. Sizes are known before anything is read, and no byte that does not belong to its digest is returned.
    ///
    /// *Cancel safety*: what was pulled whole is kept, and nothing else is.
    ///
    /// # Errors
    /// Any but those of keys, policies and signatures. [`Error::Deadline`] after [`DEADLINE`].
    pub async fn fetch(&self, reference: &Reference) -> Result<FetchedComponent, Error> {
        within_deadline(reference, Box::pin(self.pull(reference))).await
    }

    async fn pull(&self, reference: &Reference) -> Result<FetchedComponent, Error> {
        let what = reference.to_string();
        let mut session = Session::new(&self.clients, &self.options, reference)?;
        let (manifest_digest, bytes) = self.manifest(&mut session, reference, &what).await?;
        let manifest = Manifest::read(&what, &bytes)?;
        let config = self.blob(&mut session, &manifest.config, &format!("the configuration of {what}")).await?;
        artifact::check_config(&what, &config)?;
        let component = self.blob(&mut session, &manifest.layer, &format!("the component of {what}")).await?;
        // The last one: where it is kept, the others are.
        self.keep(&manifest_digest, bytes).await;
        Ok(FetchedComponent { manifest: manifest_digest, component: manifest.layer.digest, bytes: component })
    }

    /// Returns a manifest and its digest.
    async fn manifest(
        &self,
        session: &mut Session<'_>,
        reference: &Reference,
        what: &str,
    ) -> Result<(Digest, Vec<u8>), Error> {
        if let Some(digest) = reference.digest()
            && let Some(bytes) = self.kept(digest, MANIFEST_BYTES_MAX).await
        {
            return Ok((digest.clone(), bytes));
        }
        let name = reference.digest().map(Digest::as_str).or(reference.tag()).expect("a reference has one of them");
        let url = session.url(&format!("manifests/{name}"));
        let response = session
            .send(what, RegistryRequest { accept: Some(MANIFEST), ..RegistryRequest::new(Method::GET, url) })
            .await?;
        if response.status() != StatusCode::OK {
            return Err(status_error(what, response.status()));
        }
        let header = |name| response.headers().get(name).and_then(|value| value.to_str().ok());
        artifact::check_manifest_type(what, header(CONTENT_TYPE.as_str()))?;
        let named = header(CONTENT_DIGEST).and_then(Digest::parse);
        let bytes = read(&format!("the manifest of {what}"), response, MANIFEST_BYTES_MAX).await?;
        let found = Digest::of(&bytes);
        match reference.digest().cloned().or(named).filter(|wanted| *wanted != found) {
            None => Ok((found, bytes)),
            Some(wanted) => Err(Error::Digest { what: format!("the manifest of {what}"), wanted, found }),
        }
    }

    /// Returns a blob that a manifest names.
    async fn blob(&self, session: &mut Session<'_>, blob: &Blob, what: &str) -> Result<Vec<u8>, Error> {
        let Blob { digest, bytes: size } = blob;
        // A manifest that is wrong about a size is refused, whatever is kept.
        let sized = |bytes: Vec<u8>| match bytes.len() as u64 {
            found if found == *size => Ok(bytes),
            found => Err(Error::Size { what: what.to_owned(), wanted: *size, found }),
        };
        if let Some(bytes) = self.kept(digest, COMPONENT_BYTES_MAX).await {
            return sized(bytes);
        }
        let url = session.url(&format!("blobs/{digest}"));
        let response = session.send(what, RegistryRequest::new(Method::GET, url)).await?;
        if response.status() != StatusCode::OK {
            return Err(status_error(what, response.status()));
        }
        let bytes = read(what, response, *size).await?;
        let found = Digest::of(&bytes);
        if found != *digest {
            return Err(Error::Digest { what: what.to_owned(), wanted: digest.clone(), found });
        }
        let bytes = sized(bytes)?;
        self.keep(digest, bytes.clone()).await;
        Ok(bytes)
    }

    async fn kept(&self, digest: &Digest, bytes_max: u64) -> Option<Vec<u8>> {
        self.cache.as_ref()?.get(digest, bytes_max).await
    }

    /// Keeps what was pulled. A cache that cannot be written costs time, and nothing else.
    async fn keep(&self, digest: &Digest, bytes: Vec<u8>) {
        if let Some(cache) = &self.cache
            && let Err(error) = cache.put(digest, bytes).await
        {
            let error: &dyn std::error::Error = &error;
            tracing::warn!(error, "what was pulled is not kept");
        }
    }

    /// Pushes a component under a tag. Returns the same reference with the digest of its manifest.
    ///
    /// The same component has the same manifest, whoever pushes it and whenever.
    ///
    /// # Errors
    /// [`Error::Reference`] when it has no tag, or has a digest; any but those of keys, policies and signatures.
    pub async fn push(&self, reference: &Reference, component: Vec<u8>) -> Result<Reference, Error> {
        within_deadline(reference, Box::pin(self.put(reference, component))).await
    }

    async fn put(&self, reference: &Reference, component: Vec<u8>) -> Result<Reference, Error> {
        let what = reference.to_string();
        let (Some(tag), None) = (reference.tag(), reference.digest()) else {
            return Err(Error::Reference {
                text: what,
                reason: "what is pushed needs a tag, and gets its digest then",
            });
        };
        let ArtifactParts { manifest, config } = artifact::pack(&component)?;
        let mut session = Session::new(&self.clients, &self.options, reference)?;
        for blob in [component, config] {
            upload(&mut session, Bytes::from(blob), &what).await?;
        }
        let digest = Digest::of(&manifest);
        let url = session.url(&format!("manifests/{tag}"));
        let body = Some((MANIFEST, Bytes::from(manifest)));
        let response = session.send(&what, RegistryRequest { body, ..RegistryRequest::new(Method::PUT, url) }).await?;
        if !response.status().is_success() {
            return Err(status_error(&what, response.status()));
        }
        let found = response.headers().get(CONTENT_DIGEST).and_then(|value| Digest::parse(value.to_str().ok()?));
        match found.filter(|found| *found != digest) {
            None => Ok(reference.at(digest)),
            Some(found) => Err(Error::Digest { what: format!("the manifest of {what}"), wanted: digest, found }),
        }
    }
}

/// Brings a blob into a repository, unless it is there.
async fn upload(session: &mut Session<'_>, blob: Bytes, what: &str) -> Result<(), Error> {
    let digest = Digest::of(&blob);
    let there = RegistryRequest::new(Method::HEAD, session.url(&format!("blobs/{digest}")));
    if session.send(what, there).await?.status() == StatusCode::OK {
        return Ok(());
    }
    let begin = RegistryRequest::new(Method::POST, session.url("blobs/uploads/"));
    let from = begin.url.clone();
    let begun = session.send(what, begin).await?;
    if begun.status() != StatusCode::ACCEPTED {
        return Err(status_error(what, begun.status()));
    }
    let mut url = session.location(what, &from, &begun)?;
    url.query_pairs_mut().append_pair("digest", digest.as_str());
    let put = session
        .send(what, RegistryRequest { body: Some((BLOB, blob)), ..RegistryRequest::new(Method::PUT, url) })
        .await?;
    if put.status() == StatusCode::CREATED { Ok(()) } else { Err(status_error(what, put.status())) }
}

async fn within_deadline<T>(reference: &Reference, work: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    let over = |_| Error::Deadline { what: reference.to_string(), seconds: DEADLINE.as_secs() };
    tokio::time::timeout(DEADLINE, work).await.map_err(over)?
}
