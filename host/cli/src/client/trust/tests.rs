use std::path::PathBuf;

use homeostat_api::Certificate;

use super::*;

fn file(text: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    std::fs::write(&path, text).unwrap();
    (folder, path)
}

fn global(path: PathBuf) -> Global {
    Global { token_file: Some(path), ..Global::default() }
}

#[test]
fn a_token_is_its_trimmed_file_and_is_not_printed() {
    let (_folder, path) = file("  secret-of-alice\n");
    let here = "unix:/host.sock".parse().unwrap();
    let found = token(&global(path), &here).unwrap().unwrap();
    assert_eq!(found, "secret-of-alice");
    let header = authorization(&found).unwrap();
    assert_eq!(header, "Bearer secret-of-alice");
    assert!(!format!("{header:?}").contains("secret"), "{header:?}");
    assert_eq!(exit::reason_of(&authorization("two\nlines").unwrap_err()), exit::ExitReason::Usage);
}

#[test]
fn a_token_is_not_sent_over_the_network_unencrypted() {
    let (_folder, path) = file("secret-of-alice");
    let global = global(path);
    for fine in ["http://127.0.0.1:1", "https://192.0.2.1:1", "unix:/host.sock"] {
        assert!(token(&global, &fine.parse().unwrap()).is_ok(), "{fine}");
    }
    let error = token(&global, &"http://192.0.2.1:1".parse().unwrap()).unwrap_err();
    assert!(error.to_string().contains("use https://192.0.2.1:1"), "{error}");
}

#[test]
fn a_file_without_a_token_or_a_certificate_is_refused() {
    let (_folder, path) = file("\n");
    let here = "unix:/host.sock".parse().unwrap();
    assert!(token(&global(path.clone()), &here).unwrap_err().to_string().contains("no token in"));
    assert!(tls(&path).unwrap_err().to_string().contains("no certificate in"));
    assert!(tls(Path::new("/nonexistent")).unwrap_err().to_string().contains("cannot be read"));
}

#[test]
fn an_unknown_certificate_error_suggests_the_option() {
    let folder = tempfile::tempdir().unwrap();
    let address = "https://localhost:1".parse().unwrap();
    let made = Certificate::load_or_generate(folder.path(), &address).unwrap().certificate;
    assert!(tls(&made.chain).is_ok());
    let unknown = rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer);
    let error = explain(&address, &std::io::Error::other(std::io::Error::other(unknown))).unwrap();
    assert!(error.to_string().contains("--certificate-authority"), "{error}");
    assert!(explain(&address, &std::io::Error::from(std::io::ErrorKind::ConnectionRefused)).is_none());
}

/// `openssl req -x509` creates a CA certificate. It is trusted when it is the very certificate that the host
/// presents.
#[test]
fn a_pinned_ca_certificate_is_trusted_as_a_server_certificate() {
    let (folder, now) = (tempfile::tempdir().unwrap(), UnixTime::now());
    let write = |name: &str, pem: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, pem).unwrap();
        path
    };
    let named = write("named.crt", OPENSSL);
    let shown = CertificateDer::from_pem_slice(OPENSSL.as_bytes()).unwrap();
    let localhost = ServerName::try_from("localhost").unwrap();
    let verifier = PinnedCertificates::verifier(&named).unwrap();
    verifier.verify_server_cert(&shown, &[], &localhost, &[], now).unwrap();
    let other = ServerName::try_from("other.example").unwrap();
    assert!(verifier.verify_server_cert(&shown, &[], &other, &[], now).is_err(), "its names count");
    let late = UnixTime::since_unix_epoch(std::time::Duration::from_secs(8_000_000_000));
    let error = verifier.verify_server_cert(&shown, &[], &localhost, &[], late).unwrap_err();
    assert_eq!(error, rustls::Error::InvalidCertificate(CertificateError::Expired));
    let address = "https://localhost:1".parse().unwrap();
    let made = Certificate::load_or_generate(folder.path(), &address).unwrap().certificate;
    let verifier = PinnedCertificates::verifier(&made.chain).unwrap();
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
