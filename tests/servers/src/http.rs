//! Requests to a server of these tests, without an executor.

use std::io::{BufRead, BufReader, Read, Write};
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
    /// The type of the body; empty if the answer has none.
    pub content_type: String,
    /// The texts of the warnings.
    pub warnings: Vec<String>,
    /// The whole body. Bytes that are not UTF-8 are replaced.
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
    Request { method, body: body.as_bytes(), ..Request::get(path) }.send(port)
}

/// As [`ask_plain`], with a token.
pub fn ask_plain_with(port: u16, token: &str, method: &str, path: &str, body: Option<&Value>) -> Option<Answer> {
    let body = body.map(Value::to_string).unwrap_or_default();
    Request { method, body: body.as_bytes(), token: Some(token), ..Request::get(path) }.send(port)
}

/// A request without its connection. Nothing of it is checked.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The method, as `GET`.
    pub method: &'a str,
    /// The path with the query.
    pub path: &'a str,
    /// The bearer token, if there is one.
    pub token: Option<&'a str>,
    /// The type of the body; empty for no such header.
    pub content_type: &'a str,
    /// The accepted types; empty for no such header.
    pub accept: &'a str,
    /// The body, which may be any bytes.
    pub body: &'a [u8],
}

impl<'a> Request<'a> {
    /// Returns a request for a path, with types of JSON.
    pub fn get(path: &'a str) -> Self {
        let json = "application/json";
        Self { method: "GET", path, token: None, content_type: json, accept: json, body: b"" }
    }

    /// Sends the request in the clear to a server on this machine. `None` if there is no whole answer.
    pub fn send(&self, port: u16) -> Option<Answer> {
        self.over(connection(port)?)
    }

    /// Sends the request through TLS. `None` if there is no whole answer.
    pub(super) fn send_tls(&self, port: u16, config: Arc<ClientConfig>) -> Option<Answer> {
        self.over(secured(port, config)?)
    }

    /// HTTP 1.0 has no chunks: the answer ends with its connection.
    fn over(&self, mut connection: impl Read + Write) -> Option<Answer> {
        self.write(&mut connection, "1.0")?;
        let mut answer = Vec::new();
        let read = connection.read_to_end(&mut answer);
        let answer = String::from_utf8_lossy(&answer);
        let (head, body) = answer.split_once("\r\n\r\n").filter(|_| read.is_ok())?;
        Head(head).answer(body)
    }

    /// Writes the request, in a version of HTTP.
    fn write(&self, connection: &mut impl Write, version: &str) -> Option<()> {
        let Self { method, path, token, content_type, accept, body } = self;
        let header = |name: &str, value: &str| {
            if value.is_empty() { String::new() } else { format!("{name}: {value}\r\n") }
        };
        let token = token.map(|token| header("Authorization", &format!("Bearer {token}"))).unwrap_or_default();
        let head = format!(
            "{method} {path} HTTP/{version}\r\nHost: 127.0.0.1\r\n{token}{}{}Content-Length: {}\r\n\r\n",
            header("Accept", accept),
            header("Content-Type", content_type),
            body.len()
        );
        connection.write_all(head.as_bytes()).ok()?;
        // A server may refuse a long body before it has read it.
        drop(connection.write_all(body).and_then(|()| connection.flush()));
        Some(())
    }
}

/// The head of an answer, without the empty line at its end.
struct Head<'a>(&'a str);

impl Head<'_> {
    fn values(&self, wanted: &str) -> Vec<&str> {
        let headers = self.0.lines().filter_map(|line| line.split_once(": "));
        headers.filter(|(name, _)| name.eq_ignore_ascii_case(wanted)).map(|(_, value)| value).collect()
    }

    fn answer(&self, body: &str) -> Option<Answer> {
        let status = self.0.split(' ').nth(1)?.parse().ok()?;
        let content_type = self.values("content-type").first().copied().unwrap_or_default().to_owned();
        let warnings = self.values("warning").into_iter().map(str::to_owned).collect();
        Some(Answer { status, content_type, warnings, text: body.to_owned() })
    }
}

/// A connection in both directions.
trait Connection: Read + Write + Send {}

impl<C: Read + Write + Send> Connection for C {}

/// A client of one server, which sends one request after the other, and keeps its connection between them.
pub struct Client {
    port: u16,
    tls: Option<Arc<ClientConfig>>,
    connection: Option<BufReader<Box<dyn Connection>>>,
}

impl Client {
    /// Returns a client in the clear of a server on this machine.
    pub fn plain(port: u16) -> Self {
        Self { port, tls: None, connection: None }
    }

    /// Returns a client through TLS of a server on this machine.
    pub(super) fn secured(port: u16, config: Arc<ClientConfig>) -> Self {
        Self { tls: Some(config), ..Self::plain(port) }
    }

    /// Sends a request. `None` if there is no whole answer, also not on a new connection.
    pub fn send(&mut self, request: &Request<'_>) -> Option<Answer> {
        let is_kept = self.connection.is_some();
        // The server may have closed a connection that was kept.
        self.try_send(request).or_else(|| if is_kept { self.try_send(request) } else { None })
    }

    fn try_send(&mut self, request: &Request<'_>) -> Option<Answer> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => BufReader::new(self.connect()?),
        };
        request.write(connection.get_mut(), "1.1")?;
        let head = read_head(&mut connection)?;
        let head = Head(&head);
        let body = read_body(&mut connection, &head)?;
        let answer = head.answer(&String::from_utf8_lossy(&body));
        if !head.values("connection").iter().any(|value| value.eq_ignore_ascii_case("close")) {
            self.connection = Some(connection);
        }
        answer
    }

    fn connect(&self) -> Option<Box<dyn Connection>> {
        Some(match &self.tls {
            Some(config) => Box::new(secured(self.port, config.clone())?),
            None => Box::new(connection(self.port)?),
        })
    }
}

fn read_head(connection: &mut impl BufRead) -> Option<String> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        connection.read_line(&mut head).ok().filter(|count| *count > 0)?;
    }
    Some(head)
}

/// Reads a body of a known length, or of chunks.
fn read_body(connection: &mut impl BufRead, head: &Head<'_>) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    let mut read = |connection: &mut dyn BufRead, count: usize| {
        let start = body.len();
        body.resize(start + count, 0);
        connection.read_exact(&mut body[start..]).ok()
    };
    if !head.values("transfer-encoding").is_empty() {
        loop {
            let mut size = String::new();
            connection.read_line(&mut size).ok()?;
            let count = usize::from_str_radix(size.trim(), 16).ok()?;
            read(connection, count)?;
            connection.read_line(&mut size).ok()?;
            if count == 0 {
                return Some(body);
            }
        }
    }
    let length = head.values("content-length").first().and_then(|length| length.parse().ok()).unwrap_or(0);
    read(connection, length)?;
    Some(body)
}

fn secured(port: u16, config: Arc<ClientConfig>) -> Option<StreamOwned<ClientConnection, TcpStream>> {
    let name = ServerName::from(std::net::IpAddr::from(Ipv4Addr::LOCALHOST));
    let tls = ClientConnection::new(config, name).expect("the configuration is complete");
    Some(StreamOwned::new(tls, connection(port)?))
}

fn connection(port: u16) -> Option<TcpStream> {
    let connection = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).ok()?;
    connection.set_read_timeout(Some(READ_BOUND)).ok()?;
    // Otherwise the body waits until the server has acknowledged the head, which takes it 40 ms.
    connection.set_nodelay(true).ok()?;
    Some(connection)
}
