//! Secrets of the host go into the headers that grants name, and appear nowhere else.

use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::mpsc;

use homeostat_testing::eventually_blocking;
use homeostat_tests::{HostProcess, guest};
use tempfile::TempDir;

/// Starts a site that answers 204. Returns its address, and the header `authorization` of each request.
fn site() -> (SocketAddr, mpsc::Receiver<Option<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (send, received) = mpsc::sync_channel(1024);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, mut request) = (stream.unwrap(), [0; 4096]);
            let Ok(read) = stream.read(&mut request) else { continue };
            let text = String::from_utf8_lossy(&request[..read]).into_owned();
            let header = text.lines().find_map(|line| line.strip_prefix("authorization: ").map(str::to_owned));
            drop(stream.write_all(b"HTTP/1.1 204 x\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"));
            if send.send(header).is_err() {
                return;
            }
        }
    });
    (address, received)
}

fn keep(folder: &Path, secret: &str) {
    let file = folder.join("site-token.new");
    fs::write(&file, format!("{secret}\n")).unwrap();
    fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
    fs::rename(file, folder.join("site-token")).unwrap();
}

fn manifests(folder: &Path, address: SocketAddr) {
    let text = format!(
        r#"apiVersion: homeostat.dev/v1alpha1
kind: Controller
metadata: {{name: uptime}}
spec:
  component: {{file: {component}}}
  grants:
    resources: [{{kinds: [demo.homeostat.dev/Monitor], verbs: [get, list, watch, update-status], namespaces: ["*"]}}]
    http: [{{urls: ["http://{address}/*"], methods: [GET], addresses: [loopback], headers: {{authorization: {{secret: site-token}}}}}}]
  backoff: {{base: 20ms, max: 100ms}}
---
apiVersion: demo.homeostat.dev/v1
kind: Monitor
metadata: {{name: site, namespace: default}}
spec: {{url: "http://{address}/", every: 100ms, timeout: 2s, expectStatus: 204}}
"#,
        component = guest("uptime").display()
    );
    fs::write(folder.join("all.yaml"), text).unwrap();
}

#[test]
fn a_secret_reaches_the_granted_site_in_its_newest_version_and_is_never_shown() {
    let scratch = TempDir::new().unwrap();
    let (folder, secrets) = (scratch.path().join("manifests"), scratch.path().join("secrets"));
    fs::create_dir(&folder).unwrap();
    fs::create_dir(&secrets).unwrap();
    let (address, received) = site();
    manifests(&folder, address);
    let host = HostProcess::start("run", &folder, scratch.path(), &["--secrets", secrets.to_str().unwrap()]);

    let until = |arguments: &[&str], wanted: &str| {
        eventually_blocking(wanted, || {
            let seen = host.ask(arguments).stdout;
            seen.contains(wanted).then_some(seen)
        })
    };
    let told = until(&["get", "events", "-A", "-o", "json"], "SecretMissing");
    assert!(told.contains("site-token"), "the event names the secret: {told}");
    until(&["logs", "uptime"], "the host has no secret \"site-token\"");

    keep(&secrets, "Bearer one-7431");
    assert_eq!(received.recv().unwrap().as_deref(), Some("Bearer one-7431"), "no request was sent without the secret");
    keep(&secrets, "Bearer two-7431");
    while received.recv().unwrap().as_deref() != Some("Bearer two-7431") {}

    for arguments in [
        &["get", "events", "-A", "-o", "yaml"][..],
        &["get", "monitors", "-A", "-o", "yaml"],
        &["logs", "uptime"],
        &["describe", "controller", "uptime"],
        &["queue", "uptime", "-o", "yaml"],
    ] {
        let seen = host.ask(arguments);
        assert!(!format!("{seen:?}").contains("7431"), "{arguments:?}: {seen:?}");
    }
    assert!(!host.stderr().contains("7431"), "{}", host.stderr());
}

#[test]
fn a_missing_secrets_folder_is_reported_at_the_start_and_used_once_it_exists() {
    let scratch = TempDir::new().unwrap();
    let (folder, secrets) = (scratch.path().join("manifests"), scratch.path().join("secrets"));
    fs::create_dir(&folder).unwrap();
    let (address, received) = site();
    manifests(&folder, address);
    let host = HostProcess::start("run", &folder, scratch.path(), &["--secrets", secrets.to_str().unwrap()]);
    assert!(
        host.stderr().contains(&format!("the secrets folder {} does not exist", secrets.display())),
        "{}",
        host.stderr()
    );
    fs::create_dir(&secrets).unwrap();
    keep(&secrets, "Bearer late");
    assert_eq!(received.recv().unwrap().as_deref(), Some("Bearer late"));
}
