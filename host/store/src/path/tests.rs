use super::{Path, shortened};

#[test]
fn a_path_is_written_as_kubernetes_does() {
    let spec = Path::ROOT.field("spec");
    let ports = spec.field("ports");
    assert_eq!(Path::ROOT.to_string(), "");
    assert_eq!(ports.item(0).field("name").to_string(), "spec.ports[0].name");
    assert_eq!(spec.field("labels").key("a/b").to_string(), "spec.labels[a/b]");
}

#[test]
fn long_names_are_cut_between_characters() {
    assert_eq!(shortened("äö", 2), "äö");
    assert_eq!(shortened("äöü", 2), "äö…");
    assert!(Path::ROOT.key(&"x".repeat(1 << 20)).to_string().len() < 200);
}
