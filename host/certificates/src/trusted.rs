//! The certificates that a client is told to trust.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{VerifierBuilderError, WebPkiServerVerifier, verify_server_name};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

use crate::validity;

/// Trusts some certificates: the certificates themselves, and those that they have signed.
///
/// `openssl req -x509` creates a CA certificate, and people serve it directly. Others name a server's own certificate
/// where an authority is expected, as envtest does. Chain verifiers reject both. A person who names the very certificate of
/// a server trusts it, as Go does.
#[derive(Debug)]
pub struct TrustedCertificates {
    certificates: Vec<CertificateDer<'static>>,
    chains: Arc<WebPkiServerVerifier>,
}

impl TrustedCertificates {
    /// Trusts these certificates.
    ///
    /// # Errors
    /// For a certificate that does not parse, and for none.
    pub fn new(certificates: Vec<CertificateDer<'static>>) -> Result<Self, rustls::Error> {
        let mut roots = RootCertStore::empty();
        for certificate in &certificates {
            roots.add(certificate.clone())?;
        }
        let provider = Arc::new(aws_lc_rs::default_provider());
        let chains = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build();
        let chains = chains.map_err(|error: VerifierBuilderError| rustls::Error::General(error.to_string()))?;
        Ok(Self { certificates, chains })
    }

    /// Returns the TLS configuration of a client of HTTP/1.1 that trusts them, and shows no certificate itself.
    ///
    /// # Errors
    /// When the cryptography has no version of TLS.
    pub fn into_client_config(self) -> Result<ClientConfig, rustls::Error> {
        let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()));
        let builder = builder.with_safe_default_protocol_versions()?.dangerous();
        let mut config = builder.with_custom_certificate_verifier(Arc::new(self)).with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(config)
    }
}

impl ServerCertVerifier for TrustedCertificates {
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

#[cfg(test)]
mod tests;
