use super::*;

#[test]
fn a_component_is_installed_atomically_and_only_when_it_differs() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("target.wasm");
    std::fs::write(&file, b"one").expect("writable");
    let artifact = Artifact { name: "web".into(), file: file.clone() };
    let put = folder.path().join("out");
    std::fs::create_dir(&put).expect("writable");
    assert!(install(&artifact, &put).expect("it is put"));
    assert!(!install(&artifact, &put).expect("it is the same"));
    std::fs::write(&file, b"two").expect("writable");
    assert!(install(&artifact, &put).expect("it is put"));
    assert_eq!(std::fs::read(put.join("web.wasm")).expect("it is there"), b"two");
    assert_eq!(std::fs::read_dir(&put).expect("it is there").count(), 1, "nothing else is left behind");
}
