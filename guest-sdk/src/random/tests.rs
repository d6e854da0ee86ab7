use super::*;

#[test]
fn random_bytes_have_the_length_asked_for_and_differ() {
    for length in [0, 1, 8, 33] {
        assert_eq!(bytes(length).len(), length);
    }
    assert_ne!(bytes(32), bytes(32));
    assert_ne!(number(), number());
}
