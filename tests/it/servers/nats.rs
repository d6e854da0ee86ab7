//! nats-server: alone and as three, with each kind of login.

use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use homeostat_testing::eventually_blocking;
use homeostat_tests::{Flush, Nats, NatsAccess, NatsCluster, NatsOptions, NatsUser, shared_nats};
use nkeys::KeyPair;
use serde_json::{Value, json};
use tokio_rustls::rustls::{ClientConnection, StreamOwned};

use super::is_refused;

/// A client of the NATS protocol.
struct NatsClient {
    connection: BufReader<TcpStream>,
    /// What the server said first.
    info: Value,
}

impl NatsClient {
    /// Opens a connection, and reads what the server says first.
    fn greeted(port: u16) -> Self {
        let connection = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
        connection.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let mut connection = BufReader::new(connection);
        let mut info = String::new();
        connection.read_line(&mut info).unwrap();
        let info = serde_json::from_str(info.strip_prefix("INFO ").unwrap()).unwrap();
        Self { connection, info }
    }

    /// Connects with these options besides the obligatory ones.
    fn connect(port: u16, options: &Value) -> Self {
        let mut client = Self::greeted(port);
        client.log_in(options);
        client
    }

    fn log_in(&mut self, options: &Value) {
        let mut all = json!({ "verbose": false, "pedantic": false, "headers": true, "no_responders": true });
        all.as_object_mut().unwrap().extend(options.as_object().unwrap().clone());
        self.say(&format!("CONNECT {all}\r\nPING\r\n"));
    }

    /// Connects with a signature of the server's nonce, and these options.
    fn signed(port: u16, seed: &str, mut options: Value) -> Self {
        let mut client = Self::greeted(port);
        let nonce = client.info["nonce"].as_str().unwrap().as_bytes();
        let signature = KeyPair::from_seed(seed).unwrap().sign(nonce).unwrap();
        options["sig"] = json!(URL_SAFE_NO_PAD.encode(signature));
        client.log_in(&options);
        client
    }

    /// Connects without options, and waits for the answer to a ping.
    fn open(port: u16) -> Self {
        let mut client = Self::connect(port, &json!({}));
        assert_eq!(client.line(), "PONG");
        client
    }

    fn say(&mut self, text: &str) {
        self.connection.get_mut().write_all(text.as_bytes()).unwrap();
    }

    fn line(&mut self) -> String {
        self.try_line().unwrap()
    }

    /// Returns the next line that is about the test, or the error when it does not come.
    fn try_line(&mut self) -> io::Result<String> {
        loop {
            let mut line = String::new();
            self.connection.read_line(&mut line)?;
            match line.trim_end() {
                "PING" => self.say("PONG\r\n"),
                // Another server of the cluster came or went.
                info if info.starts_with("INFO ") => {}
                other => return Ok(other.to_owned()),
            }
        }
    }

    fn request(&mut self, subject: &str, body: &str) -> Value {
        self.try_request(subject, body).unwrap()
    }

    /// Sends a request, and returns the body of the answer: null if nobody receives it.
    fn try_request(&mut self, subject: &str, body: &str) -> io::Result<Value> {
        self.say(&format!("SUB reply 1\r\nPUB {subject} reply {}\r\n{body}\r\n", body.len()));
        let head = self.try_line()?;
        let length = head.rsplit(' ').next().unwrap().parse().unwrap_or_else(|_| panic!("{head}"));
        let mut answer = vec![0; length];
        self.connection.read_exact(&mut answer)?;
        assert_eq!(self.try_line()?, "");
        self.say("UNSUB 1\r\n");
        if head.starts_with("HMSG ") {
            return Ok(Value::Null);
        }
        Ok(serde_json::from_slice(&answer).unwrap())
    }

    /// Makes a stream with the subjects `k.*`.
    fn make_stream(&mut self, replicas: u32) -> Value {
        let config = json!({ "name": "S", "subjects": ["k.*"], "storage": "file", "num_replicas": replicas });
        self.request("$JS.API.STREAM.CREATE.S", &config.to_string())
    }

    /// Adds a message to the stream, and returns its sequence.
    fn publish(&mut self) -> u64 {
        let answer = self.request("k.1", "{}");
        answer["seq"].as_u64().unwrap_or_else(|| panic!("{answer}"))
    }

    fn messages(&mut self) -> u64 {
        let answer = self.request("$JS.API.STREAM.INFO.S", "");
        answer["state"]["messages"].as_u64().unwrap_or_else(|| panic!("{answer}"))
    }
}

#[test]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
fn a_nats_server_answers_and_keeps_its_stream_and_port_when_it_is_killed() {
    let nats = Nats::start_with(NatsOptions { flush: Flush::Always, ..NatsOptions::default() });
    let mut client = NatsClient::open(nats.port());
    client.make_stream(1);
    assert_eq!([client.publish(), client.publish()], [1, 2]);
    assert_eq!(nats.monitor("/jsz")["messages"], 2);

    nats.server().kill();
    assert!(is_refused(nats.port()));
    nats.server().start();
    let mut client = NatsClient::open(nats.port());
    assert_eq!(client.messages(), 2);
    assert_eq!(client.publish(), 3);
}

#[test]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
fn a_frozen_server_accepts_connections_and_answers_nothing_until_it_is_thawed() {
    let nats = Nats::start();
    let mut client = NatsClient::open(nats.port());
    nats.server().freeze();
    client.say("PING\r\n");
    let silent = TcpStream::connect((Ipv4Addr::LOCALHOST, nats.port())).unwrap();
    silent.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    assert_eq!((&silent).read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
    nats.server().thaw();
    assert_eq!(client.line(), "PONG");
    silent.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    assert_eq!((&silent).read(&mut [0]).unwrap(), 1);
}

#[test]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
fn the_tests_of_a_process_share_one_nats_server() {
    let ports = [shared_nats(), shared_nats()].map(Nats::port);
    assert_eq!(ports[0], ports[1]);
    NatsClient::open(ports[0]);
}

#[test]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
fn nats_users_log_in_by_password_and_stay_within_their_permissions() {
    let publish = Some(vec!["allowed".to_owned()]);
    let users = vec![NatsUser::new("ann", "A"), NatsUser { publish, ..NatsUser::new("bob", "B") }];
    let nats = Nats::start_with(NatsOptions { access: NatsAccess::Passwords, users, ..NatsOptions::default() });
    assert!(NatsClient::connect(nats.port(), &json!({})).line().contains("Authorization Violation"));
    let login = |user: &str| json!({ "user": user, "pass": format!("password-of-{user}") });
    let mut ann = NatsClient::connect(nats.port(), &login("ann"));
    assert_eq!(ann.line(), "PONG");
    assert_eq!(ann.make_stream(1)["config"]["name"], "S");
    let mut bob = NatsClient::connect(nats.port(), &login("bob"));
    assert_eq!(bob.line(), "PONG");
    bob.say("PUB forbidden 0\r\n\r\n");
    assert!(bob.line().contains("Permissions Violation"));
}

#[test]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
fn nats_users_log_in_by_their_nkeys() {
    let users = vec![NatsUser::new("ann", "A")];
    let nats = Nats::start_with(NatsOptions { access: NatsAccess::Nkeys, users, ..NatsOptions::default() });
    let seed = nats.nkey_seed("ann");
    let key = KeyPair::from_seed(&seed).unwrap().public_key();
    let mut ann = NatsClient::signed(nats.port(), &seed, json!({ "nkey": key }));
    assert_eq!(ann.line(), "PONG");
    assert_eq!(ann.make_stream(1)["config"]["name"], "S");
}

#[test]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
fn nats_users_log_in_by_credentials_until_these_expire() {
    let subscribe = Some(vec!["reply".to_owned()]);
    let users = vec![NatsUser { subscribe, ..NatsUser::new("ann", "A") }];
    let nats = Nats::start_with(NatsOptions { access: NatsAccess::Credentials, users, ..NatsOptions::default() });
    let log_in = |lifetime| {
        let file = std::fs::read_to_string(nats.credentials("ann", lifetime)).unwrap();
        let lines: Vec<&str> = file.lines().collect();
        let after = |head: &str| lines[lines.iter().position(|line| line.contains(head)).unwrap() + 1];
        NatsClient::signed(nats.port(), after("BEGIN USER NKEY SEED"), json!({ "jwt": after("BEGIN NATS USER JWT") }))
    };
    let mut ann = log_in(None);
    assert_eq!(ann.line(), "PONG");
    assert_eq!(ann.make_stream(1)["config"]["name"], "S");
    ann.say("SUB other 2\r\n");
    assert!(ann.line().contains("Permissions Violation"));
    let mut shortly = log_in(Some(Duration::from_secs(2)));
    assert_eq!(shortly.line(), "PONG");
    assert!(shortly.line().contains("User Authentication Expired"));
}

#[test]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
fn a_nats_server_with_tls_has_a_certificate_of_its_authority() {
    let nats = Nats::start_with(NatsOptions { tls: true, ..NatsOptions::default() });
    let NatsClient { connection, info } = NatsClient::greeted(nats.port());
    assert_eq!(info["tls_required"], true);
    let tls = ClientConnection::new(nats.authority().client_config(), "localhost".try_into().unwrap()).unwrap();
    let mut connection = BufReader::new(StreamOwned::new(tls, connection.into_inner()));
    connection.get_mut().write_all(b"CONNECT {\"verbose\":false}\r\nPING\r\n").unwrap();
    let mut line = String::new();
    connection.read_line(&mut line).unwrap();
    assert_eq!(line, "PONG\r\n");
}

#[test]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
fn the_store_of_a_nats_server_has_the_size_that_a_test_wants() {
    let nats = Nats::start_with(NatsOptions { stored_bytes_max: Some(4096), ..NatsOptions::default() });
    let mut client = NatsClient::open(nats.port());
    client.make_stream(1);
    let body = format!("\"{}\"", "x".repeat(3000));
    assert_eq!(client.request("k.1", &body)["seq"], 1);
    // The server looks at the sum before it adds a message.
    let refused = (0..2).map(|_| client.request("k.1", &body)).last().unwrap();
    assert_eq!(refused["error"]["code"], 503, "{refused}");
}

/// Sends a message by a connection of its own, and returns its sequence if an answer comes within a second.
///
/// A server passes a message to a leader that has just died, and nobody answers.
fn publish_at(port: u16) -> Option<u64> {
    let mut client = NatsClient::open(port);
    client.connection.get_ref().set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    client.try_request("k.1", "{}").ok()?["seq"].as_u64()
}

#[test]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
fn a_nats_cluster_keeps_a_stream_of_three_replicas_when_its_leader_is_killed() {
    let cluster = NatsCluster::start();
    let port = cluster.servers()[0].port();
    let made = NatsClient::open(port).make_stream(3);
    let leader = made["cluster"]["leader"].as_str().unwrap_or_else(|| panic!("{made}"));
    // A server may learn a moment later that the leader takes messages.
    let first = eventually_blocking("the leader to take a message", || publish_at(port));
    let survivor = cluster.servers().iter().find(|nats| nats.name() != leader).unwrap();
    cluster.server(leader).server().kill();
    let second = eventually_blocking("another leader to take a message", || publish_at(survivor.port()));
    assert!(second > first, "{second} after {first}");
}
