use rcgen::generate_simple_self_signed;
use rustls::pki_types::pem::PemObject;

use super::*;

/// `openssl req -x509` creates a CA certificate. It is trusted when it is the very certificate that the host
/// presents.
#[test]
fn a_pinned_ca_certificate_is_trusted_as_a_server_certificate() {
    let now = UnixTime::now();
    let shown = CertificateDer::from_pem_slice(OPENSSL.as_bytes()).unwrap();
    let localhost = ServerName::try_from("localhost").unwrap();
    let verifier = TrustedCertificates::new(vec![shown.clone()]).unwrap();
    verifier.verify_server_cert(&shown, &[], &localhost, &[], now).unwrap();
    let other = ServerName::try_from("other.example").unwrap();
    assert!(verifier.verify_server_cert(&shown, &[], &other, &[], now).is_err(), "its names count");
    let late = UnixTime::since_unix_epoch(std::time::Duration::from_secs(8_000_000_000));
    let error = verifier.verify_server_cert(&shown, &[], &localhost, &[], late).unwrap_err();
    assert_eq!(error, rustls::Error::InvalidCertificate(CertificateError::Expired));
    let other = generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let verifier = TrustedCertificates::new(vec![other.cert.der().clone()]).unwrap();
    assert!(verifier.verify_server_cert(&shown, &[], &localhost, &[], now).is_err(), "another one is named");
}

/// Created by `openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 36500 -subj
/// /CN=localhost -addext subjectAltName=DNS:localhost`.
const OPENSSL: &str = "\
-----BEGIN CERTIFICATE-----
MIIBlDCCATugAwIBAgIUWlply+yN5mCEdseIFCRmyFELfVkwCgYIKoZIzj0EAwIw
FDESMBAGA1UEAwwJbG9jYWxob3N0MCAXDTI2MTEyMTIwMTczNloYDzIxMjYxMDI4
MjAxNzM2WjAUMRIwEAYDVQQDDAlsb2NhbGhvc3QwWTATBgcqhkjOPQIBBggqhkjO
PQMBBwNCAAQPITxkWqO1iCU5j9sGm+HzJGTzVLx3zQkjUWihJftZR9XsIH0j6AgE
GkyB5ccqR5GPpIphSquta3RhesWGRqMYo2kwZzAdBgNVHQ4EFgQUfHRlBiCd+7de
bNK/Q2wQ/PJ8nMEwHwYDVR0jBBgwFoAUfHRlBiCd+7debNK/Q2wQ/PJ8nMEwDwYD
VR0TAQH/BAUwAwEB/zAUBgNVHREEDTALgglsb2NhbGhvc3QwCgYIKoZIzj0EAwID
RwAwRAIgAu5WQsAO5f1qwuSa4y8f+R8RQsA2YgOfcDSWyDeFBqgCIHY9gRVpt42g
fm5TqNU7yaLNqbdXSEKoGFFdxywh1A0k
-----END CERTIFICATE-----
";
