//! How a release is linked, for the build script of its program, so that few pages of the program are in memory: functions that
//! hosts run stand together, and relocations are packed.
//!
//! The system maps a program's file in windows of 64 KiB. The functions that an idle host has run are a tenth of the program,
//! but in the order of the crates they lie in half of the windows. The loader reads all relocations at each start.
//!
//! Deliberately absent: measuring. `functions.txt` is data, which `record.sh` makes.

mod functions;
mod link_map;
mod linker;
mod trace;

use std::path::{Path, PathBuf};
use std::{env, fs};

pub use self::functions::write_list;
pub use self::link_map::LinkMap;
use self::linker::Linker;
pub use self::trace::parse_trace;

/// The functions that hosts run.
const FUNCTIONS: &str = include_str!("../functions.txt");
/// With the value `no`, a release has the linker's own order.
const SWITCH: &str = "HOMEOSTAT_ORDERFILE";
/// With the value `no`, a release has a whole entry for each relocation, so that older C libraries can load it.
const PACKED_SWITCH: &str = "HOMEOSTAT_PACKED_RELOCATIONS";
/// The argument with which a linker packs relative relocations (`DT_RELR`). glibc loads them from version 2.36 on.
const PACKED: &str = "-Wl,-z,pack-relative-relocs";

/// Returns the instructions that a build script prints, so that cargo links the programs of its package in the order of
/// `functions.txt`, with packed relocations.
///
/// Both apply to a release for the machine that builds it, if that has Linux: the order if LLD links a program with the script,
/// and packed relocations if a program with them runs. Everything else is linked as before.
///
/// # Panics
/// If the caller is no build script, or cargo's folder for outputs cannot be written.
#[expect(clippy::disallowed_methods, reason = "cargo tells a build script everything by its environment")]
pub fn instructions() -> Vec<String> {
    let variable = |name: &str| env::var(name).unwrap_or_default();
    let (target, folder) = (variable("TARGET"), PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it")));
    let mut instructions = vec![
        "rerun-if-changed=build.rs".to_owned(),
        format!("rerun-if-env-changed={SWITCH}"),
        format!("rerun-if-env-changed={PACKED_SWITCH}"),
        format!("rerun-if-env-changed=CARGO_TARGET_{}_LINKER", target.replace(['-', '.'], "_").to_uppercase()),
    ];
    // Another linker may be set there. Cargo would run the script with each build for a file that is missing.
    let home = PathBuf::from(variable("CARGO_HOME")).join("config.toml");
    let package = PathBuf::from(variable("CARGO_MANIFEST_DIR"));
    let configurations = package.ancestors().map(|folder| folder.join(".cargo/config.toml")).chain([home]);
    let existing = configurations.filter(|file| file.is_absolute() && file.is_file());
    instructions.extend(existing.map(|file| format!("rerun-if-changed={}", file.display())));

    let is_release = variable("PROFILE") == "release" && target == variable("HOST") && target.contains("-linux-");
    if is_release {
        let flags = variable("CARGO_ENCODED_RUSTFLAGS");
        let linker = Linker {
            rustc: variable("RUSTC").into(),
            program: Some(variable("RUSTC_LINKER")).filter(|program| !program.is_empty()),
            flags: flags.split('\x1f').filter(|flag| !flag.is_empty()).map(str::to_owned).collect(),
        };
        let order = (variable(SWITCH) != "no").then(|| script_argument(&linker, &folder)).flatten();
        let is_packed = variable(PACKED_SWITCH) != "no" && linker.links_running_programs(PACKED, &folder);
        let arguments = order.into_iter().chain(is_packed.then(|| PACKED.to_owned()));
        instructions.extend(arguments.map(|argument| format!("rustc-link-arg-bins={argument}")));
    }
    instructions.iter().map(|instruction| format!("cargo::{instruction}")).collect()
}

/// Writes the linker script to a folder, and returns the argument that applies it. `None` if the linker is not LLD.
fn script_argument(linker: &Linker, folder: &Path) -> Option<String> {
    let script = folder.join("functions.ld");
    fs::write(&script, functions::linker_script(FUNCTIONS)).expect("the folder can be written");
    let argument = format!("-T{}", script.display());
    linker.is_lld(&argument, folder).then_some(argument)
}
