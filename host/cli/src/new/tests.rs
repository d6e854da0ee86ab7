use std::collections::BTreeSet;

use clap::ValueEnum;

use super::*;

fn project(language: Language) -> Project {
    Project { name: "hello".into(), language, sdk: None }
}

/// Returns the paths of all files below a folder.
fn paths(folder: &Path) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(folder).expect("it can be read") {
        let path = entry.expect("it can be read").path();
        let below = if path.is_dir() { paths(&path) } else { BTreeSet::from([path]) };
        found.extend(below);
    }
    found
}

#[test]
fn a_project_of_each_language_is_recognised_and_has_no_gap_left() {
    for language in Language::value_variants() {
        let parent = tempfile::tempdir().expect("a folder");
        let folder = parent.path().join("hello");
        project(*language).write(&folder).expect("it is new");
        assert_eq!(Language::of(&folder), Some(*language));
        for path in paths(&folder) {
            let text = fs::read_to_string(&path).expect("it was written");
            let has_gap = text.contains("{{name}}") || text.contains("{{sdk}}");
            assert!(!has_gap, "{} has a gap", path.display());
        }
        for file in ["hello.yaml", "greeting.yaml", "tests/cases.yaml", "README.md", ".gitignore"] {
            assert!(folder.join(file).is_file(), "{language:?} has {file}");
        }
    }
}

#[test]
fn every_template_is_in_a_project() {
    let templates = Path::new(env!("CARGO_MANIFEST_DIR")).join("templates");
    let texts: BTreeSet<&str> =
        Language::value_variants().iter().flat_map(|language| files(*language)).map(|(_, text)| text).collect();
    for path in paths(&templates) {
        let text = fs::read_to_string(&path).expect("it is text");
        assert!(texts.contains(text.as_str()), "{} is in no project", path.display());
    }
}

#[test]
fn a_folder_with_files_is_never_changed() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("README.md"), "mine").expect("writable");
    let error = project(Language::Python).write(folder.path()).expect_err("it has a file").to_string();
    assert!(error.contains("nothing is overwritten"), "{error}");
    assert_eq!(paths(folder.path()).len(), 1);
    assert_eq!(fs::read_to_string(folder.path().join("README.md")).expect("it is there"), "mine");
}

#[test]
fn a_name_is_the_last_part_of_the_folder_and_a_label() {
    for (folder, expected) in [("hello", Some("hello")), ("a/b/my-2", Some("my-2")), ("./x", Some("x"))] {
        assert_eq!(name_of(Path::new(folder)).ok().as_deref(), expected, "{folder}");
    }
    let long = "a".repeat(NAME_BYTES_MAX + 1);
    for folder in ["Hello", "2nd", "a_b", "a-", "-a", "..", "ä", "a b", &long] {
        assert!(name_of(Path::new(folder)).is_err(), "{folder}");
    }
}

#[test]
fn the_sdk_is_the_published_crate_or_a_folder() {
    let published = project(Language::Rust).fill("homeostat-sdk = {{sdk}}");
    assert_eq!(published, format!("homeostat-sdk = \"{}\"", env!("CARGO_PKG_VERSION")));
    let sdk = Some(PathBuf::from("/a \"b\"/sdk"));
    let local = Project { sdk, ..project(Language::Rust) }.fill("homeostat-sdk = {{sdk}}");
    assert_eq!(local, r#"homeostat-sdk = { path = "/a \"b\"/sdk" }"#);
    assert!(sdk_folder(Path::new("/absent")).is_err());
}
