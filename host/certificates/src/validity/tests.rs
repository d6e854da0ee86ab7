use rcgen::{CertificateParams, KeyPair};

use super::*;

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
fn a_certificate_says_from_when_until_when_it_is_good_in_both_forms_of_a_time() {
    for (from, until) in [(1999, 2020), (2020, 2049), (2020, 2050), (2024, 2399)] {
        let (certificate, _) = lasting(from, until);
        let valid = validity(certificate.der()).unwrap();
        let time = |year: i32| format!("{year}-01-01T00:00:00Z").parse::<Timestamp>().unwrap();
        assert_eq!((*valid.start(), *valid.end()), (time(from), time(until)));
        for cut in 0..certificate.der().len().min(200) {
            assert!(validity(&certificate.der()[..cut]).is_none(), "{cut} bytes");
        }
    }
    assert_eq!(validity(b"no certificate"), None);
}
