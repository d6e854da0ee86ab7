//! Copies of guests' sources that build on their own, for tests that edit them.

use std::path::{Path, PathBuf};

use homeostat_servers::repository;

/// Copies these crates of the repository into a workspace of their own below `into`, and returns the folder
/// that contains them.
///
/// They are built apart from the repository, in a folder that is kept: packages of the same name share their
/// files there. No two concurrent tests may copy the same one.
///
/// # Panics
/// When something cannot be copied.
pub fn copy_of_sources(crates: &[&str], into: &Path) -> PathBuf {
    let guests = into.join("guests");
    for path in crates {
        let folder = guests.join(Path::new(path).file_name().expect("a crate has a folder"));
        copy(&repository().join(path), &folder);
        drop_tests(&folder.join("Cargo.toml"));
    }
    copy(&repository().join("guest-sdk"), &into.join("guest-sdk"));
    for file in ["Cargo.lock", "rust-toolchain.toml"] {
        std::fs::copy(repository().join(file), into.join(file)).expect("the file can be copied");
    }
    std::fs::write(into.join("Cargo.toml"), workspace()).expect("the workspace can be written");
    guests
}

/// Removes the crate for native tests from a manifest: it depends on the whole host.
fn drop_tests(manifest: &Path) {
    let Ok(text) = std::fs::read_to_string(manifest) else { return };
    let kept = text.lines().filter(|line| !line.starts_with("homeostat-sdk-testing"));
    let kept: String = kept.map(|line| format!("{line}\n")).collect();
    std::fs::write(manifest, kept).expect("the manifest can be written");
}

/// The manifest of the repository's workspace, with other members.
fn workspace() -> String {
    let manifest = std::fs::read_to_string(repository().join("Cargo.toml")).expect("the workspace can be read");
    let (before, rest) = manifest.split_once("members = [").expect("the workspace has members");
    let (_, after) = rest.split_once("[workspace.package]").expect("the workspace has a package");
    format!("{before}members = [\"guest-sdk\", \"guests/*\"]\n\n[workspace.package]{after}")
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("the folder can be made");
    for entry in std::fs::read_dir(from).expect("the folder can be read") {
        let path = entry.expect("the folder can be read").path();
        let target = to.join(path.file_name().expect("it has a name"));
        if path.is_dir() {
            copy(&path, &target);
        } else {
            std::fs::copy(&path, &target).expect("the file can be copied");
        }
    }
}
