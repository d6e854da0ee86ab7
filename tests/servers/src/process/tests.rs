use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use homeostat_testing::eventually_blocking;

use super::Process;

/// What the helper process says before the ID of the server and its folder.
const STARTED: &str = "the server and its folder: ";

fn sleeper(folder: &Path) -> Process {
    let mut command = Command::new("sleep");
    command.arg("600");
    Process::start(command, &folder.join("log"), folder)
}

/// Returns whether a process is gone, or is only waited for.
fn is_dead(id: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{id}/stat")).map_or(true, |stat| stat.contains(") Z "))
}

#[test]
#[ignore = "it is run by `a_frozen_server_and_its_folder_go_with_a_killed_test_process`"]
fn a_process_starts_a_server_and_waits() {
    let folder = tempfile::tempdir().unwrap().keep();
    let server = sleeper(&folder);
    server.freeze();
    writeln!(std::io::stderr(), "\n{STARTED}{} {}", server.child.id(), folder.display()).unwrap();
    loop {
        std::thread::park();
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_frozen_server_and_its_folder_go_with_a_killed_test_process() {
    let mut test = Command::new(std::env::current_exe().unwrap());
    test.args(["--ignored", "--nocapture", "a_process_starts_a_server_and_waits"]);
    let mut test = test.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let said = BufReader::new(test.stderr.take().unwrap()).lines().map(Result::unwrap);
    let started = said.into_iter().find_map(|line| line.strip_prefix(STARTED).map(str::to_owned)).unwrap();
    let (id, folder) = started.split_once(' ').unwrap();
    let (id, folder) = (id.parse().unwrap(), PathBuf::from(folder));
    assert!(!is_dead(id) && folder.exists());

    test.kill().unwrap();
    test.wait().unwrap();
    eventually_blocking("the server to die", || is_dead(id).then_some(()));
    eventually_blocking("its folder to go", || (!folder.exists()).then_some(()));
}

#[test]
fn a_server_that_is_dropped_is_dead_and_its_folder_stays() {
    let folder = tempfile::tempdir().unwrap();
    let server = sleeper(folder.path());
    let id = server.child.id();
    drop(server);
    assert!(is_dead(id) && folder.path().exists());
}
