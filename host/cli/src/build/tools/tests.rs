use super::*;

#[test]
fn the_number_of_a_version_follows_its_prefix() {
    for (text, prefix, expected) in [
        ("v20.20.2", "v", Some(20)),
        ("go1.26.8", "go1.", Some(26)),
        ("3.9", "3.", Some(9)),
        ("go2.0", "go1.", None),
        ("v", "v", None),
    ] {
        assert_eq!(number_after(text, prefix), expected, "{text}");
    }
}

#[tokio::test]
async fn an_old_or_missing_program_is_missing_with_what_to_install() {
    let old = version_of("echo", &["v18.1.0"], "v", 20, "install Node").await;
    assert_eq!(old, Check::Missing("install Node; this one is v18.1.0".into()));
    assert_eq!(version_of("echo", &["v20.0.0"], "v", 20, "install Node").await, Check::Found("v20.0.0".into()));
    let absent = version_of("no-such-program-here", &[], "v", 20, "install Node").await;
    assert_eq!(absent, Check::Missing("install Node".into()));
}

#[test]
fn the_tools_of_the_project_come_first() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path();
    for file in [".venv/bin/componentize-py", ".venv/bin/python-zig", "node_modules/.bin/componentize-js"] {
        let file = root.join(file);
        std::fs::create_dir_all(file.parent().expect("it is in a folder")).expect("writable");
        std::fs::write(file, "").expect("writable");
    }
    for language in [Language::Python, Language::Js, Language::C] {
        let tool = compiler(language, root).expect("it is installed");
        assert!(tool.program.starts_with(root), "{tool:?}");
    }
}
