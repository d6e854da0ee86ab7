use super::*;
use crate::terminal::Style;

#[test]
fn a_component_is_found_in_the_messages_of_cargo() {
    let message = |reason: &str, id: &str, file: &str| {
        format!(
            r#"{{"reason":"{reason}","package_id":"{id}","manifest_path":"/w/my-guest/Cargo.toml","filenames":["{file}"]}}"#
        )
    };
    let path = "path+file:///w/my-guest";
    for (line, expected) in [
        (message("compiler-artifact", &format!("{path}#0.1.0"), "/t/my_guest.wasm"), Some("my-guest")),
        (message("compiler-artifact", &format!("{path}#other@0.1.0"), "/t/other.wasm"), Some("other")),
        (message("compiler-artifact", &format!("{path}#0.1.0"), "/t/libmy_guest.rlib"), None),
        (message("build-script-executed", &format!("{path}#0.1.0"), "/t/my_guest.wasm"), None),
        ("not json".to_owned(), None),
    ] {
        assert_eq!(artifact(&line).map(|artifact| artifact.name).as_deref(), expected, "{line}");
    }
}

#[test]
fn progress_lines_are_distinguished_from_compiler_output() {
    for line in [
        "   Compiling web v0.1.0 (/w)",
        "    Finished `release` profile",
        "    Blocking waiting for file lock",
        " Downloading crates ...",
    ] {
        assert!(is_progress(line), "{line}");
    }
    for line in [
        "error[E0308]: mismatched types",
        "  --> src/lib.rs:1:1",
        "   |",
        "12 | Some(code)",
        "    Some code",
        "",
        "warning: unused",
    ] {
        assert!(!is_progress(line), "{line}");
    }
}

#[tokio::test]
async fn progress_with_colours_is_no_diagnostic() {
    let stderr = "\u{1b}[1m\u{1b}[32m   Compiling\u{1b}[0m web\n\u{1b}[33mwarning\u{1b}[0m: unused\n";
    let said = read_diagnostics(stderr.as_bytes(), &Screen::new(Style::Lines)).await;
    assert_eq!(said, "\u{1b}[33mwarning\u{1b}[0m: unused\n", "a diagnostic keeps its colours");
}

#[test]
fn a_guest_is_a_cdylib_in_the_folder_or_below_and_has_its_path_dependencies() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().canonicalize().expect("it is there");
    let package = |name: &str, at: &Path, kind: &str, path: &str| {
        serde_json::json!({"name": name, "manifest_path": at.join("Cargo.toml"), "targets": [{"crate_types": [kind]}],
            "dependencies": [{"path": null}, {"path": path, "kind": null}, {"path": "/w/tests", "kind": "dev"}]})
    };
    let metadata: CargoMetadata = serde_json::from_value(serde_json::json!({"workspace_root": "/w", "packages": [
        package("web", &root.join("web"), "cdylib", "/w/sdk"),
        package("deep", &root.join("a/b"), "cdylib", "/w/sdk"),
        package("tool", &root.join("tool"), "bin", "/w/sdk"),
        package("sdk", Path::new("/w/sdk"), "lib", "/w/base"),
    ]}))
    .expect("it has the shape of cargo's answer");
    let guests = metadata.guests(&root).expect("the metadata are valid");
    let expected = Guest {
        name: "web".into(),
        folder: root.join("web"),
        language: Language::Rust,
        workspace: "/w".into(),
        target: Target::Unknown,
        dependencies: vec!["/w/sdk".into(), "/w/base".into()],
    };
    assert_eq!(guests, [expected]);
}
