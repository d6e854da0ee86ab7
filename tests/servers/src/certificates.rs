//! An authority that signs the certificates of the servers and clients of one test.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};
use tokio_rustls::rustls::crypto::aws_lc_rs::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, ServerConfig};

/// An authority whose certificate clients trust.
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

/// A certificate with its key, in PEM.
#[derive(Clone, Debug)]
pub struct CertificatePair {
    /// The certificate.
    pub certificate: String,
    /// The private key, in PKCS #8.
    pub key: String,
}

impl Authority {
    /// Makes an authority with a new key.
    ///
    /// # Panics
    /// When no key can be made.
    #[expect(clippy::new_without_default, reason = "each one is another")]
    pub fn new() -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "an authority of tests");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let key = KeyPair::generate().expect("keys can be made");
        Self { issuer: CertifiedIssuer::self_signed(params, key).expect("the parameters are valid") }
    }

    /// Returns the authority's own certificate in PEM.
    pub fn pem(&self) -> String {
        self.issuer.pem()
    }

    /// Signs a certificate for `localhost` and `127.0.0.1`. Servers also use it as clients of each other.
    ///
    /// # Panics
    /// When no key can be made.
    pub fn server(&self) -> CertificatePair {
        let names = ["localhost", "127.0.0.1"].map(str::to_owned);
        let mut params = CertificateParams::new(names).expect("the names are valid");
        params.distinguished_name.push(DnType::CommonName, "localhost");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        self.signed(params)
    }

    /// Signs a certificate of a client. An apiserver takes `user` as its name and `group` as its group. It is
    /// valid for `lifetime` from now on; `None` is for ever.
    ///
    /// # Panics
    /// When no key can be made.
    pub fn client(&self, user: &str, group: Option<&str>, lifetime: Option<Duration>) -> CertificatePair {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, user);
        if let Some(group) = group {
            params.distinguished_name.push(DnType::OrganizationName, group);
        }
        if let Some(lifetime) = lifetime {
            let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).expect("the clock is right");
            params.not_after = rcgen::date_time_ymd(1970, 1, 1) + since_1970 + lifetime;
        }
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.signed(params)
    }

    fn signed(&self, mut params: CertificateParams) -> CertificatePair {
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        let key = KeyPair::generate().expect("keys can be made");
        let certificate = params.signed_by(&key, &self.issuer).expect("the parameters are valid");
        CertificatePair { certificate: certificate.pem(), key: key.serialize_pem() }
    }

    /// Returns the configuration of a client that trusts this authority alone, and shows no certificate.
    ///
    /// # Panics
    /// Never: its own certificate is that of an authority.
    pub fn client_config(&self) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(self.issuer.der().clone()).expect("it is an authority");
        let config = ClientConfig::builder_with_provider(Arc::new(default_provider()));
        let config = config.with_safe_default_protocol_versions().expect("the provider has both versions");
        Arc::new(config.with_root_certificates(roots).with_no_client_auth())
    }

    /// Returns the configuration of a server with a certificate of this authority.
    ///
    /// # Panics
    /// When no key can be made.
    pub fn server_config(&self) -> Arc<ServerConfig> {
        let CertificatePair { certificate, key } = self.server();
        let certificate = CertificateDer::from_pem_slice(certificate.as_bytes()).expect("it was made above");
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).expect("it was made above");
        let config = ServerConfig::builder_with_provider(Arc::new(default_provider()));
        let config = config.with_safe_default_protocol_versions().expect("the provider has both versions");
        let config = config.with_no_client_auth().with_single_cert(vec![certificate], key);
        Arc::new(config.expect("the key belongs to the certificate"))
    }
}

/// Returns a new private key and its public key, in PEM: an apiserver signs the tokens of service accounts with them.
pub(super) fn signing_keys() -> (String, String) {
    let key = KeyPair::generate().expect("keys can be made");
    (key.serialize_pem(), key.public_key_pem())
}
