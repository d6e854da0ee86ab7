//! The definitions (`CustomResourceDefinition`) of well-known projects, from their Go modules. `tests/tools/projects.txt`
//! has the modules with their versions; Go checks them against its checksum database.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use serde_json::Value;

use crate::repository;
use crate::tools::installed_once;

/// Returns a folder with the files of all projects, one folder each. The first call on a machine fetches them.
///
/// # Panics
/// When they cannot be fetched: that needs Go 1.26 or newer.
pub fn project_definitions() -> PathBuf {
    static FETCHED: OnceLock<PathBuf> = OnceLock::new();
    FETCHED.get_or_init(fetch).clone()
}

fn fetch() -> PathBuf {
    let folder = repository().join("target/tools/projects");
    let list = repository().join("tests/tools/projects.txt");
    installed_once(&folder, &list, || {
        let text = fs::read_to_string(&list).expect("the list is in the repository");
        for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let [module, version, path] = line.split(' ').collect::<Vec<_>>()[..] else {
                panic!("{line:?} is not a module, a version and a path")
            };
            let modules = folder.join("modules");
            fs::create_dir_all(&modules).expect("folders can be made");
            let source = go_mod_download(&modules, module, version).join(path);
            let target = folder.join("files").join(module.replace('/', "_"));
            fs::create_dir_all(&target).expect("folders can be made");
            copy_definitions(&source, &target);
            // The rest of a module is large.
            fs::remove_dir_all(&modules).expect("the folder was made above");
        }
    });
    folder.join("files")
}

/// Copies the YAML files at and below a path into one folder.
fn copy_definitions(source: &Path, target: &Path) {
    if source.is_dir() {
        let entries = fs::read_dir(source).expect("folders of modules can be read");
        entries.for_each(|entry| copy_definitions(&entry.expect("folders can be read").path(), target));
    } else if source.extension().is_some_and(|ending| ending == "yaml") {
        let name = source.file_name().expect("a file has a name");
        fs::copy(source, target.join(name)).expect("files can be copied");
    }
}

/// Fetches a module into a folder, and returns the folder of the module.
fn go_mod_download(folder: &Path, module: &str, version: &str) -> PathBuf {
    let mut command = Command::new("go");
    command.args(["mod", "download", "-modcacherw", "-json"]).arg(format!("{module}@{version}"));
    command.current_dir(folder).env("GOMODCACHE", folder).env("GOFLAGS", "");
    let output = command.output().expect("Go 1.26 or newer is on PATH: https://go.dev/dl");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{module}: {said}{}", String::from_utf8_lossy(&output.stderr));
    let answer: Value = serde_json::from_str(&said).expect("it is JSON");
    PathBuf::from(answer["Dir"].as_str().expect("it has a folder"))
}
