//! Checks that exactly the tests that use a foreign program are ignored where it is missing, with the reason
//! what to install. The users come from the sources: a function uses a tool if it calls a function that does.

mod calls;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use calls::{Function, functions, users};
use homeostat_tests::repository;

/// A foreign program that tests use. `build.rs` checks whether it is installed.
struct Tool {
    /// The end of its `cfg(missing_…)`.
    name: &'static str,
    /// The reason for ignoring a test: the missing program, and where to get it.
    reason: &'static str,
    /// The functions that run the program or its output. A caller of one of them uses the tool.
    roots: &'static [&'static str],
}

const TOOLS: [Tool; 3] = [
    Tool {
        name: "go",
        reason: "Go 1.26 or newer is not on PATH: https://go.dev/dl",
        roots: &["go_build", "go_guest", "go_commands", "go_layer", "go_mod_download", "test_go_environment"],
    },
    Tool {
        name: "node",
        reason: "Node 20 or newer with npm is not on PATH: https://nodejs.org",
        roots: &["node_environment", "node_commands", "node_types"],
    },
    Tool {
        name: "python",
        reason: "Python 3.10 or newer with venv is not on PATH: https://www.python.org/downloads",
        roots: &["python_environment", "python_commands"],
    },
];

impl Tool {
    fn attribute(&self) -> String {
        format!("#[cfg_attr(missing_{}, ignore = \"{}\")]", self.name, self.reason)
    }
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found
}

/// Returns the functions of this package and of its servers: of the libraries, whose methods any function may
/// call, and of the tests.
fn all_functions() -> Vec<Function> {
    let mut found = Vec::new();
    for (folder, is_library) in [("tests/servers/src", true), ("tests/src", true), ("tests/it", false)] {
        for path in sources(&repository().join(folder)) {
            let place = path.strip_prefix(repository()).unwrap().to_string_lossy().into_owned();
            found.extend(functions(&place, &std::fs::read_to_string(&path).unwrap(), is_library));
        }
    }
    found
}

/// Returns the errors in the attributes of the tests among these functions.
fn wrong(functions: &[Function], tool: &Tool) -> Vec<String> {
    let users = users(functions, tool.roots);
    let mut wrong = Vec::new();
    for (at, function) in functions.iter().enumerate().filter(|(_, function)| function.is_test()) {
        let carries = function.attributes.iter().any(|attribute| *attribute == tool.attribute());
        let place = format!("{}::{}", function.place, function.name);
        match (users.contains(&at), carries) {
            (true, false) => wrong.push(format!("{place} uses {}: put {} above it", tool.name, tool.attribute())),
            (false, true) => wrong.push(format!("{place} does not use {}: remove the attribute", tool.name)),
            _ => {}
        }
    }
    wrong
}

#[test]
fn every_test_that_uses_a_tool_is_ignored_with_a_reason_where_it_is_missing() {
    let functions = all_functions();
    for tool in &TOOLS {
        let is_used = users(&functions, tool.roots).iter().any(|at| functions[*at].is_test());
        assert!(is_used, "no test uses {}: remove the tool", tool.name);
        let wrong = wrong(&functions, tool);
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }
}

#[test]
fn the_build_script_checks_for_every_tool() {
    let script = std::fs::read_to_string(repository().join("tests/build.rs")).unwrap();
    let looked_for: BTreeSet<&str> =
        script.split("Tool { name: \"").skip(1).map(|rest| rest.split('"').next().unwrap()).collect();
    assert_eq!(looked_for, TOOLS.iter().map(|tool| tool.name).collect());
}

#[test]
fn a_test_that_uses_a_tool_through_other_functions_is_found() {
    let library = r#"
        | fn go_build() {}
        | /// kubectl
        | pub fn kubectl() -> PathBuf {
        |     go_build("kubectl")
        | }
        | pub struct Registry;
        | impl Registry {
        |     pub fn start() -> Self {
        |         Self::start_with(1)
        |     }
        |     pub fn start_with(port: u16) -> Self {
        |         go_build("registry")
        |     }
        | }
    "#;
    let tests = r#"
        | impl Person {
        |     fn shows(&self) {
        |         spawn_blocking(kubectl);
        |     }
        | }
        | #[test]
        | #[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
        | fn a_method_is_called() {
        |     Person::new().shows();
        | }
        | #[tokio::test(flavor = "multi_thread")]
        | async fn a_tool_is_called() {
        |     let registry = Registry::start();
        | }
        | #[test]
        | fn a_tool_is_called_for_the_rest_of_a_structure() {
        |     let settings = Settings { limit: 1, ..kubectl() };
        | }
        | #[test]
        | #[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
        | fn a_tool_is_mentioned() {
        |     // kubectl()
        |     let kubectl = ['"', "kubectl()\""];
        | }
    "#;
    // The bars keep this text from being read as a part of this file.
    let mut all = functions("library.rs", &library.replace("        | ", ""), true);
    all.extend(functions("tests.rs", &tests.replace("        | ", ""), false));
    let [go, ..] = TOOLS;
    let wrong = wrong(&all, &go);
    assert_eq!(wrong.len(), 3, "{wrong:?}");
    assert!(wrong[0].starts_with("tests.rs::a_tool_is_called uses go"), "{wrong:?}");
    assert!(wrong[1].starts_with("tests.rs::a_tool_is_called_for_the_rest_of_a_structure uses go"), "{wrong:?}");
    assert!(wrong[2].starts_with("tests.rs::a_tool_is_mentioned does not use go"), "{wrong:?}");
}

#[test]
fn a_conformance_suite_over_a_store_that_needs_a_tool_is_found() {
    let library = "| fn go_build() {}\n| pub fn shared_nats() -> &'static Nats {\n|     go_build()\n| }\n";
    let tests = r#"
        | fn nats() -> Fixture {
        |     Fixture::over(shared_nats())
        | }
        | mod first {
        |     homeostat_conformance::suite!(super::nats);
        | }
        | mod second {
        |     homeostat_conformance::suite!(
        |         super::nats,
        |         cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")
        |     );
        | }
        | mod third {
        |     homeostat_conformance::suite!(super::memory);
        | }
    "#;
    let mut all = functions("library.rs", &library.replace("| ", ""), true);
    all.extend(functions("tests.rs", &tests.replace("        | ", ""), false));
    let [go, ..] = TOOLS;
    let wrong = wrong(&all, &go);
    assert_eq!(wrong.len(), 1, "{wrong:?}");
    assert!(wrong[0].starts_with("tests.rs::suite!(super::nats) uses go"), "{wrong:?}");
}
