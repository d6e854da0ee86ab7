//! A TCP proxy on loopback between a client and a server, whose faults a test switches on and off.

use std::future::Future;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU16, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use homeostat_testing::eventually_blocking;
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::{mpsc, watch};
use tokio::task::AbortHandle;

/// The most bytes in one piece.
const PIECE_BYTES_MAX: usize = 16 * 1024;
/// The most pieces that wait in one direction of one connection.
const PIECES_MAX: usize = 1024;

/// What happens to the connections of a proxy, to those that are open and to new ones.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum NetworkFault {
    /// Nothing.
    None,
    /// Open connections are reset, and so is each new one.
    Reset,
    /// Connections are accepted and stay open, and nothing passes. It passes when the fault ends, as after a
    /// partition of a network.
    Partition,
    /// Everything arrives that much later, in both directions.
    Delay(Duration),
    /// That many bytes from the server pass, of all connections together. The connection of the next one is
    /// closed. Then the fault is over.
    CutAfter(u64),
    /// That many bytes from the server pass, of all connections together. The rest is lost, also when the fault is
    /// over, while the connections stay open until the server closes them. New connections are no better.
    StallAfter(u64),
}

/// What has passed a proxy since it was started.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Traffic {
    /// Connections of clients, those included that were reset at once.
    pub connections: u64,
    /// Connections that are open now.
    pub open: usize,
    /// Bytes that reached the server.
    pub bytes_to_server: u64,
    /// Bytes that reached clients.
    pub bytes_to_clients: u64,
    /// Connections that [`NetworkFault::CutAfter`] has closed, or on which [`NetworkFault::StallAfter`] has lost something.
    pub broken: u64,
}

/// A TCP proxy on a port of its own. Its connections are closed when this is dropped.
pub struct Proxy {
    port: u16,
    shared: Arc<Shared>,
    accepting: AbortHandle,
}

struct Shared {
    server: AtomicU16,
    fault: watch::Sender<NetworkFault>,
    /// The bytes that still pass under `CutAfter` and `StallAfter`.
    left: Mutex<u64>,
    connections: AtomicU64,
    open: AtomicUsize,
    bytes_to_server: AtomicU64,
    bytes_to_clients: AtomicU64,
    broken: AtomicU64,
}

impl Proxy {
    /// Starts a proxy to a port of loopback, without a fault.
    ///
    /// # Panics
    /// When no port is free.
    pub fn to(server: u16) -> Self {
        let shared = Arc::new(Shared {
            server: AtomicU16::new(server),
            fault: watch::Sender::new(NetworkFault::None),
            left: Mutex::new(0),
            connections: AtomicU64::default(),
            open: AtomicUsize::default(),
            bytes_to_server: AtomicU64::default(),
            bytes_to_clients: AtomicU64::default(),
            broken: AtomicU64::default(),
        });
        let for_connections = shared.clone();
        let (port, accepting) = listen(move |near| {
            let shared = for_connections.clone();
            shared.connections.fetch_add(1, Ordering::SeqCst);
            async move {
                let _open = OpenConnection::of(&shared.open);
                shared.carry(near).await
            }
        });
        Self { port, shared, accepting }
    }

    /// Returns its port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns `127.0.0.1:PORT`.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Sets the fault from now on. The bytes of [`NetworkFault::CutAfter`] and [`NetworkFault::StallAfter`] count from now on.
    pub fn set(&self, fault: NetworkFault) {
        if let NetworkFault::CutAfter(bytes) | NetworkFault::StallAfter(bytes) = fault {
            *self.shared.left.lock() = bytes;
        }
        self.shared.fault.send_replace(fault);
    }

    /// Leads new connections to another port.
    pub fn set_server(&self, port: u16) {
        self.shared.server.store(port, Ordering::SeqCst);
    }

    /// Returns what has passed so far.
    pub fn traffic(&self) -> Traffic {
        let Shared { server: _, fault: _, left: _, connections, open, bytes_to_server, bytes_to_clients, broken } =
            &*self.shared;
        Traffic {
            connections: connections.load(Ordering::SeqCst),
            open: open.load(Ordering::SeqCst),
            bytes_to_server: bytes_to_server.load(Ordering::SeqCst),
            bytes_to_clients: bytes_to_clients.load(Ordering::SeqCst),
            broken: broken.load(Ordering::SeqCst),
        }
    }

    /// Waits until `is_so` of the traffic.
    ///
    /// # Panics
    /// When it is not within a minute.
    pub fn wait_until(&self, what: &str, is_so: impl Fn(&Traffic) -> bool) {
        eventually_blocking(what, || is_so(&self.traffic()).then_some(()));
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
        self.set(NetworkFault::Reset);
    }
}

/// Counts a connection as open until it is dropped.
struct OpenConnection<'a>(&'a AtomicUsize);

impl<'a> OpenConnection<'a> {
    fn of(open: &'a AtomicUsize) -> Self {
        open.fetch_add(1, Ordering::SeqCst);
        Self(open)
    }
}

impl Drop for OpenConnection<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[derive(Clone, Copy, Eq, PartialEq)]
enum Direction {
    ToServer,
    ToClient,
}

/// What becomes of some bytes.
enum Passage {
    /// So many of them pass, and no fault hits the rest.
    Bytes(usize),
    /// So many of them pass, and the connection is closed.
    Cut(usize),
    /// So many of them pass, and nothing after them.
    Lost(usize),
}

impl Shared {
    /// Connects a client to the server, until both have closed or a fault closes the connection.
    async fn carry(&self, mut near: TcpStream) -> io::Result<()> {
        let server = SocketAddr::from((Ipv4Addr::LOCALHOST, self.server.load(Ordering::SeqCst)));
        let mut far = TcpStream::connect(server).await?;
        near.set_nodelay(true)?;
        far.set_nodelay(true)?;
        let ((near_read, near_write), (far_read, far_write)) = (near.split(), far.split());
        let to_server = self.copy(near_read, far_write, Direction::ToServer);
        let to_client = self.copy(far_read, near_write, Direction::ToClient);
        let mut fault = self.fault.subscribe();
        tokio::select! {
            ended = async { tokio::try_join!(to_server, to_client) } => return ended.map(drop),
            _ = fault.wait_for(|fault| *fault == NetworkFault::Reset) => {}
        }
        near.set_zero_linger()?;
        far.set_zero_linger()
    }

    /// Copies one direction until its end.
    async fn copy(&self, from: ReadHalf<'_>, to: WriteHalf<'_>, direction: Direction) -> io::Result<()> {
        let (pieces, waiting) = mpsc::channel(PIECES_MAX);
        tokio::try_join!(self.read(from, pieces), self.write(waiting, to, direction)).map(drop)
    }

    /// Reads pieces, each with the time at which it is due on the other side.
    async fn read(&self, mut from: ReadHalf<'_>, pieces: mpsc::Sender<(Instant, Vec<u8>)>) -> io::Result<()> {
        loop {
            let mut piece = Vec::with_capacity(PIECE_BYTES_MAX);
            if from.read_buf(&mut piece).await? == 0 {
                return Ok(());
            }
            let delay = if let NetworkFault::Delay(delay) = *self.fault.borrow() { delay } else { Duration::ZERO };
            if pieces.send((Instant::now() + delay, piece)).await.is_err() {
                return Ok(());
            }
        }
    }

    async fn write(
        &self,
        mut pieces: mpsc::Receiver<(Instant, Vec<u8>)>,
        mut to: WriteHalf<'_>,
        direction: Direction,
    ) -> io::Result<()> {
        let (mut fault, mut is_lost) = (self.fault.subscribe(), false);
        let passed = if direction == Direction::ToServer { &self.bytes_to_server } else { &self.bytes_to_clients };
        while let Some((due, piece)) = pieces.recv().await {
            tokio::time::sleep_until(due.into()).await;
            // The sender lives as long as `self`.
            drop(fault.wait_for(|fault| *fault != NetworkFault::Partition).await);
            let passage = if is_lost { Passage::Lost(0) } else { self.passage(piece.len(), direction) };
            let (Passage::Bytes(count) | Passage::Cut(count) | Passage::Lost(count)) = passage;
            to.write_all(&piece[..count]).await?;
            passed.fetch_add(u64::try_from(count).expect("it fits"), Ordering::SeqCst);
            match passage {
                Passage::Bytes(_) => {}
                Passage::Cut(_) => {
                    to.shutdown().await?;
                    return Err(io::ErrorKind::ConnectionAborted.into());
                }
                Passage::Lost(_) => is_lost = true,
            }
        }
        to.shutdown().await
    }

    /// Decides about bytes that are due, and takes them off the budget of a fault.
    fn passage(&self, length: usize, direction: Direction) -> Passage {
        let fault = *self.fault.borrow();
        if direction == Direction::ToServer || !matches!(fault, NetworkFault::CutAfter(_) | NetworkFault::StallAfter(_))
        {
            return Passage::Bytes(length);
        }
        let mut left = self.left.lock();
        let all = u64::try_from(length).expect("it fits");
        let passing = all.min(*left);
        *left -= passing;
        if passing == all {
            return Passage::Bytes(length);
        }
        self.broken.fetch_add(1, Ordering::SeqCst);
        let passing = usize::try_from(passing).expect("it is below the length");
        if matches!(fault, NetworkFault::StallAfter(_)) {
            return Passage::Lost(passing);
        }
        // Unless the test has set another one in between.
        self.fault.send_if_modified(|now| {
            *now == fault && {
                *now = NetworkFault::None;
                true
            }
        });
        Passage::Cut(passing)
    }
}

/// Listens on a free port, and runs `serve` for each connection. Returns the port, and what ends the listening.
pub(super) fn listen<F>(serve: impl Fn(TcpStream) -> F + Send + 'static) -> (u16, AbortHandle)
where
    F: Future<Output = io::Result<()>> + Send + 'static,
{
    let _inside = runtime().enter();
    let listener = listener().expect("a port is free");
    let port = listener.local_addr().expect("it listens").port();
    let accepting = runtime().spawn(async move {
        // An error is that of one connection.
        loop {
            if let Ok((near, _)) = listener.accept().await {
                tokio::spawn(serve(near));
            }
        }
    });
    (port, accepting.abort_handle())
}

fn listener() -> io::Result<TcpListener> {
    let socket = TcpSocket::new_v4()?;
    socket.bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
    socket.listen(1024)
}

/// Returns the runtime of all proxies of this process. It does not depend on a test, which may pause its clock.
fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        builder.worker_threads(1).enable_all().thread_name("proxies").build().expect("threads can be started")
    })
}
