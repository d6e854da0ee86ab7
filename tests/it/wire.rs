//! A wire between a client and a host that tests cut.

use std::sync::Arc;

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// How the wire is.
#[derive(Clone, Copy, Default)]
struct State {
    /// Whoever sees another number is cut off.
    cuts: u32,
    /// Nobody gets through.
    is_held: bool,
}

/// Stands between a client and the host, and cuts all of their connections when asked.
pub(crate) struct Wire {
    /// Where clients find the host.
    pub(crate) address: String,
    state: Arc<watch::Sender<State>>,
}

impl Wire {
    /// Lays a wire to a host, `HOST:PORT`.
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

    /// Cuts all connections; new ones get through.
    pub(crate) fn cut(&self) {
        self.state.send_modify(|state| state.cuts += 1);
    }

    /// Cuts all connections, and lets nobody through until the wire is released.
    pub(crate) fn hold(&self) {
        self.state.send_modify(|state| *state = State { cuts: state.cuts + 1, is_held: true });
    }

    /// Lets those through that wait, and those that come.
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
