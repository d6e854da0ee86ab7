//! Requests to a server of these tests, one connection each, without an executor.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, ClientConnection, StreamOwned};

/// The limit of one read. A frozen server answers nothing.
const READ_BOUND: Duration = Duration::from_secs(30);

/// What a server answered.
#[derive(Debug)]
pub struct Answer {
    /// The HTTP status code.
    pub status: u16,
    /// The whole body.
    pub text: String,
}

impl Answer {
    /// Parses the body.
    ///
    /// # Panics
    /// When it is no JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// Sends a request in the clear to a server on this machine, with a JSON body. `None` if there is no whole answer.
pub fn ask_plain(port: u16, method: &str, path: &str, body: Option<&Value>) -> Option<Answer> {
    let body = body.map(Value::to_string).unwrap_or_default();
    Request { method, body: &body, ..Request::get(path) }.send(port)
}

/// As [`ask_plain`], with a token.
pub fn ask_plain_with(port: u16, token: &str, method: &str, path: &str, body: Option<&Value>) -> Option<Answer> {
    let body = body.map(Value::to_string).unwrap_or_default();
    Request { method, body: &body, token: Some(token), ..Request::get(path) }.send(port)
}

/// A request without its connection.
pub(super) struct Request<'a> {
    pub(super) method: &'a str,
    /// The path with the query.
    pub(super) path: &'a str,
    pub(super) token: Option<&'a str>,
    pub(super) content_type: &'a str,
    pub(super) body: &'a str,
}

impl<'a> Request<'a> {
    pub(super) fn get(path: &'a str) -> Self {
        Self { method: "GET", path, token: None, content_type: "application/json", body: "" }
    }

    /// Sends the request in the clear. `None` if there is no whole answer.
    pub(super) fn send(&self, port: u16) -> Option<Answer> {
        self.over(connection(port)?)
    }

    /// Sends the request through TLS. `None` if there is no whole answer.
    pub(super) fn send_tls(&self, port: u16, config: Arc<ClientConfig>) -> Option<Answer> {
        let name = ServerName::from(std::net::IpAddr::from(Ipv4Addr::LOCALHOST));
        let tls = ClientConnection::new(config, name).expect("the configuration is complete");
        self.over(StreamOwned::new(tls, connection(port)?))
    }

    /// HTTP 1.0 has no chunks: the answer ends with its connection.
    fn over(&self, mut connection: impl Read + Write) -> Option<Answer> {
        let Self { method, path, token, content_type, body } = self;
        let token = token.map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
        let head = format!(
            "{method} {path} HTTP/1.0\r\nHost: 127.0.0.1\r\n{token}Accept: application/json\r\n\
             Content-Type: {content_type}\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        connection.write_all(head.as_bytes()).ok()?;
        connection.write_all(body.as_bytes()).ok()?;
        connection.flush().ok()?;
        let mut answer = String::new();
        connection.read_to_string(&mut answer).ok()?;
        let (head, body) = answer.split_once("\r\n\r\n")?;
        let status = head.split(' ').nth(1)?.parse().ok()?;
        Some(Answer { status, text: body.to_owned() })
    }
}

fn connection(port: u16) -> Option<TcpStream> {
    let connection = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).ok()?;
    connection.set_read_timeout(Some(READ_BOUND)).ok()?;
    Some(connection)
}
