//! The certificate of the server, from files, or generated and kept.

use std::fs::{self, DirBuilder};
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use aws_lc_rs::digest::{SHA256, digest};
use homeostat_certificates::validity;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, KeyPair, KeyUsagePurpose};
use serde::Deserialize;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::client::verify_server_name;
use tokio_rustls::rustls::crypto::aws_lc_rs::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::server::ParsedCertificate;
use tokio_rustls::rustls::{self, ServerConfig};

use crate::metrics::FileKind;
use crate::private_file::{self, BadFile};
use crate::reloading_file::ReloadingFile;
use crate::{Address, Error, Metrics};

/// The protocols for ALPN, the preferred one first.
const PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// Maximum length of a certificate file, in bytes.
const CHAIN_BYTES_MAX: u64 = 1 << 20;

/// The lifetime of a generated certificate, in years. Clients that trust it trust no other certificate by it.
const YEARS: i16 = 10;

/// The names in every generated certificate.
const NAMES: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// The file with this machine's host name, on systems that have it.
const MACHINE: &str = "/proc/sys/kernel/hostname";

/// A certificate chain and its key, in files.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Certificate {
    /// The chain in PEM, the server's own certificate first.
    pub chain: PathBuf,
    /// The key in PEM. Refused if other users can read the file.
    pub key: PathBuf,
}

/// A self-signed certificate.
#[derive(Clone, Debug)]
pub struct SelfSignedCertificate {
    /// Its files.
    pub certificate: Certificate,
    /// It was generated just now.
    pub is_new: bool,
}

impl Certificate {
    /// Returns the certificate that a folder keeps as `tls.crt` and `tls.key`, and generates it if both are
    /// missing.
    ///
    /// It is for `localhost`, for this machine's host name, and for the host of `address`. It lasts ten years
    /// and is never replaced, because clients keep a copy.
    ///
    /// # Errors
    /// [`Error::Certificate`] if the files cannot be read or written, or if the kept certificate is for other
    /// hosts.
    pub fn load_or_generate(folder: &Path, address: &Address) -> Result<SelfSignedCertificate, Error> {
        let certificate = Self { chain: folder.join("tls.crt"), key: folder.join("tls.key") };
        let failed = |source: BadFile| Error::Certificate { path: certificate.chain.clone(), source };
        let host = host(address);
        // If only one file is missing, nothing is generated: clients may have the certificate, or another
        // server the key.
        let is_new = is_missing(&certificate.chain) && is_missing(&certificate.key);
        if is_new {
            make(&certificate, folder, host).map_err(failed)?;
        } else if let Some(host) = host {
            check_name(&certificate.chain, host).map_err(failed)?;
        }
        Ok(SelfSignedCertificate { certificate, is_new })
    }
}

fn is_missing(path: &Path) -> bool {
    path.symlink_metadata().is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound)
}

/// The server's TLS configuration, from the current files.
pub(crate) struct TlsIdentity {
    pub(crate) acceptor: TlsAcceptor,
    /// SHA-256 of the server's own certificate, as pairs of hexadecimal digits.
    pub(crate) fingerprint: String,
    /// The validity period of the server's own certificate; `None` if it cannot be read.
    valid: Option<RangeInclusive<Timestamp>>,
    /// An invalid period was logged.
    warned: AtomicBool,
}

impl TlsIdentity {
    /// Reads a certificate and its key, and reloads them when the files change.
    ///
    /// If the two files are replaced one after the other, the mismatch in between is logged, and the previous
    /// pair is served until both match.
    pub(crate) fn open(certificate: Certificate, metrics: Metrics) -> Result<ReloadingFile<Self>, Error> {
        let paths = vec![certificate.chain.clone(), certificate.key.clone()];
        let shown = metrics.clone();
        ReloadingFile::open(FileKind::Certificate, paths, metrics, move || {
            let identity = Self::load(&certificate)?;
            shown.certificate_until(identity.valid.as_ref().map(|valid| *valid.end()));
            Ok(identity)
        })
    }

    fn load(certificate: &Certificate) -> Result<Self, Error> {
        let Certificate { chain, key } = certificate;
        let certificates = read_chain(chain).map_err(|source| Error::Certificate { path: chain.clone(), source })?;
        let (fingerprint, valid) = (fingerprint(&certificates[0]), validity(&certificates[0]));
        let failed = |source| Error::Certificate { path: key.clone(), source };
        let config = private_file::read(key).and_then(|key| config(certificates, &key)).map_err(failed)?;
        Ok(Self { acceptor: TlsAcceptor::from(Arc::new(config)), fingerprint, valid, warned: AtomicBool::new(false) })
    }

    /// Returns why clients refuse the certificate now, if they do.
    pub(crate) fn check(&self, now: Timestamp) -> Result<(), String> {
        match &self.valid {
            Some(valid) if now > *valid.end() => Err(format!("the certificate expired at {}", valid.end())),
            Some(valid) if now < *valid.start() => {
                Err(format!("the certificate is not valid before {}", valid.start()))
            }
            _ => Ok(()),
        }
    }

    /// Logs once that clients refuse the certificate.
    pub(crate) fn warn_if_invalid(&self) {
        if let Err(why) = self.check(Timestamp::now())
            && !self.warned.swap(true, Ordering::Relaxed)
        {
            tracing::warn!("{why}: clients that verify it do not connect; replace its file, which is reloaded at once");
        }
    }
}

fn config(chain: Vec<CertificateDer<'static>>, key: &[u8]) -> Result<ServerConfig, BadFile> {
    // The parser's error is dropped, because nothing of a key may be printed.
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| content("it has no private key in PEM"))?;
    let builder = ServerConfig::builder_with_provider(Arc::new(default_provider()));
    let builder = builder.with_safe_default_protocol_versions().map_err(|error| content(error.to_string()))?;
    let config = builder.with_no_client_auth().with_single_cert(chain, key);
    let mut config = config.map_err(|error| match error {
        rustls::Error::InconsistentKeys(_) => content("the key does not match the certificate"),
        error => content(error.to_string()),
    })?;
    config.alpn_protocols = PROTOCOLS.map(<[u8]>::to_vec).into();
    Ok(config)
}

fn read_chain(path: &Path) -> Result<Vec<CertificateDer<'static>>, BadFile> {
    let bytes = homeostat_files::read(path, CHAIN_BYTES_MAX)?;
    let bytes = bytes.ok_or_else(|| content(format!("it has more than {CHAIN_BYTES_MAX} bytes")))?;
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    let chain = chain.map_err(|error| content(format!("it is not PEM: {error}")))?;
    if chain.is_empty() { Err(content("it has no certificate in PEM")) } else { Ok(chain) }
}

fn content(what: impl Into<String>) -> BadFile {
    BadFile::Content(what.into())
}

fn fingerprint(certificate: &CertificateDer<'_>) -> String {
    let digest = digest(&SHA256, certificate);
    digest.as_ref().iter().map(|byte| format!("{byte:02X}")).collect::<Vec<_>>().join(":")
}

/// Returns the host that clients connect to, if the address names one.
fn host(address: &Address) -> Option<&str> {
    match address {
        Address::Tls { host, .. } => {
            let is_any = host.parse::<IpAddr>().is_ok_and(|number| number.is_unspecified());
            Some(host.as_str()).filter(|_| !is_any)
        }
        Address::Unix(_) | Address::Tcp(_) => None,
    }
}

/// Refuses a certificate that clients would refuse for this host.
fn check_name(chain: &Path, host: &str) -> Result<(), BadFile> {
    let chain = read_chain(chain)?;
    let certificate = ParsedCertificate::try_from(&chain[0]).map_err(|error| content(error.to_string()))?;
    let name = ServerName::try_from(host).map_err(|error| content(error.to_string()))?;
    verify_server_name(&certificate, &name).map_err(|_| {
        content(format!(
            "it is for other hosts than {host}: remove it to generate a new one, which clients then have to trust, or \
             use your own certificate"
        ))
    })
}

/// Generates a certificate and writes it, the key first: where there is a certificate, there is its key.
fn make(certificate: &Certificate, folder: &Path, host: Option<&str>) -> Result<(), BadFile> {
    let (chain, key) = signed(host).map_err(|error| content(error.to_string()))?;
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    private_file::write(&certificate.key, &key)?;
    private_file::write(&certificate.chain, &chain)
}

/// Returns a certificate and its key, in PEM.
fn signed(host: Option<&str>) -> Result<(String, String), rcgen::Error> {
    let machine = fs::read_to_string(MACHINE).unwrap_or_default();
    let machine = Some(machine.trim()).filter(|name| ServerName::try_from(*name).is_ok());
    let mut names: Vec<String> = NAMES.into_iter().chain(machine).chain(host).map(str::to_owned).collect();
    names.sort();
    names.dedup();
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name.push(DnType::CommonName, "homeostat");
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let today = Timestamp::now().to_zoned(TimeZone::UTC);
    params.not_before = rcgen::date_time_ymd(i32::from(today.year()) - 1, 1, 1);
    params.not_after = rcgen::date_time_ymd(i32::from(today.year() + YEARS), 1, 1);
    let key = KeyPair::generate()?;
    Ok((params.self_signed(&key)?.pem(), key.serialize_pem()))
}

#[cfg(test)]
mod tests;
