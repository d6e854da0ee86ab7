use std::fs;

use super::*;

/// A served folder that contains a folder of components.
fn components() -> (tempfile::TempDir, Components) {
    let served = tempfile::tempdir().unwrap();
    let components = Components::new(served.path().join("data/components"), served.path().to_owned(), registry(), None);
    (served, components)
}

fn registry() -> Registry {
    Registry::new(homeostat_registry::Options::default()).unwrap()
}

fn source(file: Option<&str>, digest: Option<&Digest>) -> ComponentSource {
    let digest = digest.map(|digest| digest.as_str().to_owned());
    ComponentSource { file: file.map(str::to_owned), digest, oci: None }
}

#[tokio::test]
async fn a_stored_component_is_found_by_its_digest_alone() {
    let (_served, components) = components();
    let digest = components.keep(b"code".to_vec()).await.unwrap();
    assert_eq!(components.fetch(&source(None, Some(&digest))).await.unwrap(), b"code");
    let other = Digest::of(b"other");
    let error = components.fetch(&source(None, Some(&other))).await.unwrap_err();
    assert!(error.contains(other.as_str()), "{error}");
}

#[tokio::test]
async fn a_damaged_component_is_not_used() {
    let (served, components) = components();
    let digest = components.keep(b"code".to_vec()).await.unwrap();
    fs::write(components.blobs.path(&digest), b"c0de").unwrap();
    components.fetch(&source(None, Some(&digest))).await.unwrap_err();
    fs::write(served.path().join("a.wasm"), b"code").unwrap();
    assert_eq!(components.fetch(&source(Some("a.wasm"), Some(&digest))).await.unwrap(), b"code");
    assert_eq!(components.fetch(&source(None, Some(&digest))).await.unwrap(), b"code", "it is whole again");
}

#[tokio::test]
async fn a_resources_file_must_be_below_the_served_folder_and_is_stored() {
    let (served, components) = components();
    let inside = served.path().join("inside");
    fs::create_dir(&inside).unwrap();
    let narrow = Components::new(components.blobs.folder.clone(), inside.clone(), registry(), None);
    fs::write(served.path().join("secret.wasm"), b"code").unwrap();
    std::os::unix::fs::symlink(served.path().join("secret.wasm"), inside.join("link.wasm")).unwrap();
    let absolute = served.path().join("secret.wasm").display().to_string();
    for outside in ["../secret.wasm", absolute.as_str(), "link.wasm", "a/../../secret.wasm"] {
        let error = narrow.fetch(&source(Some(outside), None)).await.unwrap_err();
        assert!(error.contains("is not below"), "{outside}: {error}");
    }
    fs::write(inside.join("a.wasm"), b"mine").unwrap();
    assert_eq!(narrow.fetch(&source(Some("a.wasm"), None)).await.unwrap(), b"mine");
    assert_eq!(narrow.fetch(&source(None, Some(&Digest::of(b"mine")))).await.unwrap(), b"mine");
}

#[tokio::test]
async fn only_old_unused_components_are_removed() {
    let (_served, components) = components();
    let (named, other) = (components.keep(b"a".to_vec()).await.unwrap(), components.keep(b"b".to_vec()).await.unwrap());
    let draft = components.blobs.folder.join(".draft-1");
    let note = components.blobs.folder.join("note.txt");
    for file in [&draft, &note] {
        fs::write(file, "").unwrap();
    }
    let (named, now) = (BTreeSet::from([named]), SystemTime::now());
    components.blobs.remove_unused(AGE_MIN, now, |digest| named.contains(digest)).unwrap();
    assert!(components.blobs.path(&other).exists(), "it may be named in a moment");
    let later = now + AGE_MIN + Duration::from_secs(5);
    components.blobs.remove_unused(AGE_MIN, later, |digest| named.contains(digest)).unwrap();
    let left: BTreeSet<_> =
        fs::read_dir(&components.blobs.folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(left, BTreeSet::from([components.blobs.path(named.first().unwrap()), note]));
}

#[test]
fn an_endless_file_is_refused() {
    let error = read(Path::new("/dev/zero")).unwrap_err();
    assert!(error.contains("it is a device"), "{error}");
}
