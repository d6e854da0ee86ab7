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
