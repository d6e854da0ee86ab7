//! The proxy that loses, delays and counts bytes.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use homeostat_testing::eventually_blocking;
use homeostat_tests::{NetworkFault, Proxy};

/// A server that repeats what it is told.
fn echo() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut client in listener.incoming().flatten() {
            std::thread::spawn(move || std::io::copy(&mut client.try_clone().unwrap(), &mut client));
        }
    });
    port
}

fn connection(proxy: &Proxy) -> TcpStream {
    let connection = TcpStream::connect((Ipv4Addr::LOCALHOST, proxy.port())).unwrap();
    connection.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    connection
}

/// Sends a text through an echo. Returns what comes back until the connection ends, or all of it.
fn echoed(mut connection: &TcpStream, text: &str) -> Result<String, ErrorKind> {
    connection.write_all(text.as_bytes()).map_err(|error| error.kind())?;
    let mut back = Vec::new();
    let read = connection.take(u64::try_from(text.len()).unwrap()).read_to_end(&mut back);
    read.map(|_| String::from_utf8(back).unwrap()).map_err(|error| error.kind())
}

#[test]
fn a_proxy_without_a_fault_passes_everything_and_counts() {
    let proxy = Proxy::to(echo());
    let (one, two) = (connection(&proxy), connection(&proxy));
    assert_eq!(echoed(&one, "hello").unwrap(), "hello");
    assert_eq!(echoed(&two, "you").unwrap(), "you");
    let traffic = proxy.traffic();
    assert_eq!((traffic.connections, traffic.open, traffic.broken), (2, 2, 0));
    // The proxy counts a piece after it has passed it on.
    proxy.wait_until("8 bytes each way", |traffic| (traffic.bytes_to_server, traffic.bytes_to_clients) == (8, 8));
    drop(one);
    proxy.wait_until("a connection to end", |traffic| traffic.open == 1);
}

#[test]
fn a_proxy_resets_connections_until_the_fault_is_over() {
    let proxy = Proxy::to(echo());
    let open = connection(&proxy);
    assert_eq!(echoed(&open, "a").unwrap(), "a");
    proxy.set(NetworkFault::Reset);
    let is_broken = |at: &TcpStream| echoed(at, "b").is_ok_and(|back| back.is_empty()) || echoed(at, "b").is_err();
    eventually_blocking("the connection to be reset", || is_broken(&open).then_some(()));
    assert!(is_broken(&connection(&proxy)));
    proxy.set(NetworkFault::None);
    assert_eq!(echoed(&connection(&proxy), "c").unwrap(), "c");
}

#[test]
fn a_partition_holds_everything_back_until_it_is_over() {
    let proxy = Proxy::to(echo());
    proxy.set(NetworkFault::Partition);
    let connection = connection(&proxy);
    connection.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    assert_eq!(echoed(&connection, "a"), Err(ErrorKind::WouldBlock));
    assert_eq!(proxy.traffic().bytes_to_server, 0);
    connection.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    proxy.set(NetworkFault::None);
    assert_eq!((&connection).read(&mut [0; 8]).unwrap(), 1);
}

#[test]
fn a_proxy_delays_both_directions() {
    let proxy = Proxy::to(echo());
    let (delay, began) = (Duration::from_millis(50), Instant::now());
    proxy.set(NetworkFault::Delay(delay));
    assert_eq!(echoed(&connection(&proxy), "a").unwrap(), "a");
    assert!(began.elapsed() >= 2 * delay);
}

#[test]
fn a_proxy_cuts_one_answer_in_the_middle_and_the_next_one_passes() {
    let proxy = Proxy::to(echo());
    proxy.set(NetworkFault::CutAfter(3));
    assert_eq!(echoed(&connection(&proxy), "hello").unwrap(), "hel");
    assert_eq!(proxy.traffic().broken, 1);
    assert_eq!(proxy.traffic().bytes_to_server, 5);
    assert_eq!(echoed(&connection(&proxy), "hello").unwrap(), "hello");
}

#[test]
fn a_proxy_loses_the_rest_of_an_answer_for_good() {
    let proxy = Proxy::to(echo());
    proxy.set(NetworkFault::StallAfter(3));
    let stalled = connection(&proxy);
    (&stalled).write_all(b"hello").unwrap();
    (&stalled).read_exact(&mut [0; 3]).unwrap();
    proxy.wait_until("the answer to stall", |traffic| traffic.broken == 1);
    proxy.set(NetworkFault::None);
    stalled.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    assert_eq!(echoed(&stalled, "more"), Err(ErrorKind::WouldBlock));
    assert_eq!(echoed(&connection(&proxy), "hello").unwrap(), "hello");
}
