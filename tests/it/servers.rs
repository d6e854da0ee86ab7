//! The harness of real servers itself: they start, answer and keep their data, and the faults are those that a test
//! asks for.

mod cluster;
mod nats;
mod proxy;

use std::io::ErrorKind;
use std::net::{Ipv4Addr, TcpStream};

fn is_refused(port: u16) -> bool {
    TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
}
