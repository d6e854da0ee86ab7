//! The order of the functions in a program, for its build script: functions that hosts run stand together.
//!
//! The system maps a program's file in windows of 64 KiB. The functions that an idle host has run are a tenth of the program,
//! but in the order of the crates they lie in half of the windows.
//!
//! Deliberately absent: measuring. `functions.txt` is data, which `record.sh` makes.

mod functions;
mod link_map;
mod trace;

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::{env, fs};

pub use self::functions::list_of;
pub use self::link_map::LinkMap;
pub use self::trace::functions_run;

/// The functions that hosts run.
const FUNCTIONS: &str = include_str!("../functions.txt");

/// Tells cargo to link the programs of the package in the order of `functions.txt`. To be called by a build script.
///
/// This only applies to releases for Linux that rustc links with LLD. Other linkers get no order.
///
/// # Panics
/// If cargo's variables are missing, or its folder for outputs cannot be written.
#[expect(clippy::disallowed_methods, clippy::print_stdout, reason = "cargo and build scripts talk in this way alone")]
pub fn order_functions() {
    let variable = |name: &str| env::var(name).unwrap_or_default();
    println!("cargo::rerun-if-changed=build.rs");
    if variable("PROFILE") != "release"
        || variable("TARGET") != variable("HOST")
        || !variable("TARGET").contains("-linux-")
    {
        return;
    }
    let folder = env::var_os("OUT_DIR").expect("cargo sets it");
    let folder = Path::new(&folder);
    if !links_with_lld(&variable("RUSTC"), &variable("RUSTC_LINKER"), &variable("CARGO_ENCODED_RUSTFLAGS"), folder) {
        return;
    }
    let script = folder.join("functions.ld");
    fs::write(&script, functions::linker_script(FUNCTIONS)).expect("the folder can be written");
    println!("cargo::rustc-link-arg-bins=-T{}", script.display());
}

/// Returns whether `rustc` would link a program with LLD. Its linker is cargo's setting, or empty, and its flags are
/// separated as cargo does.
fn links_with_lld(rustc: &str, linker: &str, flags: &str, folder: &Path) -> bool {
    let mut command = Command::new(rustc);
    let program = folder.join("probe");
    command.args(["--crate-name", "probe", "--print", "link-args", "-o"]).arg(&program);
    command.args(flags.split('\x1f').filter(|flag| !flag.is_empty()));
    if !linker.is_empty() {
        command.arg(format!("-Clinker={linker}"));
    }
    let child = command.arg("-").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
    let Ok(mut child) = child else { return false };
    let written = child.stdin.take().is_some_and(|mut source| source.write_all(b"fn main() {}").is_ok());
    let output = child.wait_with_output();
    // It may be missing.
    drop(fs::remove_file(program));
    let linked = output.ok().filter(|output| written && output.status.success());
    linked.is_some_and(|output| String::from_utf8_lossy(&output.stdout).contains("-fuse-ld=lld"))
}
