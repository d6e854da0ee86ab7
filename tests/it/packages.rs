//! The packages of the SDK, as a registry gets them.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use homeostat_tests::repository;
use serde_json::Value;

/// The published crates, each after those that it depends on.
const PUBLISHED: [&str; 2] = ["homeostat-sdk-derive", "homeostat-sdk"];
/// It depends on crates of the host, and can be published when they are.
const FOR_TESTS: &str = "homeostat-sdk-testing";

fn cargo(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO")).args(arguments).current_dir(repository()).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Returns the files of a package, as cargo would pack them now.
fn files(package: &str) -> BTreeSet<String> {
    let list = cargo(&["package", "--list", "--allow-dirty", "--offline", "-p", package]);
    list.lines().map(|line| line.replace('\\', "/")).collect()
}

fn packages() -> Vec<Value> {
    let metadata: Value =
        serde_json::from_str(&cargo(&["metadata", "--no-deps", "--offline", "--format-version", "1"])).unwrap();
    metadata["packages"].as_array().unwrap().clone()
}

fn package(name: &str) -> Value {
    packages().into_iter().find(|package| package["name"] == name).unwrap_or_else(|| panic!("no package {name}"))
}

/// Returns the paths of all files of the contract, as they are inside of the package of the SDK.
fn contract(folder: &Path, prefix: &str, found: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = format!("{prefix}/{}", path.file_name().unwrap().to_string_lossy());
        if path.is_dir() {
            contract(&path, &name, found);
        } else {
            found.insert(name);
        }
    }
}

#[test]
fn the_package_of_the_sdk_contains_the_contract() {
    let mut contract_files = BTreeSet::new();
    contract(&repository().join("wit"), "wit", &mut contract_files);
    assert!(contract_files.contains("wit/deps/wasi-config/store.wit"), "{contract_files:?}");
    let files = files("homeostat-sdk");
    let missing: Vec<_> = contract_files.difference(&files).collect();
    assert!(missing.is_empty(), "not in the package: {missing:?}");
    let other = |file: &&String| file.starts_with("derive/") || file.starts_with("testing/");
    assert_eq!(files.iter().find(other), None, "another package is inside of this one");
}

#[test]
fn each_published_package_has_what_a_registry_shows() {
    for name in PUBLISHED {
        assert_ne!(package(name)["publish"], serde_json::json!([]), "{name} cannot be published");
    }
    for name in PUBLISHED.into_iter().chain([FOR_TESTS]) {
        let package = package(name);
        for field in ["description", "license", "readme", "rust_version"] {
            assert!(package[field].as_str().is_some_and(|text| !text.is_empty()), "{name} has no {field}");
        }
        let keywords = package["keywords"].as_array().unwrap();
        let is_short = |word: &Value| word.as_str().is_some_and(|word| word.len() <= 20);
        assert!((1..=5).contains(&keywords.len()) && keywords.iter().all(is_short), "{name}: {keywords:?}");
        assert!(!package["categories"].as_array().unwrap().is_empty(), "{name} has no categories");
        assert!(package["metadata"]["docs"]["rs"]["targets"].is_array(), "{name} names no targets for docs.rs");
        assert!(files(name).contains("README.md"), "{name} has no README.md");
    }
    let targets = &package("homeostat-sdk")["metadata"]["docs"]["rs"]["targets"];
    assert!(targets.as_array().unwrap().contains(&"wasm32-unknown-unknown".into()), "{targets}");
}

/// A registry refuses a dependency on a path without a version. It drops those of tests.
#[test]
fn each_dependency_of_a_published_package_has_a_version() {
    for name in PUBLISHED {
        for dependency in package(name)["dependencies"].as_array().unwrap() {
            let is_of_tests = dependency["kind"] == "dev";
            assert!(is_of_tests || dependency["req"] != "*", "{name}: {} has no version", dependency["name"]);
        }
    }
}
