//! Pulls and pushes components.

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

/// The deadline of a whole pull or push.
pub const DEADLINE: Duration = Duration::from_secs(120);
/// The content type of a pushed blob.
const BLOB: &str = "application/octet-stream";
/// The header with the digest of a manifest.
const CONTENT_DIGEST: &str = "docker-content-digest";

/// The options of a registry client.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Credentials files of Docker and Podman; the first that has a credential for the registry is used.
    /// Missing files are skipped.
    pub credentials: Vec<PathBuf>,
    /// The folder of the cache, which grows to at most [`CACHE_BYTES_MAX`](crate::CACHE_BYTES_MAX). `None`
    /// disables the cache.
    pub cache: Option<PathBuf>,
}

/// A pulled component.
#[derive(Clone, Debug)]
pub struct FetchedComponent {
    /// The digest of the manifest that the tag resolved to. With it, [`Reference::at`] names the same bytes
    /// for ever.
    pub manifest: Digest,
    /// The digest of the component, by which hosts identify code.
    pub component: Digest,
    /// The component. Its digest was verified.
    pub bytes: Vec<u8>,
}

/// A client for all registries. Cheap to clone.
///
/// It never retries: the caller knows when that makes sense.
#[derive(Clone, Debug)]
pub struct Registry {
    clients: Clients,
    options: Options,
    cache: Option<Cache>,
}

impl Registry {
    /// Makes a client, without any request.
    ///
    /// # Errors
    /// [`Error::Client`].
    pub fn new(options: Options) -> Result<Self, Error> {
        let cache = options.cache.clone().map(Cache::new);
        Ok(Self { clients: Clients::new()?, options, cache })
    }

    /// Pulls a component.
    ///
    /// A reference with a digest is served from the cache if possible, without a request. A tag is resolved
    /// by each call, and the result is [`FetchedComponent::manifest`]. Sizes are checked before bytes are
    /// read, and only bytes with the right digest are returned.
    ///
    /// *Cancel safety*: complete blobs stay cached, and nothing else is kept.
    ///
    /// # Errors
    /// All except those of keys, policies and signatures. [`Error::Deadline`] after [`DEADLINE`].
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
        // The manifest last: if it is cached, so are its blobs.
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
        // A manifest with a wrong size is refused, also if the blob is cached.
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

    /// Caches a blob. A cache that cannot be written only costs time.
    async fn keep(&self, digest: &Digest, bytes: Vec<u8>) {
        if let Some(cache) = &self.cache
            && let Err(error) = cache.put(digest, bytes).await
        {
            let error: &dyn std::error::Error = &error;
            tracing::warn!(error, "a pulled blob could not be cached");
        }
    }

    /// Pushes a component under a tag. Returns the reference with the digest of its manifest.
    ///
    /// The manifest depends only on the component, not on the time or the pusher.
    ///
    /// # Errors
    /// [`Error::Reference`] if it has no tag, or has a digest; otherwise all except those of keys, policies
    /// and signatures.
    pub async fn push(&self, reference: &Reference, component: Vec<u8>) -> Result<Reference, Error> {
        within_deadline(reference, Box::pin(self.put(reference, component))).await
    }

    async fn put(&self, reference: &Reference, component: Vec<u8>) -> Result<Reference, Error> {
        let what = reference.to_string();
        let (Some(tag), None) = (reference.tag(), reference.digest()) else {
            return Err(Error::Reference { text: what, reason: "a push needs a tag and no digest" });
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

/// Uploads a blob to a repository, unless it exists there.
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
