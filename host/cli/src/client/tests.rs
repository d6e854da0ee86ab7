use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixListener;
use tokio::time::Instant;

use super::*;

/// A host that answers each request, given its first line, with a code and a body.
pub(crate) fn host<A>(answer: fn(String) -> A) -> (TempDir, Global)
where
    A: Future<Output = (u16, String)> + Send + 'static,
{
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("host.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut asked = vec![0; 4096];
                let length = stream.read(&mut asked).await.unwrap();
                let asked = String::from_utf8_lossy(&asked[..length]).into_owned();
                let (code, body) = answer(asked.lines().next().unwrap_or_default().to_owned()).await;
                let length = body.len();
                let answer =
                    format!("HTTP/1.1 {code} X\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}");
                stream.write_all(answer.as_bytes()).await.unwrap();
            });
        }
    });
    let global = Global { server: Some(format!("unix:{}", socket.display())), ..Global::default() };
    (folder, global)
}

#[tokio::test(start_paused = true)]
async fn a_host_that_does_not_answer_livez_is_an_error_after_seconds() {
    let (_folder, global) = host(|_| std::future::pending());
    let began = Instant::now();
    let error = Client::new(&global).unwrap().get("/api/v1/pods").await.unwrap_err();
    assert_eq!(exit::reason_of(&error), exit::ExitReason::Unavailable);
    assert!(error.to_string().contains("kill -CONT"), "{error}");
    assert!(began.elapsed() <= 2 * LIVENESS_TIMEOUT + Duration::from_secs(1), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_host_that_answers_livez_may_take_long_for_a_request() {
    let (_folder, global) = host(|asked: String| async move {
        if !asked.contains("/livez") {
            tokio::time::sleep(RESPONSE_TIMEOUT - Duration::from_secs(1)).await;
        }
        (200, r#"{"all": "well"}"#.to_owned())
    });
    let client = Client::new(&global).unwrap();
    assert_eq!(client.get("/api/v1/pods").await.unwrap()["all"], "well");
}

#[test]
fn connection_errors_are_explained_in_words() {
    for (code, words) in [(2, "no such socket"), (111, "nothing is listening"), (13, "may not connect")] {
        let why = reason(&io::Error::other(io::Error::from_raw_os_error(code)));
        assert!(why.contains(words) && !why.contains("os error"), "{why}");
    }
}

#[test]
fn a_query_has_only_what_has_a_value_and_is_escaped() {
    let pairs =
        [("labelSelector", Some("a in (b, c)")), ("limit", None), ("key", Some("apps/v1/Deployment default/web"))];
    assert_eq!(with_query("/x", &pairs), "/x?labelSelector=a+in+%28b%2C+c%29&key=apps%2Fv1%2FDeployment+default%2Fweb");
    assert_eq!(with_query("/x", &[("a", None)]), "/x");
}

#[test]
fn a_refusal_is_read_from_a_status() {
    let found = api_error(404, br#"{"kind":"Status","message":"web not found","reason":"NotFound","code":404}"#);
    assert_eq!((found.code, found.to_string()), (404, "web not found (NotFound)".to_owned()));
}

#[test]
fn status_401_explains_how_to_pass_a_token() {
    let found = api_error(401, br#"{"kind":"Status","message":"Unauthorized","reason":"Unauthorized","code":401}"#);
    assert!(found.to_string().contains("--token-file"), "{found}");
}

#[test]
fn a_refusal_without_a_status_has_its_code() {
    assert_eq!(api_error(502, b"<html>").to_string(), "the host answered with status 502");
}

#[tokio::test]
async fn a_missing_host_is_unreachable_and_the_error_explains_how_to_start_one() {
    let global = Global { server: Some("unix:/nonexistent/homeostat.sock".into()), ..Global::default() };
    let error = Client::new(&global).unwrap().get("/livez").await.unwrap_err();
    assert_eq!(exit::reason_of(&error), exit::ExitReason::Unavailable);
    assert!(error.to_string().contains("homeostat run"), "{error}");
}

#[tokio::test]
async fn a_name_that_a_url_would_change_is_not_sent() {
    let (_folder, global) = host(|_| std::future::ready((200, "{}".to_owned())));
    let client = Client::new(&global).unwrap();
    assert!(client.get("/api/v1/pods/web").await.is_ok());
    for name in [".", "..", "%2e%2E", "a b", "a#b", "a\\b", "a\tb"] {
        let error = client.get(&format!("/api/v1/pods/{name}")).await.unwrap_err();
        assert!(error.to_string().contains("not allowed in a URL"), "{name}: {error}");
    }
}
