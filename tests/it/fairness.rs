//! Clients that take all they can get, and the others, who go on: real connections, with tokens.

use std::fs::{self, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;

use homeostat_api::{Handle, Options, serve};
use homeostat_component::KindDeclaration;
use homeostat_runtime::KindInfo;
use homeostat_tests::{TestHost, demo, demo_key};
use serde_json::json;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const GREEDY: &str = "the-token-of-somebody-greedy";
const MODEST: &str = "the-token-of-somebody-modest";

const NOTES: &str = "/apis/demo.homeostat.dev/v1/namespaces/default/notes";

struct World {
    test: TestHost,
    served: Handle,
    _folder: TempDir,
}

impl World {
    async fn start(options: Options) -> Self {
        let (test, folder) = (TestHost::start().await, TempDir::new().unwrap());
        let kind = demo_key("Note", "a").kind().clone();
        let declaration =
            KindDeclaration { kind, plural: "notes".into(), namespaced: true, keys_only: false, schema: None };
        test.host.kinds().declare(KindInfo::declared(&declaration, "test")).unwrap();
        let tokens = folder.path().join("tokens.yaml");
        let text = format!(
            "- {{name: greedy, token: {GREEDY}, access: write}}\n- {{name: modest, token: {MODEST}, access: write}}\n"
        );
        fs::write(&tokens, text).unwrap();
        fs::set_permissions(&tokens, Permissions::from_mode(0o600)).unwrap();
        let served = serve(Options { tokens: Some(tokens), ..options }, test.host.clone()).await.unwrap();
        Self { test, served, _folder: folder }
    }

    /// Opens a connection and sends the beginning of a request.
    async fn send(&self, token: &str, method: &str, headers: &str, body: &str) -> TcpStream {
        let address = self.served.address().to_string();
        let host = address.trim_start_matches("http://");
        let mut stream = TcpStream::connect(host).await.unwrap();
        let head = format!(
            "{method} {NOTES} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n{headers}\r\n{body}"
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        stream
    }

    /// Sends a request and returns the whole answer.
    async fn ask(&self, token: &str, method: &str, body: &str) -> String {
        let headers = format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len());
        let mut answer = Vec::new();
        self.send(token, method, &headers, body).await.read_to_end(&mut answer).await.unwrap();
        String::from_utf8(answer).unwrap()
    }

    async fn write(&self, token: &str, name: &str) -> String {
        self.ask(token, "POST", &demo("Note", name, json!({ "text": "x" })).to_string()).await
    }
}

/// Four bodies say that they will take all the room there is, and send one byte: they hold up nobody.
#[tokio::test(flavor = "multi_thread")]
async fn bodies_that_do_not_come_hold_up_no_writes_of_others() {
    let bytes = 2 << 20;
    let world = World::start(Options { bodies_bytes_max: 4 * bytes, ..Options::default() }).await;
    let mut slow = Vec::new();
    for _ in 0..4 {
        let headers = format!("Content-Type: application/json\r\nContent-Length: {bytes}\r\n");
        slow.push(world.send(GREEDY, "POST", &headers, "{").await);
    }
    for number in 0..10 {
        for (token, who) in [(MODEST, "modest"), (GREEDY, "greedy")] {
            let answer = world.write(token, &format!("{who}-{number}")).await;
            assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
        }
    }
    for stream in slow {
        let answered = stream.try_read(&mut [0; 16]);
        assert!(answered.is_err_and(|error| error.kind() == ErrorKind::WouldBlock), "nobody waited for its end");
    }
}

/// Readers of long lists that read nothing take what one client may have of the room for lists, and others have the rest.
#[tokio::test(flavor = "multi_thread")]
async fn readers_that_do_not_read_leave_lists_to_others() {
    let world = World::start(Options { lists_max: 4, request_ms_max: 2000, ..Options::default() }).await;
    // More than sockets and HTTP keep in between.
    let text = "x".repeat(512 << 10);
    for number in 0..48 {
        world.test.apply(demo("Note", &format!("n{number}"), json!({ "text": text }))).await;
    }
    let mut readers = Vec::new();
    for _ in 0..6 {
        let mut reader = world.send(GREEDY, "GET", "", "").await;
        // Two of them have a list. The others are told to come back.
        let mut status = [0; 12];
        reader.read_exact(&mut status).await.unwrap();
        readers.push((reader, status));
    }
    let lists = readers.iter().filter(|(_, status)| status.ends_with(b"200")).count();
    assert_eq!(lists, 2, "half of the room");
    let answer = world.ask(MODEST, "GET", "").await;
    assert!(answer.starts_with("HTTP/1.1 200") && answer.len() > 24 << 20, "{}", &answer[..200]);
}
