//! The key that signs tokens, in a file.

use std::io::ErrorKind as IoErrorKind;
use std::path::PathBuf;
use std::sync::Arc;

use jsonwebtoken::errors::{Error as TokenError, ErrorKind, Result as TokenResult};
use jsonwebtoken::jwk::{Jwk, PublicKeyUse, ThumbprintHash};
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation, decode, encode};
use parking_lot::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio_rustls::rustls::pki_types::PrivatePkcs8KeyDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;

use crate::Error;
use crate::private_file::{self, BadFile};

/// ECDSA on the curve P-256, which every implementation of tokens has.
const ALGORITHM: Algorithm = Algorithm::ES256;

/// A private key, and its public part.
pub(super) struct SigningKey {
    private: EncodingKey,
    public: DecodingKey,
    published: Jwk,
    header: Header,
}

impl SigningKey {
    /// Parses a key in PEM.
    fn parse(pem: &[u8]) -> Result<Self, BadFile> {
        let content = |what: String| BadFile::Content(what);
        let der = PrivatePkcs8KeyDer::from_pem_slice(pem)
            .map_err(|_| content("it has no `PRIVATE KEY` in PEM (PKCS #8)".to_owned()))?;
        Self::new(der.secret_pkcs8_der()).map_err(|_| content("it is not an ECDSA key on the curve P-256".to_owned()))
    }

    fn new(der: &[u8]) -> TokenResult<Self> {
        let private = EncodingKey::from_ec_der(der);
        let mut published = Jwk::from_encoding_key(&private, ALGORITHM)?;
        let id = published.thumbprint(ThumbprintHash::SHA256)?;
        published.common.key_id = Some(id.clone());
        published.common.public_key_use = Some(PublicKeyUse::Signature);
        let header = Header { kid: Some(id), typ: None, ..Header::new(ALGORITHM) };
        Ok(Self { public: DecodingKey::from_jwk(&published)?, private, published, header })
    }

    /// Returns the public part.
    pub(super) fn public(&self) -> &Jwk {
        &self.published
    }

    fn sign(&self, claims: &impl Serialize) -> TokenResult<String> {
        encode(&self.header, claims, &self.private)
    }

    /// Verifies a token with an end, from an issuer and for one of some audiences.
    pub(super) fn verify<C: DeserializeOwned>(
        &self,
        token: &str,
        issuer: &str,
        audiences: &[String],
    ) -> TokenResult<C> {
        let mut validation = Validation::new(ALGORITHM);
        validation.set_issuer(&[issuer]);
        validation.set_audience(audiences);
        validation.set_required_spec_claims(&["exp", "iss", "aud"]);
        validation.validate_nbf = true;
        Ok(decode(token, &self.public, &validation)?.claims)
    }

    /// Verifies a token without an end.
    pub(super) fn verify_endless<C: DeserializeOwned>(&self, token: &str, issuer: &str) -> TokenResult<C> {
        let mut validation = Validation::new(ALGORITHM);
        validation.set_issuer(&[issuer]);
        validation.set_required_spec_claims(&["iss"]);
        validation.validate_exp = false;
        Ok(decode(token, &self.public, &validation)?.claims)
    }
}

/// Returns why a token is not valid, in the words of Kubernetes.
pub(super) fn reason(error: &TokenError) -> String {
    let words = match error.kind() {
        ErrorKind::ExpiredSignature => "service account token has expired",
        ErrorKind::ImmatureSignature => "service account token is not valid yet",
        ErrorKind::InvalidAudience => "token audiences do not match",
        ErrorKind::InvalidSignature => "the signature is not that of this host",
        _ => return format!("service account token claims could not be validated: {error}"),
    };
    words.to_owned()
}

/// The file of the key. It is read once, when the key is first needed.
pub(super) struct KeyFile {
    /// `None` keeps the key in memory.
    path: Option<PathBuf>,
    key: Mutex<Option<Arc<SigningKey>>>,
}

impl KeyFile {
    pub(super) fn new(path: Option<PathBuf>) -> Self {
        Self { path, key: Mutex::default() }
    }

    /// Returns the key; `None` if there is none yet.
    ///
    /// # Errors
    /// [`Error::ServiceAccountKey`] if the file cannot be used.
    pub(super) fn get(&self) -> Result<Option<Arc<SigningKey>>, Error> {
        let mut key = self.key.lock();
        if key.is_none() {
            *key = self.read()?;
        }
        Ok(key.clone())
    }

    /// Returns the key, and generates it if the file does not exist.
    ///
    /// # Errors
    /// As [`KeyFile::get`].
    pub(super) fn get_or_generate(&self) -> Result<Arc<SigningKey>, Error> {
        if let Some(key) = self.get()? {
            return Ok(key);
        }
        let mut key = self.key.lock();
        if let Some(key) = &*key {
            return Ok(Arc::clone(key));
        }
        let made = Arc::new(self.generate()?);
        *key = Some(Arc::clone(&made));
        Ok(made)
    }

    /// Signs a token.
    ///
    /// # Errors
    /// As [`KeyFile::get`].
    pub(super) fn sign(&self, claims: &impl Serialize) -> Result<String, Error> {
        let signed = self.get_or_generate()?.sign(claims);
        signed.map_err(|error| self.failed(BadFile::Content(error.to_string())))
    }

    fn read(&self) -> Result<Option<Arc<SigningKey>>, Error> {
        let Some(path) = &self.path else { return Ok(None) };
        match private_file::read(path) {
            Ok(pem) => Ok(Some(Arc::new(SigningKey::parse(&pem).map_err(|source| self.failed(source))?))),
            Err(BadFile::Io(error)) if error.kind() == IoErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.failed(error)),
        }
    }

    fn generate(&self) -> Result<SigningKey, Error> {
        // The default algorithm of this library is the one of the tokens.
        let pair = rcgen::KeyPair::generate().map_err(|error| self.failed(BadFile::Content(error.to_string())))?;
        let pem = pair.serialize_pem();
        if let Some(path) = &self.path {
            private_file::write(path, &pem).map_err(|source| self.failed(source))?;
        }
        SigningKey::parse(pem.as_bytes()).map_err(|source| self.failed(source))
    }

    fn failed(&self, source: BadFile) -> Error {
        Error::ServiceAccountKey { path: self.path.clone().unwrap_or_default(), source }
    }
}
