use reqwest::StatusCode;
use serde_json::json;

use super::*;
use crate::client::{tests, tests_kinds, tests_kinds_document};

fn documents(text: &str) -> Vec<Document> {
    let (documents, problems) = manifest::read_bytes(Path::new("a.yaml"), text.as_bytes());
    assert_eq!(problems, []);
    documents
}

fn deployment(namespace: &str) -> String {
    format!("apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: web\n{namespace}")
}

#[test]
fn a_document_without_a_namespace_gets_that_of_the_command_line() {
    let document = &documents(&deployment(""))[0];
    let global = Global { namespace: Some("blue".into()), ..Global::default() };
    let (_, path) = path(document, &tests_kinds(), &global).unwrap();
    assert_eq!(path, "/apis/apps/v1/namespaces/blue/deployments/web");
}

#[test]
fn a_document_in_another_namespace_than_the_command_line_is_a_problem() {
    let document = &documents(&deployment("  namespace: red\n"))[0];
    let global = Global { namespace: Some("blue".into()), ..Global::default() };
    assert!(path(document, &tests_kinds(), &global).unwrap_err().message.contains("red"));
    assert!(path(document, &tests_kinds(), &Global::default()).unwrap().1.contains("/namespaces/red/"));
}

#[test]
fn an_unknown_kind_is_a_problem_at_its_position() {
    let document = &documents("apiVersion: apps/v1\nkind: Deploymnt\nmetadata: {name: web}\n")[0];
    let problem = path(document, &tests_kinds(), &Global::default()).unwrap_err();
    assert_eq!(problem.line, 2);
    assert!(problem.message.contains("did you mean deployments"), "{problem}");
}

#[test]
fn a_kind_in_another_version_is_reported() {
    let document = &documents("apiVersion: apps/v1beta1\nkind: Deployment\nmetadata: {name: web}\n")[0];
    let problem = path(document, &tests_kinds(), &Global::default()).unwrap_err();
    assert!(problem.message.contains("apps/v1, not as apps/v1beta1"), "{problem}");
}

#[test]
fn a_folder_is_read_in_order_of_names_without_other_files() {
    let folder = std::env::temp_dir().join(format!("homeostat-apply-{}", std::process::id()));
    std::fs::create_dir_all(folder.join("sub")).unwrap();
    for name in ["b.yaml", "a.json", "notes.txt", "sub/c.yml"] {
        std::fs::write(folder.join(name), "").unwrap();
    }
    let names = |recursive| {
        let found = manifests(&folder, recursive).unwrap();
        found.iter().map(|path| path.strip_prefix(&folder).unwrap().display().to_string()).collect::<Vec<_>>()
    };
    assert_eq!(names(false), ["a.json", "b.yaml"]);
    assert_eq!(names(true), ["a.json", "b.yaml", "sub/c.yml"]);
    std::fs::remove_dir_all(&folder).unwrap();
}

/// Applies two documents to a host that answers writes with this code.
async fn applied(answer: fn(String) -> std::future::Ready<(u16, String)>) -> ExitCode {
    let (folder, global) = tests::host(answer);
    let file = folder.path().join("web.yaml");
    std::fs::write(&file, format!("{}---\n{}", deployment(""), deployment("  namespace: red\n"))).unwrap();
    run(Args { files: vec![file], recursive: false }, &global).await.unwrap()
}

fn answer(asked: &str, code: StatusCode) -> std::future::Ready<(u16, String)> {
    let message = json!({ "message": "no space left on the disk", "reason": "ServiceUnavailable" });
    let kinds = asked.contains("/kinds");
    std::future::ready(if kinds {
        (200, tests_kinds_document().to_string())
    } else {
        (code.as_u16(), message.to_string())
    })
}

#[tokio::test]
async fn the_exit_code_follows_the_hosts_status() {
    let unavailable = applied(|asked| answer(&asked, StatusCode::SERVICE_UNAVAILABLE)).await;
    assert_eq!(unavailable, ExitCode::from(69));
    assert_eq!(applied(|asked| answer(&asked, StatusCode::CONFLICT)).await, ExitCode::from(1));
    let one_of_two = |asked: String| {
        let code = if asked.contains("/red/") { StatusCode::FORBIDDEN } else { StatusCode::SERVICE_UNAVAILABLE };
        answer(&asked, code)
    };
    assert_eq!(applied(one_of_two).await, ExitCode::from(1), "they have no code in common");
}
