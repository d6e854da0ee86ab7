use std::fs;

use super::*;
use crate::keys::SecretKey;
use crate::signature::sign;

fn component() -> Vec<u8> {
    wat::parse_str("(component (core module))").unwrap()
}

fn policy(folder: &Path, text: &str) -> Result<Policy, Error> {
    let path = folder.join("policy.yaml");
    fs::write(&path, text).unwrap();
    Policy::read(&path)
}

#[test]
fn a_policy_that_requires_signatures_takes_those_of_its_keys_alone() {
    let (folder, key, other) =
        (tempfile::tempdir().unwrap(), SecretKey::generate().unwrap(), SecretKey::generate().unwrap());
    fs::write(folder.path().join("a.pub"), key.public().to_pem()).unwrap();
    let inline = other.public().to_pem().replace('\n', "\n    ");
    let text = format!("require: true\nkeys:\n- {{name: a, file: a.pub}}\n- name: b\n  pem: |\n    {inline}\n");
    let both = policy(folder.path(), &text).unwrap();
    let signed = sign(&component(), &key).unwrap();
    assert_eq!(both.check(&signed).unwrap(), ["a"]);
    assert_eq!(both.check(&sign(&signed, &other).unwrap()).unwrap(), ["a", "b"]);
    assert!(matches!(both.check(&component()), Err(Error::Unsigned)));
    let a_alone = policy(folder.path(), "require: true\nkeys: [{name: a, file: a.pub}]").unwrap();
    assert!(matches!(a_alone.check(&sign(&component(), &other).unwrap()), Err(Error::Untrusted { .. })));
}

#[test]
fn optional_policy_refuses_a_component_changed_after_signing() {
    let (folder, key) = (tempfile::tempdir().unwrap(), SecretKey::generate().unwrap());
    fs::write(folder.path().join("a.pub"), key.public().to_pem()).unwrap();
    let loose = policy(folder.path(), "require: false\nkeys: [{name: a, file: a.pub}]").unwrap();
    assert_eq!(loose.check(&component()).unwrap(), [""; 0]);
    assert_eq!(loose.check(&sign(&component(), &SecretKey::generate().unwrap()).unwrap()).unwrap(), [""; 0]);
    let changed = [sign(&component(), &key).unwrap(), vec![0, 2, 1, b'x']].concat();
    assert!(matches!(loose.check(&changed), Err(Error::Altered { .. })));
}

#[test]
fn contradictory_policy_is_refused() {
    let (folder, key) = (tempfile::tempdir().unwrap(), SecretKey::generate().unwrap());
    fs::write(folder.path().join("a.pub"), key.public().to_pem()).unwrap();
    for text in [
        "",
        "keys: []",
        "require: true\nkeys: []",
        "require: true\nkeys: [{name: a}]",
        "require: true\nkeys: [{name: a, file: none.pub}]",
        "require: true\nkeys: [{name: a, pem: x}]",
        "require: true\nkeys: [{name: a, file: a.pub, pem: x}]",
        "require: true\nkeys: [{name: a, file: a.pub}, {name: b, file: a.pub}]",
        "require: true\nkeys: [{name: a, file: a.pub, role: admin}]",
        "require: maybe\nkeys: [{name: a, file: a.pub}]",
    ] {
        assert!(matches!(policy(folder.path(), text), Err(Error::Policy { .. })), "{text}");
    }
}

#[test]
fn policy_error_is_one_line_that_names_each_file_once() {
    let folder = tempfile::tempdir().unwrap();
    let told = |text: &str| policy(folder.path(), text).unwrap_err().to_string();
    assert!(!told("requires: true\n").contains('\n'));
    assert!(told("requires: true\n").contains("unknown field `requires`"));
    let lacking = told("require: true\nkeys:\n- {name: a, file: nope.pub}\n");
    assert_eq!(lacking.matches("nope.pub").count(), 1, "{lacking}");
    let gone = Policy::read(&folder.path().join("gone.yaml")).unwrap_err().to_string();
    assert_eq!(gone.matches("gone.yaml").count(), 1, "{gone}");
}
