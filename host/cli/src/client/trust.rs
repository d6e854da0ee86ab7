//! What a command shows to a host, and which hosts it believes: tokens and certificates.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use homeostat_api::{Address, validity};
use hyper::header::HeaderValue;
use rustls_platform_verifier::BuilderVerifierExt;
use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::client::{WebPkiServerVerifier, verify_server_name};
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::server::ParsedCertificate;
use tokio_rustls::rustls::{
    self, CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
};

use crate::exit;
use crate::global::Global;

/// Bytes of a file of certificates, or of one with a token.
pub(crate) const FILE_BYTES_MAX: u64 = 1 << 20;

/// Returns the token that the command line or the environment gives; the file comes first.
///
/// # Errors
/// When the file cannot be read or has no token in it, and when there is a token for a host that is asked in plain text.
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

/// Returns the header that shows a token. It is not printed with whatever holds it.
///
/// # Errors
/// A usage error when no header can have it.
pub(super) fn authorization(token: &str) -> anyhow::Result<HeaderValue> {
    let header = HeaderValue::from_str(&format!("Bearer {token}"));
    let mut header =
        header.map_err(|_| exit::usage("the token has a character that is not allowed in an HTTP header"))?;
    header.set_sensitive(true);
    Ok(header)
}

/// Returns how to speak TLS: with whom the file vouches for, or else with whom this machine trusts.
///
/// # Errors
/// When the file cannot be read or has no certificate in it.
pub(super) fn tls(authority: Option<&Path>) -> anyhow::Result<Arc<ClientConfig>> {
    let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().context("TLS is not available")?;
    let builder = match authority {
        Some(path) => builder.dangerous().with_custom_certificate_verifier(PinnedCertificates::verifier(path)?),
        None => builder.with_platform_verifier().context("this machine's certificates cannot be read")?,
    };
    let mut config = builder.with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// Believes the certificates of a file: those that they have signed, and they themselves.
///
/// `openssl req -x509` makes a certificate that may sign others, and people serve it as it is. Verifiers of chains refuse that; but who names
/// the very certificate that a host shows vouches for it, whatever else it may do.
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

/// Says why TLS could not be agreed on, and what to do.
pub(super) fn explain(address: &Address, error: &std::io::Error) -> Option<anyhow::Error> {
    let cause = error.get_ref()?.downcast_ref::<rustls::Error>()?;
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
