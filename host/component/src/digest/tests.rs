use super::Digest;

#[test]
fn a_digest_is_that_of_the_standard() {
    let empty = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    assert_eq!(Digest::of(b"").as_str(), empty);
    assert_ne!(Digest::of(b"a"), Digest::of(b"b"));
}
