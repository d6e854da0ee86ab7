//! Builds the artifacts that tests need: the guests and the binaries.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use homeostat_componentize::componentize_typed;
use homeostat_servers::repository;

/// The target of guests whose Cargo.toml names no other.
const TARGET: &str = "wasm32-unknown-unknown";

/// The build profile of `homeostat dev`, so that both share their artifacts.
const PROFILE: [&str; 4] = [
    "profile.release.strip=true",
    "profile.release.debug=false",
    "profile.release.opt-level=3",
    "profile.release.incremental=true",
];

/// Returns the component of the package `name`. The first call builds all guests of the workspace.
///
/// # Panics
/// When the guests cannot be built, or there is no such package.
pub fn guest(name: &str) -> PathBuf {
    static BUILT: OnceLock<BTreeMap<String, PathBuf>> = OnceLock::new();
    let components = BUILT.get_or_init(build_guests);
    components.get(name).unwrap_or_else(|| panic!("no guest is named {name}")).clone()
}

/// Returns the binary `homeostat`. The first call builds both binaries.
///
/// # Panics
/// When they cannot be built.
pub fn homeostat() -> PathBuf {
    binaries().join("homeostat")
}

/// Returns the example that embeds a host. The first call builds both binaries.
///
/// # Panics
/// When they cannot be built.
pub fn embed() -> PathBuf {
    binaries().join("embed")
}

fn binaries() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        // Selects the whole workspace, so that its dependencies are the ones that the tests were built with.
        cargo(&["build", "--workspace", "--bin", "homeostat", "--bin", "embed"]);
        profile_folder()
    })
}

/// Returns the component of each guest.
fn build_guests() -> BTreeMap<String, PathBuf> {
    let mut of_targets: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, target) in guest_packages() {
        of_targets.entry(target).or_default().push(name);
    }
    of_targets.iter().flat_map(|(target, names)| build_for(target, names)).collect()
}

fn build_for(target: &str, names: &[String]) -> Vec<(String, PathBuf)> {
    let mut arguments = vec!["build", "--release", "--target", target];
    for setting in PROFILE {
        arguments.extend(["--config", setting]);
    }
    for name in names {
        arguments.extend(["--package", name]);
    }
    add_target(target);
    cargo(&arguments);
    let folder = target_folder().join(target).join("release");
    let component = |name: &String| {
        let built = folder.join(format!("{}.wasm", name.replace('-', "_")));
        (name.clone(), keep_component(&built, target == TARGET))
    };
    names.iter().map(component).collect()
}

/// Writes the component of a built file into the folder of all guests, under the same name. `is_module` says whether the
/// file is a core module.
fn keep_component(built: &Path, is_module: bool) -> PathBuf {
    let mut bytes = std::fs::read(built).unwrap_or_else(|error| panic!("{}: {error}", built.display()));
    if is_module {
        bytes = componentize_typed(&bytes).unwrap_or_else(|error| panic!("{}: {error}", built.display()));
    }
    let folder = target_folder().join("components");
    std::fs::create_dir_all(&folder).expect("folders can be made");
    let path = folder.join(built.file_name().expect("a file has a name"));
    // Other processes may read it: an equal file stays.
    if std::fs::read(&path).is_ok_and(|old| old == bytes) {
        return path;
    }
    let temporary = path.with_extension(std::process::id().to_string());
    std::fs::write(&temporary, bytes).and_then(|()| std::fs::rename(&temporary, &path)).expect("files can be written");
    path
}

/// Returns the packages of the workspace that build a component, each with its target.
pub(crate) fn guest_packages() -> Vec<(String, String)> {
    let mut command = Command::new(env!("CARGO"));
    command.args(["metadata", "--no-deps", "--format-version", "1"]).current_dir(repository());
    let output = command.output().expect("cargo starts");
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).expect("cargo metadata answers JSON");
    let packages = metadata["packages"].as_array().expect("there are packages").iter();
    let builds_component = |package: &&serde_json::Value| {
        let targets = package["targets"].as_array().expect("there are targets");
        targets.iter().any(|target| target["kind"] == serde_json::json!(["cdylib"]))
    };
    let with_target = |package: &serde_json::Value| {
        let target = package["metadata"]["homeostat"]["target"].as_str().unwrap_or(TARGET);
        (package["name"].as_str().expect("it has a name").to_owned(), target.to_owned())
    };
    packages.filter(builds_component).map(with_target).collect()
}

/// Installs a wasm target if it is missing.
fn add_target(target: &str) {
    let installed = Command::new("rustup").args(["target", "list", "--installed"]).current_dir(repository()).output();
    let has = installed.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).lines().any(|line| line == target));
    if !has {
        let added = Command::new("rustup").args(["target", "add", target]).current_dir(repository()).status();
        assert!(
            added.is_ok_and(|status| status.success()),
            "the target {target} is missing: rustup target add {target}"
        );
    }
}

fn cargo(arguments: &[&str]) {
    let output = Command::new(env!("CARGO"))
        .args(arguments)
        .env("CARGO_TARGET_DIR", target_folder())
        .current_dir(repository())
        .output()
        .expect("cargo starts");
    assert!(output.status.success(), "cargo {arguments:?} failed:\n{}", String::from_utf8_lossy(&output.stderr));
}

/// The folder of this test's profile: its binary is in `deps` there.
fn profile_folder() -> PathBuf {
    let binary = std::env::current_exe().expect("a test knows its binary");
    binary.ancestors().nth(2).expect("the binary lies in target/PROFILE/deps").to_owned()
}

fn target_folder() -> PathBuf {
    profile_folder().parent().expect("the profile lies in target").to_owned()
}

/// The target folder for copies of guests that tests edit. Packages of the same name share their files there,
/// so no two concurrent tests may build the same one.
pub(crate) fn edited_folder() -> PathBuf {
    target_folder().join("edited-guests")
}

/// The cache folder of commands under test, instead of the user's own.
pub(crate) fn cache_folder() -> PathBuf {
    target_folder().join("test-cache")
}

/// Returns the folder of compiled components, kept between runs.
pub fn compiled_folder() -> PathBuf {
    cache_folder().join("compiled")
}

/// Returns the same component with another digest: a custom section named `tag` is appended.
///
/// # Panics
/// When `tag` is longer than 100 bytes.
pub fn renamed(component: &[u8], tag: &str) -> Vec<u8> {
    let length = u8::try_from(tag.len()).ok().filter(|length| *length <= 100).expect("one byte holds the length");
    let section = [&[0, length + 1, length], tag.as_bytes()].concat();
    [component, &section].concat()
}
