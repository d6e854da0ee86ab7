//! Binds an address: a unix socket that only this user can open, a loopback port, or a TLS port for clients
//! with a token.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpSocket, UnixListener, UnixStream, lookup_host};

use crate::Address;
use crate::Error;
use crate::client::Client;

/// Connections that wait to be accepted; the kernel may allow fewer (`net.core.somaxconn`). Beyond them, a client tries again after
/// a second.
const BACKLOG: u32 = 4096;

/// A byte stream of a connection.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// A bound address.
pub(crate) enum Listener {
    Unix {
        listener: UnixListener,
        socket: Socket,
    },
    Tcp(TcpListener),
    /// Accepted streams still need the TLS handshake.
    Tls {
        listener: TcpListener,
        host: String,
    },
}

/// A socket file and its lock; dropping it removes the file.
pub(crate) struct Socket {
    path: PathBuf,
    /// Held, not read: of two hosts that start at once, only one may treat the socket as stale.
    _lock: File,
}

impl Listener {
    /// Binds an address. An address that other machines can reach needs TLS and tokens.
    pub(crate) async fn bind(address: &Address, has_tokens: bool) -> Result<Self, Error> {
        match address {
            Address::Unix(path) => bind_unix(path).await,
            Address::Tcp(number) if number.ip().is_loopback() => bind_tcp(address, &[*number]).map(Self::Tcp),
            Address::Tcp(number) => Err(Error::NotLoopback { address: *number }),
            Address::Tls { host, port } => {
                let found = lookup_host((host.as_str(), *port)).await;
                let failed = |source| Error::Bind { address: address.clone(), source };
                let numbers: Vec<SocketAddr> = found.map_err(failed)?.collect();
                if !has_tokens && !numbers.iter().all(|number| number.ip().is_loopback()) {
                    return Err(Error::NoTokens { address: address.clone() });
                }
                Ok(Self::Tls { listener: bind_tcp(address, &numbers)?, host: host.clone() })
            }
        }
    }

    /// Returns the bound address, with the port that the system chose for port 0.
    pub(crate) fn address(&self) -> io::Result<Address> {
        match self {
            Self::Unix { socket, .. } => Ok(Address::Unix(socket.path.clone())),
            Self::Tcp(listener) => listener.local_addr().map(Address::Tcp),
            Self::Tls { listener, host } => {
                listener.local_addr().map(|bound| Address::Tls { host: host.clone(), port: bound.port() })
            }
        }
    }

    /// Returns the next connection and its client.
    pub(crate) async fn accept(&self) -> io::Result<(Box<dyn Stream>, Client)> {
        match self {
            Self::Unix { listener, .. } => {
                let stream = listener.accept().await?.0;
                let client = stream.peer_cred().map_or(Client::Unknown, |peer| Client::User(peer.uid()));
                Ok((Box::new(stream), client))
            }
            Self::Tcp(listener) | Self::Tls { listener, .. } => {
                let (stream, peer) = listener.accept().await?;
                stream.set_nodelay(true)?;
                Ok((Box::new(stream), Client::at(peer.ip())))
            }
        }
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        // A file that is already gone needs no removal.
        drop(fs::remove_file(&self.path));
    }
}

/// Listens on the first of several addresses that is free.
fn bind_tcp(address: &Address, numbers: &[SocketAddr]) -> Result<TcpListener, Error> {
    let mut last = io::ErrorKind::AddrNotAvailable.into();
    for number in numbers {
        match listen_tcp(*number) {
            Ok(listener) => return Ok(listener),
            Err(error) => last = error,
        }
    }
    Err(match last.kind() {
        io::ErrorKind::AddrInUse => Error::InUse { address: address.clone() },
        _ => Error::Bind { address: address.clone(), source: last },
    })
}

fn listen_tcp(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // A host that starts again takes its port although connections of the last one still end.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

async fn bind_unix(path: &Path) -> Result<Listener, Error> {
    let failed = |source| Error::Bind { address: Address::Unix(path.into()), source };
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(failed)?;
    check_folder(folder, path)?;
    let lock = lock(path)?;
    remove_stale(path).await?;
    let hidden = PrivateSocket::bind(folder).map_err(failed)?;
    check_owner(folder, path, &hidden)?;
    let listener = hidden.publish(path).map_err(failed)?;
    Ok(Listener::Unix { listener, socket: Socket { path: path.into(), _lock: lock } })
}

/// A socket in a folder that only this user can enter. Between bind and chmod, the socket's mode depends on
/// the umask.
struct PrivateSocket {
    listener: UnixListener,
    path: PathBuf,
    folder: TempDir,
}

impl PrivateSocket {
    fn bind(folder: &Path) -> io::Result<Self> {
        // Short names, because the system limits the whole path to about a hundred bytes.
        let folder =
            tempfile::Builder::new().prefix(".").permissions(Permissions::from_mode(0o700)).tempdir_in(folder)?;
        let path = folder.path().join("s");
        let listener = UnixListener::bind(&path)?;
        fs::set_permissions(&path, Permissions::from_mode(0o600))?;
        Ok(Self { listener, path, folder })
    }

    /// Moves the socket to its path. From then on its user can connect.
    fn publish(self, path: &Path) -> io::Result<UnixListener> {
        let Self { listener, path: hidden, folder } = self;
        fs::rename(hidden, path)?;
        folder.close()?;
        Ok(listener)
    }
}

/// Refuses a folder in which other users could replace the socket by theirs.
fn check_folder(folder: &Path, socket: &Path) -> Result<(), Error> {
    let failed = |source| Error::Bind { address: Address::Unix(socket.into()), source };
    let mode = fs::metadata(folder).map_err(failed)?.mode();
    let (written_by_others, sticky) = (mode & 0o022 != 0, mode & 0o1000 != 0);
    if written_by_others && !sticky {
        return Err(Error::OpenFolder { folder: folder.into() });
    }
    Ok(())
}

/// Refuses a folder that another user owns. The owner of the new socket is this process's user.
fn check_owner(folder: &Path, socket: &Path, hidden: &PrivateSocket) -> Result<(), Error> {
    let failed = |source| Error::Bind { address: Address::Unix(socket.into()), source };
    let folder_owner = fs::metadata(folder).map_err(failed)?.uid();
    let own = fs::metadata(&hidden.path).map_err(failed)?.uid();
    if folder_owner == own || folder_owner == 0 { Ok(()) } else { Err(Error::OpenFolder { folder: folder.into() }) }
}

fn lock(path: &Path) -> Result<File, Error> {
    let failed = |source| Error::Bind { address: Address::Unix(path.into()), source };
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    let file = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(name).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(Error::InUse { address: Address::Unix(path.into()) }),
        Err(TryLockError::Error(source)) => Err(failed(source)),
    }
}

/// Removes the socket of a host that has ended. Any other file at the path stays and is an error.
async fn remove_stale(path: &Path) -> Result<(), Error> {
    let address = || Address::Unix(path.into());
    let found = match fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(source) => return Err(Error::Bind { address: address(), source }),
    };
    if !found.file_type().is_socket() {
        return Err(Error::NotASocket { path: path.into() });
    }
    if UnixStream::connect(path).await.is_ok() {
        return Err(Error::InUse { address: address() });
    }
    fs::remove_file(path).map_err(|source| Error::Bind { address: address(), source })
}

#[cfg(test)]
mod tests;
