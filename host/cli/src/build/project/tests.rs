use super::*;
use crate::terminal::Style;

/// Returns a project in C whose compiler is a script.
fn project(script: &str) -> tempfile::TempDir {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path();
    for path in ["src", "wit", ".venv/bin"] {
        std::fs::create_dir_all(root.join(path)).expect("writable");
    }
    std::fs::write(root.join("src/app.py"), "").expect("writable");
    let compiler = root.join(".venv/bin/componentize-py");
    std::fs::write(&compiler, format!("#!/bin/sh\n{script}\n")).expect("writable");
    std::fs::set_permissions(&compiler, std::fs::Permissions::from_mode(0o755)).expect("it is ours");
    folder
}

/// Counts its calls in `calls`, and writes the sources as the component.
const COMPILER: &str = r#"echo call >> calls.md
while [ "$1" != -p ]; do shift; done
[ ! -e fail.md ] || { echo "the compiler's words" >&2; exit 1; }
cat "$2/app.py" > "$4""#;

async fn built(guest: &Guest) -> BuildResult {
    let mut built = BuildResult::default();
    build(guest, &mut built).await.expect("the tool starts");
    built
}

#[tokio::test]
async fn unchanged_sources_are_not_compiled_again() {
    let folder = project(COMPILER);
    let root = folder.path();
    let guest = guest(root.to_owned(), Language::Python).expect("it has a name");
    let calls = || std::fs::read_to_string(root.join("calls.md")).expect("it was called").lines().count();
    std::fs::write(root.join("src/app.py"), "one").expect("writable");
    let first = built(&guest).await;
    assert_eq!(std::fs::read(&first.artifacts[0].file).expect("it was built"), b"one");
    assert_eq!((calls(), first.unchanged.len()), (1, 0));
    assert_eq!(built(&guest).await.unchanged, std::slice::from_ref(&guest.name));
    assert_eq!(calls(), 1);
    std::fs::write(root.join("src/app.py"), "two").expect("writable");
    let second = built(&guest).await;
    assert_eq!(std::fs::read(&second.artifacts[0].file).expect("it was built"), b"two");
    assert_eq!(calls(), 2);
}

#[tokio::test]
async fn a_failed_build_has_the_words_of_the_compiler_and_is_repeated() {
    let folder = project(COMPILER);
    let guest = guest(folder.path().to_owned(), Language::Python).expect("it has a name");
    built(&guest).await;
    std::fs::write(folder.path().join("src/app.py"), "broken").expect("writable");
    std::fs::write(folder.path().join("fail.md"), "").expect("writable");
    for _ in 0..2 {
        let failed = built(&guest).await;
        assert_eq!((failed.failed.len(), failed.artifacts.len()), (1, 0));
        assert_eq!(failed.tool_output, "the compiler's words\n");
    }
    std::fs::remove_file(folder.path().join("fail.md")).expect("it is there");
    assert_eq!(built(&guest).await.artifacts.len(), 1);
}

#[tokio::test]
async fn a_missing_tool_is_named_with_what_to_do() {
    let folder = tempfile::tempdir().expect("a folder");
    let guest = guest(folder.path().to_owned(), Language::Js).expect("it has a name");
    let error = prepare(&guest, false, &Screen::new(Style::Lines)).await.expect_err("nothing is installed").to_string();
    assert!(error.contains("componentize-js is not installed") && error.contains("--install"), "{error}");
}
