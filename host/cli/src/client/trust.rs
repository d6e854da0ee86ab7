//! Authentication of both sides: the token that is sent to a host, and the certificates that the client
//! trusts.

use std::error::Error;
use std::path::Path;

use anyhow::Context as _;
use homeostat_api::Address;
use homeostat_certificates::TrustedCertificates;
use reqwest::header::{HOST, HeaderMap, HeaderValue};
use reqwest::redirect::Policy;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{CertificateError, ClientConfig};

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
    let failed = || format!("the certificates in {} cannot be read", authority.display());
    let pem = homeostat_files::read_text(authority, FILE_BYTES_MAX).with_context(failed)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
    let certificates = found.with_context(failed)?;
    if certificates.is_empty() {
        return Err(exit::usage(format!("there is no certificate in {}", authority.display())));
    }
    let trusted = TrustedCertificates::new(certificates).with_context(failed)?;
    trusted.into_client_config().context("TLS is not available")
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
