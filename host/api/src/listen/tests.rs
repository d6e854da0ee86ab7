use std::time::Duration;

use super::*;

fn socket_in(folder: &tempfile::TempDir) -> PathBuf {
    folder.path().join("private").join("host.sock")
}

#[tokio::test]
async fn a_socket_is_private_and_removed_in_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let path = socket_in(&folder);
    let listener = Listener::bind(&Address::Unix(path.clone()), false).await.unwrap();
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
    assert_eq!(fs::metadata(path.parent().unwrap()).unwrap().mode() & 0o777, 0o700);
    drop(listener);
    assert!(!path.exists());
}

#[tokio::test]
async fn a_socket_has_no_name_before_it_is_private() {
    let folder = tempfile::tempdir().unwrap();
    let hidden = PrivateSocket::bind(folder.path()).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
    assert_eq!((mode(&hidden.path), mode(hidden.folder.path())), (0o600, 0o700));
    let path = folder.path().join("host.sock");
    let listener = hidden.publish(&path).unwrap();
    let (connected, accepted) = tokio::join!(UnixStream::connect(&path), listener.accept());
    assert!(connected.is_ok() && accepted.is_ok());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing but the socket is left");
}

#[tokio::test]
async fn socket_is_bound_in_a_private_folder() {
    let folder = tempfile::tempdir().unwrap();
    let path = socket_in(&folder);
    let Listener::Unix { listener, .. } = Listener::bind(&Address::Unix(path.clone()), false).await.unwrap() else {
        panic!("not a socket")
    };
    let bound = listener.local_addr().unwrap().as_pathname().unwrap().to_owned();
    assert_ne!(bound.parent(), path.parent(), "its folder is one of its own");
    assert!(!bound.exists());
}

#[tokio::test]
async fn a_socket_of_a_living_host_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let address = Address::Unix(socket_in(&folder));
    let _first = Listener::bind(&address, false).await.unwrap();
    assert!(matches!(Listener::bind(&address, false).await, Err(Error::InUse { .. })));
}

#[tokio::test]
async fn a_socket_that_another_program_answers_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("host.sock");
    let _other = UnixListener::bind(&path).unwrap();
    assert!(matches!(Listener::bind(&Address::Unix(path), false).await, Err(Error::InUse { .. })));
}

#[tokio::test]
async fn a_stale_socket_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("host.sock");
    drop(UnixListener::bind(&path).unwrap());
    assert!(path.exists());
    Listener::bind(&Address::Unix(path), false).await.unwrap();
}

#[tokio::test]
async fn a_file_in_the_place_of_the_socket_stays() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("host.sock");
    fs::write(&path, "precious").unwrap();
    assert!(matches!(Listener::bind(&Address::Unix(path.clone()), false).await, Err(Error::NotASocket { .. })));
    assert_eq!(fs::read_to_string(path).unwrap(), "precious");
}

#[tokio::test]
async fn a_folder_that_others_write_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), Permissions::from_mode(0o777)).unwrap();
    let result = Listener::bind(&Address::Unix(folder.path().join("host.sock")), false).await;
    assert!(matches!(result, Err(Error::OpenFolder { .. })));
}

#[tokio::test]
async fn port_that_other_machines_reach_is_refused_with_a_remedy() {
    for (address, has_tokens, message) in [
        ("0.0.0.0:0", false, "use https://0.0.0.0:0 with `--tokens FILE`"),
        ("0.0.0.0:0", true, "use https://0.0.0.0:0 with `--tokens FILE`"),
        ("https://0.0.0.0:0", false, "set `--tokens FILE`"),
    ] {
        let Err(error) = Listener::bind(&address.parse().unwrap(), has_tokens).await else { panic!("it listens") };
        assert!(error.to_string().contains(message), "{error}");
    }
}

#[tokio::test]
async fn a_port_that_other_machines_reach_is_served_in_tls_where_there_are_tokens() {
    let listener = Listener::bind(&"https://0.0.0.0:0".parse().unwrap(), true).await.unwrap();
    let Address::Tls { host, port } = listener.address().unwrap() else { panic!("not in TLS") };
    assert_eq!(host, "0.0.0.0");
    assert_ne!(port, 0);
}

#[tokio::test]
async fn a_listener_reports_the_port_that_the_system_chose() {
    let listener = Listener::bind(&"127.0.0.1:0".parse().unwrap(), false).await.unwrap();
    let Address::Tcp(address) = listener.address().unwrap() else { panic!("not a port") };
    assert_ne!(address.port(), 0);
}

/// Many clients connect at once after a restart.
#[tokio::test]
async fn hundreds_of_connections_wait_to_be_accepted() {
    let allowed: usize = fs::read_to_string("/proc/sys/net/core/somaxconn").unwrap().trim().parse().unwrap();
    let listener = listen_tcp("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = listener.local_addr().unwrap();
    let connect = |_| std::net::TcpStream::connect_timeout(&address, Duration::from_secs(10)).unwrap();
    let waiting: Vec<_> = (0..allowed.min(600)).map(connect).collect();
    assert_eq!(waiting.len(), allowed.min(600));
}
