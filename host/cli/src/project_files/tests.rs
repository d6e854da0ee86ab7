use super::*;

/// Returns a folder with these files, each with its path as its content.
fn folder(files: &[&str]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for file in files {
        let path = folder.path().join(file);
        std::fs::create_dir_all(path.parent().expect("it is in a folder")).expect("writable");
        std::fs::write(path, file).expect("writable");
    }
    folder
}

#[test]
fn sources_are_all_files_but_manifests_documents_components_and_those_of_tools() {
    let sources = ["go.mod", "main.go", "package.json", "src/deep/app.py", "wit/guest.wit"];
    let others = [".venv/a.py", "README.md", "app.yaml", "app.wasm", "build/a.wasm", "node_modules/a/index.js"];
    let folder = folder(&[&sources[..], &others].concat());
    let found = ProjectFiles::scan(folder.path());
    assert_eq!(found.files, sources.map(|file| folder.path().join(file)));
    assert!(!found.folders.contains(&folder.path().join("node_modules")), "it is not watched either");
}

#[test]
fn the_digest_changes_with_a_content_a_name_and_the_tool_alone() {
    let folder = folder(&["src/a.js", "README.md"]);
    let root = folder.path();
    let digest = |tool: &str| ProjectFiles::scan(root).digest(root, tool).expect("it can be read");
    let first = digest("1");
    std::fs::write(root.join("README.md"), "other").expect("writable");
    assert_eq!(digest("1"), first);
    assert_ne!(digest("2"), first, "another version of the tool");
    std::fs::rename(root.join("src/a.js"), root.join("src/b.js")).expect("writable");
    let renamed = digest("1");
    assert_ne!(renamed, first);
    std::fs::write(root.join("src/b.js"), "other").expect("writable");
    assert_ne!(digest("1"), renamed);
}
