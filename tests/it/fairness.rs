//! Fairness between API clients: a greedy client leaves bodies, lists and connections to the others. With
//! real connections and tokens.

use std::fs::{self, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::time::Instant;

use homeostat_api::{Handle, Options, serve};
use homeostat_component::KindDeclaration;
use homeostat_fixtures::{demo, demo_key};
use homeostat_runtime::KindInfo;
use homeostat_testing::{eventually, soon};
use homeostat_tests::TestHost;
use serde_json::json;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

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
        self.send_to(token, method, NOTES, headers, body).await
    }

    async fn send_to(&self, token: &str, method: &str, path: &str, headers: &str, body: &str) -> TcpStream {
        let address = self.served.address().to_string();
        let host = address.trim_start_matches("http://");
        let mut stream = TcpStream::connect(host).await.unwrap();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n{headers}\r\n{body}"
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        stream
    }

    /// Sends a request and returns the whole response.
    async fn ask(&self, token: &str, method: &str, body: &str) -> String {
        self.ask_at(token, method, NOTES, body).await
    }

    async fn ask_at(&self, token: &str, method: &str, path: &str, body: &str) -> String {
        let headers = format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len());
        let mut answer = Vec::new();
        self.send_to(token, method, path, &headers, body).await.read_to_end(&mut answer).await.unwrap();
        String::from_utf8(answer).unwrap()
    }

    async fn write(&self, token: &str, name: &str) -> String {
        self.ask(token, "POST", &demo("Note", name, json!({ "text": "x" })).to_string()).await
    }
}

/// Four requests announce bodies that would fill all the memory for bodies, and send one byte each.
#[tokio::test(flavor = "multi_thread")]
async fn unfinished_bodies_delay_no_writes_of_other_clients() {
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
        assert!(
            answered.is_err_and(|error| error.kind() == ErrorKind::WouldBlock),
            "the host still waits for the body"
        );
    }
}

/// A client whose connections do not read their long lists takes its share of the concurrent lists, and no
/// more.
#[tokio::test(flavor = "multi_thread")]
async fn stalled_readers_leave_lists_to_other_clients() {
    let world = World::start(Options { lists_max: 4, request_ms_max: 2000, ..Options::default() }).await;
    // The list is larger than the buffers of sockets and HTTP.
    let text = "x".repeat(512 << 10);
    for number in 0..48 {
        world.test.apply(demo("Note", &format!("n{number}"), json!({ "text": text }))).await;
    }
    let mut readers = Vec::new();
    for _ in 0..6 {
        let mut reader = world.send(GREEDY, "GET", "", "").await;
        // Two of them get a list. The others get the status to retry later.
        let mut status = [0; 12];
        reader.read_exact(&mut status).await.unwrap();
        readers.push((reader, status));
    }
    let lists = readers.iter().filter(|(_, status)| status.ends_with(b"200")).count();
    assert_eq!(lists, 2, "half of the concurrent lists");
    let answer = world.ask(MODEST, "GET", "").await;
    assert!(answer.starts_with("HTTP/1.1 200") && answer.len() > 24 << 20, "{}", &answer[..200]);
}

/// Connects from an address of this machine, requests `/livez`, and keeps the connection. Returns `None` if
/// the host closed it instead.
async fn connect(world: &World, from: &str) -> Option<TcpStream> {
    let address = world.served.address().to_string();
    let to = address.trim_start_matches("http://").parse().unwrap();
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(format!("{from}:0").parse().unwrap()).unwrap();
    let asked = async {
        let mut stream = socket.connect(to).await?;
        stream.write_all(format!("GET /livez HTTP/1.1\r\nHost: {to}\r\n\r\n").as_bytes()).await?;
        stream.read_exact(&mut [0; 12]).await?;
        std::io::Result::Ok(stream)
    };
    soon(asked).await.ok()
}

/// An address that opens as many connections as it can, and keeps them, does not get all of them.
#[tokio::test(flavor = "multi_thread")]
async fn one_address_cannot_take_all_connections() {
    let world = World::start(Options { connections_max: 18, ..Options::default() }).await;
    let mut kept = Vec::new();
    for _ in 0..30 {
        kept.extend(connect(&world, "127.0.0.1").await);
    }
    assert_eq!(kept.len(), 16, "eight ninths");
    let other = connect(&world, "127.0.0.2").await;
    assert!(other.is_some());
    kept.truncate(8);
    eventually("there is room again", || connect(&world, "127.0.0.1")).await;
}

/// Returns the median duration of a list plus a write of the modest client, in seconds. Panics if one is
/// refused.
async fn median_of_others(world: &World, round: &str) -> f64 {
    let mut seconds = Vec::new();
    for number in 0..20 {
        let begun = Instant::now();
        let written = world.write(MODEST, &format!("{round}-{number}")).await;
        let listed = world.ask_at(MODEST, "GET", &format!("{NOTES}?limit=1"), "").await;
        seconds.push(begun.elapsed().as_secs_f64());
        assert!(written.starts_with("HTTP/1.1 201"), "{round}: {written}");
        assert!(listed.starts_with("HTTP/1.1 200"), "{round}: {listed}");
    }
    seconds.sort_unstable_by(f64::total_cmp);
    seconds[seconds.len() / 2]
}

/// Slow bodies and slow readers refuse no request of another client, and do not slow it down by more than
/// chance on a busy machine. Rounds with and without them alternate. `docs/reliability.md` has the 99th
/// percentile.
#[tokio::test(flavor = "multi_thread")]
async fn slow_bodies_and_slow_readers_do_not_slow_other_clients() {
    let world = World::start(Options::default()).await;
    let text = "x".repeat(512 << 10);
    for number in 0..16 {
        world.test.apply(demo("Note", &format!("large-{number}"), json!({ "text": text }))).await;
    }
    let (mut quiet, mut beside) = (f64::MAX, f64::MAX);
    for round in 0..3 {
        quiet = quiet.min(median_of_others(&world, &format!("quiet-{round}")).await);
        let mut hostile = Vec::new();
        for _ in 0..40 {
            let headers = "Content-Type: application/json\r\nContent-Length: 2000000\r\n";
            hostile.push(world.send(GREEDY, "POST", headers, "{").await);
        }
        for _ in 0..70 {
            hostile.push(world.send(GREEDY, "GET", "", "").await);
        }
        beside = beside.min(median_of_others(&world, &format!("beside-{round}")).await);
    }
    assert!(beside < 10.0 * quiet + 0.1, "{beside} s with slow clients, {quiet} s without");
}
