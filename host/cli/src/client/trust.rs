//! What a command shows to a host, and which hosts it believes: tokens and certificates.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use homeostat_api::Address;
use hyper::header::HeaderValue;
use rustls_platform_verifier::BuilderVerifierExt;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::{self, CertificateError, ClientConfig, RootCertStore};

use crate::exit;
use crate::global::Global;

/// Returns the token that the command line or the environment gives; the file comes first.
///
/// # Errors
/// When the file cannot be read or has no token in it, and when there is a token for a host that is asked in plain text.
#[expect(clippy::disallowed_methods, reason = "this is the binary: it reads the environment")]
pub(crate) fn token(global: &Global, address: &Address) -> anyhow::Result<Option<String>> {
    let token = match &global.token_file {
        Some(path) => {
            let text = std::fs::read_to_string(path);
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
            "everybody on the way to {address} could read the token: use https://{number}, or leave the token out"
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
    let mut header = header.map_err(|_| exit::usage("the token has a character that no header can have"))?;
    header.set_sensitive(true);
    Ok(header)
}

/// Returns how to speak TLS: with whom the file vouches for, or else with whom this machine trusts.
///
/// # Errors
/// When the file cannot be read or has no certificate in it.
pub(super) fn tls(authority: Option<&Path>) -> anyhow::Result<Arc<ClientConfig>> {
    let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().context("there is no TLS")?;
    let builder = match authority {
        Some(path) => builder.with_root_certificates(roots(path)?),
        None => builder.with_platform_verifier().context("this machine's certificates cannot be read")?,
    };
    let mut config = builder.with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

fn roots(path: &Path) -> anyhow::Result<RootCertStore> {
    let failed = || format!("the certificates in {} cannot be read", path.display());
    let found: Result<Vec<_>, _> = CertificateDer::pem_file_iter(path).with_context(failed)?.collect();
    let (mut roots, found) = (RootCertStore::empty(), found.with_context(failed)?);
    if found.is_empty() {
        return Err(exit::usage(format!("there is no certificate in {}", path.display())));
    }
    for certificate in found {
        roots.add(certificate).with_context(failed)?;
    }
    Ok(roots)
}

/// Says why TLS could not be agreed on, and what to do.
pub(super) fn explain(address: &Address, error: &std::io::Error) -> Option<anyhow::Error> {
    let cause = error.get_ref()?.downcast_ref::<rustls::Error>()?;
    let what = match cause {
        rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer) => {
            "nobody vouches for its certificate: name the certificate, or that of who signed it, with --certificate-authority; a host that \
             made its own keeps it as tls.crt beside its store"
                .to_owned()
        }
        rustls::Error::InvalidCertificate(why) => format!("its certificate is not good: {why}"),
        rustls::Error::InvalidMessage(_) => "what answers there does not speak TLS: try http://".to_owned(),
        _ => return None,
    };
    Some(exit::failed(format!("{address} cannot be trusted: {what}")))
}

#[cfg(test)]
mod tests;
