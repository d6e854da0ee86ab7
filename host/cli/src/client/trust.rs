//! Authentication of both sides: the token that is sent to a host, and the certificates that the client
//! trusts.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use homeostat_api::{Address, validity};
use reqwest::header::{HOST, HeaderMap, HeaderValue};
use reqwest::redirect::Policy;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

use super::causes;
use crate::exit;
use crate::global::Global;

/// Bytes of a file with certificates or with a token, at most.
pub(crate) const FILE_BYTES_MAX: u64 = 1 << 20;

/// Returns the token of the command line or the environment. The file takes precedence.
///
/// # Errors
/// When the file cannot be read or is empty, and when the token would be sent to another machine unencrypted.
#[expect(clippy::disallowed_methods, reason = "this is the binary: it reads the environment")]
pub(crate) fn token(global: &Global, address: &Address) -> anyhow::Result<Option<String>> {
    let token = match &global.token_file {
        Some(path) => {
            let text = homeostat_files::read_text(path, FILE_BYTES_MAX);
            let text = text.with_context(|| format!("the token in {} cannot be read", path.display()))?;
            let token = text.trim().to_owned();
            if token.is_empty() {
                return Err(exit::usage(format!("there is no token in {}", path.display())));
            }
            Some(token)
        }
        None => std::env::var("HOMEOSTAT_TOKEN").ok().filter(|token| !token.is_empty()),
    };
    match (&token, address) {
        (Some(_), Address::Tcp(number)) if !number.ip().is_loopback() => Err(exit::usage(format!(
            "the token would be sent to {address} unencrypted: use https://{number}, or omit the token"
        ))),
        _ => Ok(token),
    }
}

/// Returns the authorization header of a token. It is marked sensitive, so that debug output hides it.
///
/// # Errors
/// A usage error when the token has characters that are not allowed in a header.
pub(super) fn authorization(token: &str) -> anyhow::Result<HeaderValue> {
    let header = HeaderValue::from_str(&format!("Bearer {token}"));
    let mut header =
        header.map_err(|_| exit::usage("the token has a character that is not allowed in an HTTP header"))?;
    header.set_sensitive(true);
    Ok(header)
}

/// Returns a client that connects to `address` for every request, without a proxy. For an `https` address it
/// trusts the certificates in `authority`, or those that this machine trusts.
///
/// # Errors
/// When the file cannot be read or contains no certificate, or this machine's certificates cannot be read.
pub(super) fn http_client(address: &Address, authority: Option<&Path>) -> anyhow::Result<reqwest::Client> {
    let builder = reqwest::Client::builder().http1_only().pool_max_idle_per_host(0);
    let builder = builder.no_proxy().redirect(Policy::none()).retry(reqwest::retry::never());
    let builder = match (address, authority) {
        // Without TLS, the certificates of this machine are not read. It may have none.
        (Address::Unix(path), _) => builder.tls_certs_only([]).unix_socket(path.as_path()),
        // The host answers requests for this machine alone, also through a forwarded port.
        (Address::Tcp(_), _) => builder
            .tls_certs_only([])
            .default_headers(HeaderMap::from_iter([(HOST, HeaderValue::from_static("localhost"))])),
        (Address::Tls { .. }, Some(path)) => builder.tls_backend_preconfigured(tls(path)?),
        (Address::Tls { .. }, None) => builder,
    };
    builder.build().context("this machine's certificates cannot be read")
}

/// Returns the TLS configuration that trusts the certificates in `authority`.
fn tls(authority: &Path) -> anyhow::Result<ClientConfig> {
    let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().context("TLS is not available")?;
    let verifier = PinnedCertificates::verifier(authority)?;
    let mut config = builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

/// Trusts the certificates in a file: the certificates themselves, and those that they have signed.
///
/// `openssl req -x509` creates a CA certificate, and people serve it directly. Chain verifiers reject a CA
/// certificate as a server's own. A user who passes the exact certificate of the host trusts it, even if it
/// is a CA certificate.
#[derive(Debug)]
struct PinnedCertificates {
    certificates: Vec<CertificateDer<'static>>,
    chains: Arc<WebPkiServerVerifier>,
}

impl PinnedCertificates {
    fn verifier(path: &Path) -> anyhow::Result<Arc<Self>> {
        let failed = || format!("the certificates in {} cannot be read", path.display());
        let pem = homeostat_files::read_text(path, FILE_BYTES_MAX).with_context(failed)?;
        let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
        let (mut roots, certificates) = (RootCertStore::empty(), found.with_context(failed)?);
        if certificates.is_empty() {
            return Err(exit::usage(format!("there is no certificate in {}", path.display())));
        }
        for certificate in &certificates {
            roots.add(certificate.clone()).with_context(failed)?;
        }
        let provider = Arc::new(aws_lc_rs::default_provider());
        let chains = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build();
        Ok(Arc::new(Self { certificates, chains: chains.with_context(failed)? }))
    }
}

impl ServerCertVerifier for PinnedCertificates {
    fn verify_server_cert(
        &self,
        shown: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if !self.certificates.iter().any(|named| named == shown) {
            return self.chains.verify_server_cert(shown, intermediates, name, ocsp, now);
        }
        let seconds = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        let wrong = match validity(shown) {
            None => Some(CertificateError::BadEncoding),
            Some(valid) if seconds < valid.start().as_second() => Some(CertificateError::NotValidYet),
            Some(valid) if seconds > valid.end().as_second() => Some(CertificateError::Expired),
            Some(_) => None,
        };
        if let Some(wrong) = wrong {
            return Err(rustls::Error::InvalidCertificate(wrong));
        }
        verify_server_name(&ParsedCertificate::try_from(shown)?, name)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.chains.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.chains.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.chains.supported_verify_schemes()
    }
}

/// Explains a failed TLS handshake and suggests a fix.
pub(super) fn explain(address: &Address, error: &(dyn Error + 'static)) -> Option<anyhow::Error> {
    let cause = causes(error).find_map(|cause| cause.downcast_ref::<rustls::Error>())?;
    let what = match cause {
        rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer) => {
            "its certificate is not trusted: pass it, or that of its issuer, with --certificate-authority; a host \
             keeps its self-signed certificate as tls.crt beside its store"
                .to_owned()
        }
        rustls::Error::InvalidCertificate(why) => format!("its certificate is invalid: {why}"),
        rustls::Error::InvalidMessage(_) => "the server there does not speak TLS: try http://".to_owned(),
        _ => return None,
    };
    Some(exit::failed(format!("{address} cannot be trusted: {what}")))
}

#[cfg(test)]
mod tests;
