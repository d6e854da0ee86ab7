//! Guests that the toolchains of other languages build with their default flags. Sources and versions stand in `tests/toolchains`.
//!
//! What is fetched and built lies in `target/tools`, under the digest of what it is made of, and is made once.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

use homeostat_component::Digest;
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

use crate::repository;

/// The interface of old that C compiles for, in terms of WASI 0.2.
const ADAPTER: &[u8] = wasi_preview1_component_adapter_provider::WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER;
const ADAPTER_NAME: &str = wasi_preview1_component_adapter_provider::WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME;
/// Digits of a digest that tell one build from another.
const DIGITS: usize = 16;

/// Returns the component that is made of `tests/toolchains/c` with clang and wasi-libc.
///
/// # Panics
/// When it cannot be built: it needs Python 3.10 or newer, and the registry of its packages, where such a clang is.
pub fn c_guest() -> PathBuf {
    let sources = sources("c");
    made("c", &[&sources, &repository().join("wit")], |target| {
        let core = target.with_extension("core");
        let mut command = Command::new(python_tool("python"));
        command.args(["-m", "ziglang", "cc", "-target", "wasm32-wasi", "-mexec-model=reactor", "-O1"]);
        run(command.arg(sources.join("guest.c")).arg("-o").arg(&core));
        fs::write(target, component(fs::read(&core).expect("it was built"))).expect("files can be written");
    })
}

fn sources(language: &str) -> PathBuf {
    repository().join("tests/toolchains").join(language)
}

/// Puts the type of the contract and the adapter around a core module, as `wasm-tools component new` does.
fn component(mut module: Vec<u8>) -> Vec<u8> {
    let mut resolve = Resolve::default();
    let (package, _) = resolve.push_dir(repository().join("wit")).expect("the contract can be read");
    let world = resolve.select_world(&[package], Some("controller")).expect("there is such a world");
    embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8).expect("it is a module");
    let mut encoder = ComponentEncoder::default();
    encoder.validate(true).module(&module).expect("the module fits the world");
    encoder.adapter(ADAPTER_NAME, ADAPTER).expect("the adapter fits the module");
    encoder.encode().expect("it is a component")
}

/// Returns what `make` made of these files and folders, making it where that did not happen yet.
fn made(name: &str, of: &[&Path], make: impl FnOnce(&Path)) -> PathBuf {
    let mut bytes = Vec::new();
    for path in of {
        read_all(path, &mut bytes);
    }
    let digest = Digest::of(&bytes).to_string();
    let (_, digits) = digest.split_once(':').expect("a digest has its algorithm before it");
    let folder = repository().join("target/tools/guests");
    let target = folder.join(format!("{name}-{}.wasm", &digits[..DIGITS]));
    if !target.exists() {
        fs::create_dir_all(&folder).expect("folders can be made");
        // Whole or not there, also where two processes make it.
        let draft = folder.join(format!("{name}-{}-{}", &digits[..DIGITS], std::process::id()));
        make(&draft);
        fs::rename(&draft, &target).expect("files can be renamed");
    }
    target
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

/// Returns a program of the Python packages that are pinned, and fetches them the first time.
fn python_tool(name: &str) -> PathBuf {
    static FETCHING: Mutex<()> = Mutex::new(());
    let _fetching = FETCHING.lock().expect("nobody panics while fetching");
    let requirements = repository().join("tests/toolchains/c/requirements.txt");
    let folder = fetched("c", &[&requirements], |folder| {
        run(Command::new("python3").args(["-m", "venv"]).arg(folder));
        run(Command::new(folder.join("bin/python")).args(["-m", "pip", "install", "-q", "-r"]).arg(&requirements));
    });
    folder.join("bin").join(name)
}

/// Returns the folder that `fetch` filled, letting it do so where it did not come to its end yet.
fn fetched(name: &str, of: &[&Path], fetch: impl FnOnce(&Path)) -> PathBuf {
    let mut bytes = Vec::new();
    for path in of {
        read_all(path, &mut bytes);
    }
    let digest = Digest::of(&bytes).to_string();
    let (_, digits) = digest.split_once(':').expect("a digest has its algorithm before it");
    let folder = repository().join("target/tools").join(format!("{name}-{}", &digits[..DIGITS]));
    let whole = folder.join("whole");
    if !whole.exists() {
        fs::create_dir_all(&folder).expect("folders can be made");
        fetch(&folder);
        fs::write(whole, "").expect("files can be written");
    }
    folder
}

fn run(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&said));
}
