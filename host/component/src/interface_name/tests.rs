use super::InterfaceName;

fn compatible(a: &str, b: &str) -> bool {
    InterfaceName::parse(a).is_compatible(InterfaceName::parse(b))
}

#[test]
fn versions_without_breaking_changes_are_compatible() {
    assert!(compatible("wasi:io/poll@0.2.0", "wasi:io/poll@0.2.12"));
    assert!(compatible("a:b/c@1.0.0", "a:b/c@1.7.2"));
    assert!(!compatible("wasi:io/poll@0.2.0", "wasi:io/poll@0.3.0"));
    assert!(!compatible("a:b/c@1.0.0", "a:b/c@2.0.0"));
    assert!(!compatible("a:b/c@0.0.1", "a:b/c@0.0.2"));
    assert!(!compatible("wasi:io/poll@0.2.0", "wasi:io/streams@0.2.0"));
}

#[test]
fn a_prerelease_version_is_compatible_with_itself_alone() {
    assert!(compatible("wasi:config/store@0.2.0-rc.1", "wasi:config/store@0.2.0-rc.1"));
    assert!(!compatible("wasi:config/store@0.2.0-rc.1", "wasi:config/store@0.2.0-draft"));
    assert!(!compatible("wasi:config/store@0.2.0-rc.1", "wasi:config/store@0.2.0"));
}
