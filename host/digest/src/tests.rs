use super::{Digest, to_hex};

#[test]
fn sha256_digests_match_the_standards_examples() {
    let empty = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    assert_eq!(Digest::of(b"").as_str(), empty);
    assert_ne!(Digest::of(b"a"), Digest::of(b"b"));
}

#[test]
fn a_text_is_a_digest_in_one_form_alone() {
    let whole = Digest::of(b"code");
    assert_eq!(Digest::parse(whole.as_str()), Some(whole.clone()));
    let digits = whole.as_str().trim_start_matches("sha256:");
    for other in [digits, &format!("sha512:{digits}"), &format!("sha256:{}", &digits[1..]), &digits.to_uppercase(), ""]
    {
        assert_eq!(Digest::parse(other), None, "{other}");
    }
}

#[test]
fn every_byte_has_two_digits() {
    assert_eq!(to_hex(&[0x00, 0x0f, 0xa0, 0xff]), "000fa0ff");
}
