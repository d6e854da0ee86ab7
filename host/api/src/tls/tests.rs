use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use super::*;

fn address(text: &str) -> Address {
    text.parse().unwrap()
}

#[test]
fn a_certificate_is_made_once_and_its_key_is_private() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let made = Certificate::load_or_generate(&data, &address("https://127.0.0.1:1")).unwrap();
    assert!(made.is_new);
    let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
    assert_eq!((mode(&made.certificate.key), mode(&made.certificate.chain)), (0o600, 0o600));
    let fingerprint = TlsIdentity::load(&made.certificate).unwrap().fingerprint;
    assert_eq!((fingerprint.len(), fingerprint.matches(':').count()), (95, 31));
    let again = Certificate::load_or_generate(&data, &address("https://0.0.0.0:2")).unwrap();
    assert!(!again.is_new);
    assert_eq!(TlsIdentity::load(&again.certificate).unwrap().fingerprint, fingerprint);
}

#[test]
fn a_certificate_that_was_made_for_other_hosts_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    for own in ["https://first.example:1", "https://localhost:1", "https://[::1]:1", "https://[::]:1"] {
        Certificate::load_or_generate(folder.path(), &address("https://first.example:1")).unwrap();
        Certificate::load_or_generate(folder.path(), &address(own)).unwrap();
    }
    let error = Certificate::load_or_generate(folder.path(), &address("https://second.example:1")).unwrap_err();
    let Error::Certificate { source, .. } = error else { panic!("{error}") };
    assert!(source.to_string().contains("other hosts than second.example"), "{source}");
}

#[test]
fn files_that_do_not_go_together_are_refused_and_no_key_is_quoted() {
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let [one, other] = folders.each_ref().map(|folder| {
        Certificate::load_or_generate(folder.path(), &address("https://localhost:1")).unwrap().certificate
    });
    let refused = |certificate: Certificate| match TlsIdentity::load(&certificate).err().unwrap() {
        Error::Certificate { source, .. } => source.to_string(),
        error => panic!("{error}"),
    };
    assert!(refused(Certificate { key: other.key, ..one.clone() }).contains("does not match the certificate"));
    assert!(refused(Certificate { chain: one.key.clone(), ..one.clone() }).contains("no certificate"));
    let key = folders[0].path().join("broken.key");
    let pem = fs::read_to_string(&one.key).unwrap();
    private_file::write(&key, &pem.replace("PRIVATE", "SECRET")).unwrap();
    assert!(refused(Certificate { key, ..one.clone() }).contains("no private key"));
    fs::set_permissions(&one.key, Permissions::from_mode(0o644)).unwrap();
    assert!(refused(one).contains("chmod 600"));
}

#[test]
fn a_changed_certificate_is_shown_and_one_that_cannot_be_used_is_not() {
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let [one, other] = folders.each_ref().map(|folder| {
        Certificate::load_or_generate(folder.path(), &address("https://localhost:1")).unwrap().certificate
    });
    let (metrics, expected) = (Metrics::default(), TlsIdentity::load(&other).unwrap().fingerprint);
    let followed = TlsIdentity::open(one.clone(), metrics.clone()).unwrap();
    let first = followed.last_value().fingerprint.clone();
    let look = || {
        followed.reload();
        (followed.last_value().fingerprint.clone(), metrics.unusable_count(FileKind::Certificate))
    };
    assert_eq!(look(), (first.clone(), 0));
    fs::rename(&other.chain, &one.chain).unwrap();
    assert_eq!(look(), (first, 1), "the key is still the other one's");
    fs::rename(&other.key, &one.key).unwrap();
    assert_eq!(look(), (expected.clone(), 1));
    fs::write(&one.chain, "broken").unwrap();
    assert_eq!(look(), (expected, 2));
}

/// Like a certificate of `openssl req -x509`, except for the dates.
fn lasting(from: i32, until: i32) -> (rcgen::Certificate, KeyPair) {
    let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    params.not_before = rcgen::date_time_ymd(from, 1, 1);
    params.not_after = rcgen::date_time_ymd(until, 1, 1);
    let key = KeyPair::generate().unwrap();
    (params.self_signed(&key).unwrap(), key)
}

#[test]
fn a_certificate_out_of_its_validity_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let certificate = Certificate { chain: folder.path().join("tls.crt"), key: folder.path().join("tls.key") };
    let metrics = Metrics::default();
    for (from, until, message) in
        [(1999, 2020, "expired at 2020"), (2390, 2399, "not valid before 2390"), (2020, 2399, "")]
    {
        let (made, key) = lasting(from, until);
        private_file::write(&certificate.chain, &made.pem()).unwrap();
        private_file::write(&certificate.key, &key.serialize_pem()).unwrap();
        let identity = TlsIdentity::open(certificate.clone(), metrics.clone()).unwrap().last_value();
        let why = identity.check(Timestamp::now()).err().unwrap_or_default();
        assert!(why.contains(message) && why.is_empty() == message.is_empty(), "{why}");
        identity.warn_if_invalid();
        assert_eq!(identity.warned.load(Ordering::Relaxed), !message.is_empty());
    }
}
