use super::*;

#[test]
fn a_key_reads_back_as_it_is_printed() {
    for key in [
        Key::new(Kind::new("apps", "v1", "Deployment"), "default", "web"),
        Key::new(Kind::new("", "v1", "Node"), "", "a"),
    ] {
        assert_eq!(read_key(&key.to_string()), Some(key));
    }
    assert_eq!(read_key("web"), None);
}
