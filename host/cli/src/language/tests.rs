use super::*;

#[test]
fn the_language_of_a_guest_follows_from_its_files() {
    for (file, expected) in [
        ("Cargo.toml", Language::Rust),
        ("src/app.py", Language::Python),
        ("package.json", Language::Js),
        ("go.mod", Language::Go),
        ("src/main.c", Language::C),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path();
        std::fs::create_dir(root.join("src")).expect("writable");
        std::fs::write(root.join(file), "").expect("writable");
        assert_eq!(Language::of(root), (expected == Language::Rust).then_some(expected), "{file} without a contract");
        std::fs::create_dir(root.join("wit")).expect("writable");
        assert_eq!(Language::of(root), Some(expected), "{file}");
    }
}
