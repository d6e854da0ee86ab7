//! FIFOs in the place of files, limits on the size of files, and files of another owner.

use std::path::Path;
use std::process::Command;

use homeostat_testing::eventually_blocking;
use homeostat_tests::{HostProcess, run};
use rustix::fs::{CWD, Mode};
use rustix::process::{Pid, Resource, Rlimit, prlimit};
use serde_json::json;

fn fifo(path: &Path) -> String {
    rustix::fs::mkfifoat(CWD, path, Mode::RUSR | Mode::WUSR).unwrap();
    path.display().to_string()
}

/// A FIFO without a writer would block whatever opens it, for ever and without a message.
#[test]
fn a_fifo_in_place_of_a_file_is_refused_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let (manifest, component, token) = (fifo(&path("manifest.yaml")), fifo(&path("guest.wasm")), fifo(&path("token")));
    let host = tempfile::tempdir().unwrap();
    let socket = format!("unix:{}", host.path().join("s").display());
    let running = HostProcess::start("run", host.path(), host.path(), &[]);
    let applied = running.ask(&["apply", "-f", &manifest]);
    assert!(applied.stderr.contains("it is a FIFO"), "{}", applied.stderr);
    running.terminate();
    for arguments in [
        ["inspect", component.as_str()].as_slice(),
        &["fsck", &component],
        &["restore", &component, &host.path().join("restored").display().to_string()],
        &["get", "pods", "--token-file", &token, "--server", &socket],
        &["get", "pods", "--certificate-authority", &token, "--server", "https://127.0.0.1:1"],
        &["run", &host.path().display().to_string(), "--tokens", &token, "--listen", &socket],
    ] {
        let output = run(arguments);
        assert!(output.code.is_some_and(|code| code != 0), "{arguments:?}");
        assert!(output.stderr.contains("it is a FIFO"), "{arguments:?}: {}", output.stderr);
    }
}

/// The system kills a process that writes beyond `RLIMIT_FSIZE`, unless the process ignores `SIGXFSZ`.
#[test]
fn a_limit_on_file_size_fails_writes_and_not_the_host_until_it_is_raised() {
    let folder = tempfile::tempdir().unwrap();
    let host = HostProcess::start("run", folder.path(), folder.path(), &[]);
    let namespace = |name: &str| {
        let path = folder.path().join("namespace.json");
        let document = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } });
        std::fs::write(&path, document.to_string()).unwrap();
        host.ask(&["apply", "-f", &path.display().to_string()])
    };
    assert_eq!(namespace("before").code, Some(0));
    let pid = Pid::from_raw(host.id().try_into().unwrap());
    prlimit(pid, Resource::Fsize, Rlimit { current: Some(4096), maximum: None }).unwrap();
    eventually_blocking("a write that fails", || (namespace("within").code != Some(0)).then_some(()));
    let read = host.ask(&["get", "namespaces", "-o", "name"]);
    assert!(read.code == Some(0) && read.stdout.contains("before"), "reads still work: {}", read.stderr);
    prlimit(pid, Resource::Fsize, Rlimit { current: None, maximum: None }).unwrap();
    eventually_blocking("writes to go on", || (namespace("after").code == Some(0)).then_some(()));
    let read = host.ask(&["get", "namespaces", "-o", "name"]);
    let is_there = |name: &str| read.stdout.contains(name);
    assert!(
        is_there("before") && is_there("after") && !is_there("within"),
        "a failed write left something: {}",
        read.stdout
    );
}

/// Another user could have written such a file, so the host does not trust it.
#[test]
fn a_token_file_of_another_user_is_refused() {
    if !rustix::process::geteuid().is_root() {
        // Only root can change the owner of a file.
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let tokens = folder.path().join("tokens.yaml");
    std::fs::write(&tokens, "- {name: a, token: sixteen-characters, access: write}\n").unwrap();
    assert!(Command::new("chmod").arg("600").arg(&tokens).status().unwrap().success());
    std::os::unix::fs::chown(&tokens, Some(12345), None).unwrap();
    let listen = format!("unix:{}", folder.path().join("s").display());
    let arguments = ["run", &folder.path().display().to_string(), "--tokens", &tokens.display().to_string()];
    let output = run(&[arguments.as_slice(), &["--listen", &listen]].concat());
    assert!(output.code.is_some_and(|code| code != 0) && output.stderr.contains("12345"), "{}", output.stderr);
}
