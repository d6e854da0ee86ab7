//! Guests that the toolchains of other languages build with their default flags. Sources and versions are in
//! `tests/toolchains`.
//!
//! The artifacts are in `target/tools/guests`, named by the digest of their inputs, and are built once.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use homeostat_component::Digest;
use homeostat_componentize::componentize;
use homeostat_servers::{node_tool, python_tool, repository};
/// Digits of the input digest in a file name.
const DIGITS: usize = 16;

/// Returns the component that componentize-py builds from `tests/toolchains/python`.
///
/// # Panics
/// When it cannot be built: it needs Python 3.10 or newer, and the registry of its packages.
pub fn python_guest() -> Vec<u8> {
    let (source, wit) = (place("python/app.py"), repository().join("wit"));
    made("python", &[&source, &place("requirements.txt"), &wit], |target| {
        // Python writes bytecode beside its sources.
        let folder = tempfile::tempdir().expect("folders can be made");
        fs::copy(&source, folder.path().join("app.py")).expect("files can be copied");
        let mut command = Command::new(python_tool("componentize-py"));
        command.arg("-d").arg(&wit).args(["-w", "controller", "componentize", "app", "-p"]).arg(folder.path());
        run(command.arg("-o").arg(target));
    })
}

/// Returns the component that componentize-js builds from `tests/toolchains/javascript`.
///
/// # Panics
/// When it cannot be built: it needs Node 20 or newer, and the registry of its packages.
pub fn javascript_guest() -> Vec<u8> {
    let (source, wit) = (place("javascript/app.js"), repository().join("wit"));
    made("javascript", &[&source, &place("javascript/package-lock.json"), &wit], |target| {
        let mut command = Command::new(node_tool("componentize-js"));
        command.arg(&source).args(["-n", "controller", "-w"]).arg(&wit);
        run(command.arg("-o").arg(target));
    })
}

/// Returns the component built from `tests/toolchains/c` with clang and wasi-libc.
///
/// # Panics
/// When it cannot be built: it needs Python 3.10 or newer, and the registry of its packages, which contains
/// such a clang.
pub fn c_guest() -> Vec<u8> {
    let source = place("c/guest.c");
    component(made("c", &[&source, &place("requirements.txt")], |target| {
        let mut command = Command::new(python_tool("python"));
        command.args(["-m", "ziglang", "cc", "-target", "wasm32-wasi", "-mexec-model=reactor", "-O1"]);
        run(command.arg(&source).arg("-o").arg(target));
    }))
}

/// Returns the component built from `tests/toolchains/go` with the ordinary Go and the preview 1 adapter.
///
/// # Panics
/// When it cannot be built: it needs Go 1.26 or newer.
pub fn go_guest() -> Vec<u8> {
    // Always runs Go: it decides itself whether to rebuild, and the installed version may have changed.
    let target = guests().join("go.wasm");
    let mut command = Command::new("go");
    command.args(["build", "-buildmode=c-shared", "-trimpath", "-o"]).arg(&target).current_dir(place("go"));
    run(command.env("GOOS", "wasip1").env("GOARCH", "wasm"));
    component(fs::read(&target).expect("it was built"))
}

/// Returns a path below the sources of these guests.
fn place(path: &str) -> PathBuf {
    repository().join("tests/toolchains").join(path)
}

/// Returns the component of a core module.
fn component(module: Vec<u8>) -> Vec<u8> {
    componentize(module, &repository().join("wit"), "controller").expect("the module fits the world")
}

/// Returns the artifact of `make` for these files and folders, and builds it if it does not exist yet.
fn made(name: &str, of: &[&Path], make: impl FnOnce(&Path)) -> Vec<u8> {
    let mut bytes = Vec::new();
    for path in of {
        read_all(path, &mut bytes);
    }
    let digest = Digest::of(&bytes).to_string();
    let (_, digits) = digest.split_once(':').expect("a digest has its algorithm before it");
    let target = guests().join(format!("{name}-{}.wasm", &digits[..DIGITS]));
    if !target.exists() {
        // Written atomically, even when two processes build it.
        let draft = guests().join(format!("{name}-{}-{}", &digits[..DIGITS], std::process::id()));
        make(&draft);
        fs::rename(&draft, &target).expect("files can be renamed");
    }
    fs::read(target).expect("it was built")
}

fn guests() -> PathBuf {
    let folder = repository().join("target/tools/guests");
    fs::create_dir_all(&folder).expect("folders can be made");
    folder
}

fn read_all(path: &Path, bytes: &mut Vec<u8>) {
    if path.is_file() {
        bytes.extend(fs::read(path).expect("it can be read"));
        return;
    }
    let mut entries: Vec<PathBuf> =
        fs::read_dir(path).expect("it can be read").map(|entry| entry.expect("it can be read").path()).collect();
    entries.sort();
    for entry in entries {
        bytes.extend(entry.as_os_str().as_encoded_bytes());
        read_all(&entry, bytes);
    }
}

fn run(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&said));
}
