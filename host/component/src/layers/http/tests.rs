use std::io::{Read, Write};
use std::net::TcpListener;

use super::HttpClient;
use crate::effect::{Blob, HttpError, HttpRequest};

/// Answers one request with `answer`, and returns the address and what was asked.
fn serve(answer: &'static str) -> (String, std::thread::JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/x?y=1", listener.local_addr().unwrap());
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut asked = vec![0; 4096];
        let length = stream.read(&mut asked).unwrap();
        // The client may have hung up already.
        drop(stream.write_all(answer.as_bytes()));
        String::from_utf8_lossy(&asked[..length]).into_owned()
    });
    (url, server)
}

fn get(url: &str) -> HttpRequest {
    let headers = vec![("x-a".to_owned(), Blob::from("b"))];
    HttpRequest { method: "GET".into(), url: url.into(), headers, body: "".into(), timeout_ms: Some(5000) }
}

#[tokio::test]
async fn a_request_goes_out_and_its_answer_comes_back() {
    let (url, server) = serve("HTTP/1.1 200 OK\r\ncontent-length: 2\r\nx-c: d\r\n\r\nhi");
    let response = HttpClient::new(1000).unwrap().send(get(&url)).await.unwrap();
    assert_eq!((response.status, &*response.body), (200, b"hi".as_slice()));
    assert!(response.headers.contains(&("x-c".to_owned(), Blob::from("d"))), "{response:?}");
    let asked = server.join().unwrap();
    assert!(asked.starts_with("GET /x?y=1 HTTP/1.1") && asked.contains("x-a: b"), "{asked}");
}

#[tokio::test]
async fn a_redirect_is_an_answer_and_is_not_followed() {
    let (url, _server) = serve("HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n");
    assert_eq!(HttpClient::new(1000).unwrap().send(get(&url)).await.unwrap().status, 302);
}

#[tokio::test]
async fn a_body_beyond_the_bound_is_an_error() {
    let (url, _server) = serve("HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nsecret");
    let error = HttpClient::new(5).unwrap().send(get(&url)).await.unwrap_err();
    assert_eq!(error, HttpError::TooLarge(5));
}

#[tokio::test]
async fn no_connection_is_an_error_with_its_cause() {
    let error = HttpClient::new(5).unwrap().send(get("http://127.0.0.1:1/")).await.unwrap_err();
    assert!(matches!(&error, HttpError::Unreachable(text) if text.contains("refused")), "{error:?}");
}

#[tokio::test]
async fn an_address_that_is_none_is_invalid() {
    let error = HttpClient::new(5).unwrap().send(get("nowhere")).await.unwrap_err();
    assert!(matches!(error, HttpError::Invalid(_)), "{error:?}");
}
