//! The permissions of the files that a host writes: other users have no access.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use homeostat_testing::eventually_blocking;
use homeostat_tests::{HostProcess, guest, repository, run_with_open_umask};

/// Returns the files and folders at a path and below it that other users have access to.
fn open_to_others(path: &Path) -> Vec<PathBuf> {
    let found = path.symlink_metadata().unwrap();
    let is_open = found.permissions().mode() & 0o077 != 0;
    let mut open: Vec<PathBuf> = is_open.then(|| path.to_owned()).into_iter().collect();
    if found.is_dir() {
        open.extend(fs::read_dir(path).unwrap().flat_map(|entry| open_to_others(&entry.unwrap().path())));
    }
    open
}

fn assert_closed(path: &Path) {
    let open = open_to_others(path);
    assert!(open.is_empty(), "{open:?}");
}

#[test]
fn files_of_the_host_are_private_to_its_owner_under_any_umask() {
    let (folder, scratch) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::copy(guest("greeter"), folder.path().join("greeter.wasm")).unwrap();
    fs::copy(repository().join("examples/greeter/greeter.yaml"), folder.path().join("greeter.yaml")).unwrap();
    let data = scratch.path().join("data");
    let host = HostProcess::start_with_open_umask("run", folder.path(), scratch.path(), &[]);
    eventually_blocking("all files to be written", || {
        let said = host.ask(&["get", "greetings", "-o", "name"]).stdout;
        (said.contains("world") && data.join("compiled").is_dir()).then_some(())
    });
    for kept in ["store.redb", "components", "compiled"] {
        assert!(data.join(kept).exists(), "{kept}");
    }
    assert_closed(&data);
    assert_closed(&scratch.path().join("host.sock"));
    let saved = scratch.path().join("saved.backup");
    let server = format!("unix:{}", scratch.path().join("host.sock").display());
    let made = run_with_open_umask(&["backup", saved.to_str().unwrap(), "--server", &server]);
    assert_eq!(made.code, Some(0), "{made:?}");
    assert_closed(&saved);
    host.kill();

    let restored = scratch.path().join("restored");
    let made =
        run_with_open_umask(&["restore", saved.to_str().unwrap(), restored.join("store.redb").to_str().unwrap()]);
    assert_eq!(made.code, Some(0), "{made:?}");
    assert_closed(&restored);

    // Earlier versions of the host left such permissions.
    for (path, mode) in [("components", 0o755), ("store.redb", 0o644), ("", 0o755)] {
        fs::set_permissions(data.join(path), Permissions::from_mode(mode)).unwrap();
    }
    let host = HostProcess::start_with_open_umask("run", folder.path(), scratch.path(), &[]);
    assert_closed(&data);
    host.wait_for_stderr("their access was removed");
}
