//! One connection of HTTP/1.1 to a measured server, in the clear or in TLS.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context, Result};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Incoming};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::ServerName;

/// Where a server is, and who asks it.
#[derive(Clone)]
pub(crate) struct Endpoint {
    /// The address of its socket.
    pub(crate) address: SocketAddr,
    /// The authorities of its certificate; `None` for HTTP in the clear.
    pub(crate) trust: Option<Arc<ClientConfig>>,
    /// The bearer token of the client.
    pub(crate) token: Option<String>,
}

/// A socket, with TLS or without.
trait Socket: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Socket for S {}

type Traffic = http1::Connection<TokioIo<Box<dyn Socket>>, Full<Bytes>>;

/// One connection with sequential requests.
pub(crate) struct Connection {
    sender: SendRequest<Full<Bytes>>,
    /// Sends and receives while it is polled.
    traffic: Traffic,
    authorization: Option<String>,
}

impl Connection {
    /// Connects.
    ///
    /// # Errors
    /// The server cannot be reached, or its certificate is not one of those that the client trusts.
    pub(crate) async fn open(endpoint: &Endpoint) -> Result<Self> {
        let stream = TcpStream::connect(endpoint.address).await.context("the server cannot be reached")?;
        stream.set_nodelay(true)?;
        let socket: Box<dyn Socket> = match &endpoint.trust {
            None => Box::new(stream),
            Some(trust) => {
                let name = ServerName::from(endpoint.address.ip());
                Box::new(TlsConnector::from(Arc::clone(trust)).connect(name, stream).await?)
            }
        };
        let (sender, traffic) = http1::handshake(TokioIo::new(socket)).await?;
        let authorization = endpoint.token.as_ref().map(|token| format!("Bearer {token}"));
        Ok(Self { sender, traffic, authorization })
    }

    /// Sends a request and returns the response's status, without its body.
    ///
    /// # Errors
    /// The server ends the connection.
    pub(crate) async fn ask(&mut self, method: Method, path: &str, text: String) -> Result<StatusCode> {
        let answer = self.send(method, path, text).await?;
        let (status, mut body) = (answer.status(), answer.into_body());
        while !body.is_end_stream() && self.data(&mut body).await?.is_some() {}
        Ok(status)
    }

    /// Sends a request and returns the beginning of the response.
    ///
    /// # Errors
    /// The server ends the connection.
    pub(crate) async fn send(&mut self, method: Method, path: &str, text: String) -> Result<Response<Incoming>> {
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", "localhost")
            .header("content-type", "application/json");
        if let Some(authorization) = &self.authorization {
            request = request.header("authorization", authorization);
        }
        let request = request.body(Full::new(Bytes::from(text)))?;
        let answer = async {
            self.sender.ready().await?;
            self.sender.send_request(request).await
        };
        Ok(during(&mut self.traffic, answer).await??)
    }

    /// Reads the next chunk of a body; `None` at its end.
    ///
    /// # Errors
    /// The server ends the connection.
    pub(crate) async fn data(&mut self, body: &mut Incoming) -> Result<Option<Bytes>> {
        let frame = during(&mut self.traffic, body.frame()).await?.transpose()?;
        Ok(frame.and_then(|frame| frame.into_data().ok()))
    }
}

/// Polls the connection while waiting for `awaited`.
async fn during<T>(traffic: &mut Traffic, awaited: impl Future<Output = T>) -> Result<T> {
    tokio::select! {
        biased;
        outcome = awaited => Ok(outcome),
        end = traffic => Err(end.err().map_or_else(|| anyhow::anyhow!("the server ended the connection"), Into::into)),
    }
}
