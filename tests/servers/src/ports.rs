//! Ports for servers that have to be told one, and that keep it when they are started again.

use std::net::{Ipv4Addr, SocketAddr};

use tokio::net::TcpSocket;

/// A TCP port of the loopback address that no other process gets while this value lives.
///
/// Its socket is bound and never listens. So Linux gives the port to nobody who asks for any port, neither to a
/// listener nor to a connection, but lets a server listen on it that names it and sets `SO_REUSEADDR`, as every
/// server in Go does. While no server listens, connections are refused.
pub(super) struct ReservedPort {
    number: u16,
    _socket: TcpSocket,
}

impl ReservedPort {
    /// Reserves a free port.
    pub(super) fn new() -> Self {
        let socket = TcpSocket::new_v4().expect("sockets can be made");
        socket.set_reuseaddr(true).expect("it is a TCP socket");
        socket.bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).expect("a port is free");
        let number = socket.local_addr().expect("it is bound").port();
        Self { number, _socket: socket }
    }

    pub(super) fn number(&self) -> u16 {
        self.number
    }

    /// Returns `127.0.0.1:PORT`.
    pub(super) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.number)
    }
}
