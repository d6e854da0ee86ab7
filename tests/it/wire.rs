//! A TCP proxy between a client and a host, which tests cut.

use std::sync::Arc;

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// The state of the proxy.
#[derive(Clone, Copy, Default)]
struct State {
    /// The number of cuts. A connection ends when it changes.
    cuts: u32,
    /// New connections wait.
    is_held: bool,
}

/// A TCP proxy that cuts or holds the connections of clients to the host.
pub(crate) struct Wire {
    /// The address for clients.
    pub(crate) address: String,
    state: Arc<watch::Sender<State>>,
}

impl Wire {
    /// Starts a proxy for a host, given as `HOST:PORT`.
    pub(crate) async fn to(host: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let state = Arc::new(watch::Sender::new(State::default()));
        let seen = state.subscribe();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(carry(client, host.clone(), seen.clone()));
            }
        });
        Self { address, state }
    }

    /// Cuts all connections. New ones get through.
    pub(crate) fn cut(&self) {
        self.state.send_modify(|state| state.cuts += 1);
    }

    /// Cuts all connections, and holds new ones until [`Wire::release`].
    pub(crate) fn hold(&self) {
        self.state.send_modify(|state| *state = State { cuts: state.cuts + 1, is_held: true });
    }

    /// Lets waiting and new connections through.
    pub(crate) fn release(&self) {
        self.state.send_modify(|state| state.is_held = false);
    }
}

async fn carry(mut client: TcpStream, host: String, mut state: watch::Receiver<State>) {
    let Ok(State { cuts, .. }) = state.wait_for(|state| !state.is_held).await.map(|state| *state) else { return };
    let Ok(mut server) = TcpStream::connect(host).await else { return };
    tokio::select! {
        _ = copy_bidirectional(&mut client, &mut server) => {}
        _ = state.wait_for(|state| state.cuts != cuts) => {}
    }
}
