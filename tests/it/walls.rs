//! Checks the boundaries between the crates, from `cargo metadata` and the sources.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use homeostat_tests::repository;
use serde_json::Value;

/// The crates that each crate may depend on. The graph has no cycle.
const ARROWS: [(&str, &[&str]); 23] = [
    (
        "homeostat",
        &[
            "homeostat-api",
            "homeostat-certificates",
            "homeostat-component",
            "homeostat-componentize",
            "homeostat-files",
            "homeostat-kubernetes",
            "homeostat-nats",
            "homeostat-orderfile",
            "homeostat-registry",
            "homeostat-runtime",
            "homeostat-simulator",
            "homeostat-store",
            "homeostat-text",
        ],
    ),
    (
        "homeostat-api",
        &[
            "homeostat-builtin",
            "homeostat-certificates",
            "homeostat-runtime",
            "homeostat-component",
            "homeostat-files",
            "homeostat-store",
            "homeostat-text",
        ],
    ),
    ("homeostat-builtin", &["homeostat-cel", "homeostat-store"]),
    ("homeostat-cel", &[]),
    ("homeostat-certificates", &[]),
    (
        "homeostat-runtime",
        &[
            "homeostat-builtin",
            "homeostat-cel",
            "homeostat-certificates",
            "homeostat-component",
            "homeostat-fleet",
            "homeostat-store",
            "homeostat-workqueue",
        ],
    ),
    ("homeostat-simulator", &["homeostat-component", "homeostat-runtime", "homeostat-store", "homeostat-workqueue"]),
    ("homeostat-verify", &["homeostat-component", "homeostat-store"]),
    ("homeostat-component", &["homeostat-digest", "homeostat-files", "homeostat-store", "homeostat-text"]),
    ("homeostat-componentize", &[]),
    ("homeostat-registry", &["homeostat-digest", "homeostat-files"]),
    ("homeostat-files", &["homeostat-digest"]),
    ("homeostat-fleet", &[]),
    ("homeostat-digest", &[]),
    ("homeostat-kubernetes", &["homeostat-fleet", "homeostat-store"]),
    ("homeostat-nats", &["homeostat-fleet", "homeostat-store"]),
    ("homeostat-orderfile", &[]),
    ("homeostat-store", &["homeostat-cel", "homeostat-files", "homeostat-fleet", "homeostat-text"]),
    ("homeostat-text", &[]),
    ("homeostat-workqueue", &[]),
    ("homeostat-sdk", &["homeostat-sdk-derive"]),
    ("homeostat-sdk-derive", &[]),
    ("homeostat-sdk-testing", &["homeostat-component", "homeostat-sdk", "homeostat-simulator", "homeostat-store"]),
];

/// Large libraries, and the crate of the host that alone may use each.
const SOLE_OWNERS: [(&str, &str); 4] =
    [("wasmtime", "component"), ("async-nats", "nats"), ("kube", "kubernetes"), ("k8s-openapi", "kubernetes")];

/// Pure files: time and randomness are arguments.
const PURE: [&str; 65] = [
    "host/workqueue/src/state.rs",
    "host/workqueue/src/state",
    "host/workqueue/src/backoff.rs",
    "host/workqueue/src/bands.rs",
    "host/workqueue/src/timers.rs",
    "host/workqueue/src/slab.rs",
    "host/workqueue/src/item.rs",
    "host/runtime/src/conversion/review.rs",
    "host/runtime/src/settle.rs",
    "host/runtime/src/cron.rs",
    "host/runtime/src/message_keys.rs",
    "host/runtime/src/rollout/plan.rs",
    "host/runtime/src/rollout/machine.rs",
    "host/runtime/src/rollout/gate.rs",
    "host/runtime/src/rollout/figures.rs",
    "host/runtime/src/rollout/deal.rs",
    "host/runtime/src/rollout/key_split.rs",
    "host/runtime/src/rollout/pinned_keys.rs",
    "host/runtime/src/rollout/share.rs",
    "host/runtime/src/rollout/shared_rollout.rs",
    "host/runtime/src/rollout/shadow_report.rs",
    "host/runtime/src/rollout/shadow/replay_state.rs",
    "host/runtime/src/scheduler/fair_queue.rs",
    "host/runtime/src/mapping.rs",
    "host/runtime/src/mapping/reference.rs",
    "host/store/src/semantics.rs",
    "host/store/src/model/document_head.rs",
    "host/store/src/model/owner.rs",
    "host/store/src/far_owner.rs",
    "host/store/src/fence.rs",
    "host/store/src/moved_kinds/kind_digest.rs",
    "host/store/src/moved_kinds/revision_offset.rs",
    "host/store/src/cached/own_writes.rs",
    "host/store/src/cached/replace.rs",
    "host/store/src/cached/unchanged.rs",
    "host/store/src/cached/availability.rs",
    "host/store/src/cached/read_watermark.rs",
    "host/store/src/cached/unreadable.rs",
    "host/nats/src/subject.rs",
    "host/nats/src/checks.rs",
    "host/nats/src/codec.rs",
    "host/nats/src/pattern.rs",
    "host/nats/src/protocol.rs",
    "host/nats/src/watermarks.rs",
    "host/nats/src/errors.rs",
    "host/nats/src/write/attempt.rs",
    "host/nats/src/lease/record.rs",
    "host/nats/src/follow/machine.rs",
    "host/nats/src/foreign/projection.rs",
    "host/kubernetes/src/follow/machine.rs",
    "host/kubernetes/src/lease/record.rs",
    "host/kubernetes/src/requests/pace.rs",
    "host/kubernetes/src/scale.rs",
    "host/kubernetes/src/events/series.rs",
    "host/kubernetes/src/write/wire.rs",
    "host/kubernetes/src/lines.rs",
    "host/kubernetes/src/path.rs",
    "host/runtime/src/rollout/shadow/compare.rs",
    "host/cli/src/file_debouncer.rs",
    "host/fleet/src/lease.rs",
    "host/fleet/src/placement.rs",
    "host/fleet/src/record.rs",
    "host/fleet/src/shards.rs",
    "host/fleet/src/times.rs",
    "host/api/src/merged_documents.rs",
];

/// The only files that write to a terminal or a pipe, through `homeostat_text`. `compile.rs` sends binary to
/// its parent process instead.
const PRINTERS: [&str; 3] = ["host/cli/src/output.rs", "host/cli/src/terminal.rs", "host/cli/src/compile.rs"];

/// The calls and paths that lead to a terminal or a pipe.
const PRINTING: [&str; 8] =
    ["stdout()", "stderr()", "print!", "println!", "dbg!", "/dev/tty", "/dev/std", "Stdio::inherit"];

/// The files that open other files directly: files of the system, of cargo, and of the host itself.
/// `homeostat_files` opens the files that people name, and waits for no other process.
const OPENERS: [&str; 12] = [
    "host/api/src/backup.rs",
    "host/api/src/metrics/resident.rs",
    "host/api/src/tls.rs",
    "host/cli/src/bench.rs",
    "host/cli/src/build.rs",
    "host/cli/src/build/cargo.rs",
    "host/cli/src/stores_config/kubernetes.rs",
    "host/component/src/cache/seal.rs",
    "host/files/src/blob_folder.rs",
    "host/store/src/embedded/read_ahead.rs",
    "host/store/src/embedded/open.rs",
    "host/store/src/embedded/location.rs",
];

/// The calls that open a file to read it.
const OPENING: [&str; 3] = ["File::open(", "fs::read(", "fs::read_to_string("];

/// Texts that a pure file must not contain.
const IMPURE: [&str; 4] = ["Instant::", "SystemTime::now", "Timestamp::now", "async fn"];

/// Words that a pure file must not contain, so that no form of import hides them.
const IMPURE_WORDS: [&str; 8] = ["thread", "tokio", "fs", "net", "env", "process", "io", "elapsed"];

fn metadata() -> Value {
    let mut command = Command::new(env!("CARGO"));
    let output =
        command.args(["metadata", "--no-deps", "--format-version", "1"]).current_dir(repository()).output().unwrap();
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Returns the names of the packages that `package` depends on, without its dev-dependencies.
fn dependencies(package: &Value) -> BTreeSet<String> {
    let all = package["dependencies"].as_array().unwrap().iter();
    all.filter(|dependency| dependency["kind"].is_null()).map(|it| it["name"].as_str().unwrap().to_owned()).collect()
}

fn sources(of: &Path) -> Vec<PathBuf> {
    if of.is_file() {
        return vec![of.to_owned()];
    }
    let Ok(entries) = std::fs::read_dir(of) else { return Vec::new() };
    let mut found: Vec<PathBuf> = entries.flat_map(|entry| sources(&entry.unwrap().path())).collect();
    found.retain(|path| path.extension().is_some_and(|extension| extension == "rs"));
    found
}

/// Returns the code of a file without its comment lines.
fn code(path: &Path) -> String {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

/// Returns whether a file is part of the host. Examples may print their own measurements.
fn is_of_host(path: &Path) -> bool {
    !path.ends_with("tests.rs") && !path.iter().any(|part| part == "examples")
}

/// Returns the parts of `code` that a pure file must not contain.
fn impure(code: &str) -> Vec<&'static str> {
    let words: BTreeSet<&str> = code.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
    let said = IMPURE.into_iter().filter(|text| code.contains(text));
    said.chain(IMPURE_WORDS.into_iter().filter(|word| words.contains(word))).collect()
}

#[test]
fn every_crate_of_the_host_has_its_dependencies_listed() {
    let metadata = metadata();
    let host = repository().join("host");
    for package in metadata["packages"].as_array().unwrap() {
        let name = package["name"].as_str().unwrap();
        let inside = Path::new(package["manifest_path"].as_str().unwrap()).starts_with(&host);
        assert!(!inside || ARROWS.iter().any(|(room, _)| *room == name), "list the crates that {name} may depend on");
    }
}

#[test]
fn no_crate_depends_on_a_crate_that_it_must_not() {
    let metadata = metadata();
    let packages = metadata["packages"].as_array().unwrap();
    for (name, allowed) in ARROWS {
        let package =
            packages.iter().find(|package| package["name"] == name).unwrap_or_else(|| panic!("no room {name}"));
        let ours = dependencies(package).into_iter().filter(|other| other.starts_with("homeostat"));
        let forbidden: Vec<String> = ours.filter(|other| !allowed.contains(&other.as_str())).collect();
        assert!(forbidden.is_empty(), "{name} must not depend on {forbidden:?}");
    }
}

/// Returns the first part of every path in `code`, as `wasmtime` of `wasmtime::Engine`.
fn paths(code: &str) -> impl Iterator<Item = &str> {
    let is_letter = |letter: char| letter.is_alphanumeric() || letter == '_';
    let ends = code.match_indices("::").map(|(end, _)| end);
    ends.filter_map(move |end| code[..end].rsplit(|letter| !is_letter(letter)).next())
}

/// Returns whether a dependency is `library` or a part of it, as `wasmtime-wasi`.
fn is_part_of(dependency: &str, library: &str) -> bool {
    dependency.strip_prefix(library).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

#[test]
fn only_one_crate_of_the_host_depends_on_each_large_library() {
    let metadata = metadata();
    for (library, owner) in SOLE_OWNERS {
        for package in metadata["packages"].as_array().unwrap() {
            let name = package["name"].as_str().unwrap();
            let named = dependencies(package).into_iter().any(|dependency| is_part_of(&dependency, library));
            // The benchmark compares the host with the bare libraries.
            let allowed = name == format!("homeostat-{owner}") || name == "homeostat-peers";
            assert!(!named || allowed, "{name} depends on {library}");
        }
        let name = library.replace('-', "_");
        for path in sources(&repository().join("host")) {
            let inside = path.starts_with(repository().join("host").join(owner));
            let named = paths(&code(&path)).any(|first| first == name || first.starts_with(&format!("{name}_")));
            assert!(inside || !named, "{} names {library}", path.display());
        }
    }
}

/// Returns the packages of which the binary is made, with no features but these.
fn packages_with(features: &[&str]) -> BTreeSet<String> {
    let mut command = Command::new(env!("CARGO"));
    command.args(["tree", "-p", "homeostat", "--no-default-features", "--edges", "normal", "--prefix", "none"]);
    command.args(["--format", "{p}", "--offline", "--locked", "--features", &features.join(",")]);
    let output = command.current_dir(repository()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = String::from_utf8(output.stdout).unwrap();
    lines.lines().filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
}

#[test]
fn the_client_of_a_far_store_is_built_only_with_the_feature_of_the_store() {
    for features in [&[][..], &["nats"], &["kubernetes"], &["nats", "kubernetes"]] {
        let packages = packages_with(features);
        assert!(packages.contains("homeostat-store"), "{packages:?}");
        for (library, owner) in SOLE_OWNERS {
            let is_there = packages.iter().any(|package| is_part_of(package, library));
            let is_wanted = owner == "component" || features.contains(&owner);
            assert_eq!(is_there, is_wanted, "{library} with the features {features:?}");
        }
        for store in ["nats", "kubernetes"] {
            let is_there = packages.contains(&format!("homeostat-{store}"));
            assert_eq!(is_there, features.contains(&store), "{store} with the features {features:?}");
        }
    }
}

/// Returns the packages that a profile of the workspace names with an optimisation level, and the level of each.
fn optimised(manifest: &str, profile: &str) -> BTreeMap<String, String> {
    let header = format!("[profile.{profile}.package]");
    let entries = manifest.lines().skip_while(|line| *line != header).skip(1).take_while(|line| !line.starts_with('['));
    let level = |line: &str| line.split_once(".opt-level = ").map(|(name, level)| (name.to_owned(), level.to_owned()));
    entries.filter_map(level).collect()
}

/// A profile has the entries of the one from which it inherits, and `"*"` does not reach a package that has an entry.
#[test]
fn the_first_build_optimises_no_crate_because_tests_do() {
    let manifest = std::fs::read_to_string(repository().join("Cargo.toml")).expect("the repository has a manifest");
    let (tests, first) = (optimised(&manifest, "dev"), optimised(&manifest, "quick"));
    assert!(tests.len() > 30, "{tests:?}");
    let inherited: Vec<&String> = tests.keys().filter(|package| !first.contains_key(*package)).collect();
    assert_eq!(inherited, Vec::<&String>::new(), "the profile quick has no entry of its own");
    let mut most = first.iter().filter(|(_, level)| *level != "0").map(|(package, _)| package.as_str());
    assert!(most.all(|package| ["cranelift-codegen", "regalloc2"].contains(&package)), "{first:?}");
}

#[test]
fn only_binaries_depend_on_anyhow() {
    let metadata = metadata();
    for package in metadata["packages"].as_array().unwrap() {
        let targets = package["targets"].as_array().unwrap();
        let binary = targets.iter().any(|target| target["kind"] == serde_json::json!(["bin"]));
        assert!(binary || !dependencies(package).contains("anyhow"), "{} depends on anyhow", package["name"]);
    }
}

#[test]
fn pure_files_have_no_clock_no_thread_and_no_io() {
    for place in PURE {
        let files: Vec<PathBuf> =
            sources(&repository().join(place)).into_iter().filter(|path| !path.ends_with("tests.rs")).collect();
        assert!(place.ends_with("state") || !files.is_empty(), "there is no {place}: the list is out of date");
        for path in files {
            let named = impure(&code(&path));
            assert!(named.is_empty(), "{} names {named:?}", path.display());
        }
    }
}

#[test]
fn impurity_is_detected_in_every_form() {
    for code in [
        "use std::{sync::Arc, fs};",
        "use std::{\n    thread,\n    sync::Arc,\n};",
        "let file = std::fs::File::open(path);",
        "thread::spawn(run)",
        "let now = Instant::now();",
        "since.elapsed()",
    ] {
        assert!(!impure(code).is_empty(), "{code}");
    }
    assert_eq!(impure("use std::{sync::Arc, time::Duration}; let offset = thread_count;"), [""; 0]);
}

#[test]
fn only_the_binary_reads_the_environment() {
    for room in [
        "workqueue",
        "store",
        "digest",
        "files",
        "fleet",
        "component",
        "componentize",
        "runtime",
        "verify",
        "api",
        "registry",
    ] {
        let is_test = |path: &PathBuf| path.iter().any(|part| part == "tests");
        for path in sources(&repository().join("host").join(room).join("src")).into_iter().filter(|path| !is_test(path))
        {
            assert!(!code(&path).contains("env::var"), "{} reads the environment", path.display());
        }
    }
}

/// Returns the parts of `code` that lead to a terminal or a pipe.
fn prints(code: &str) -> Vec<&'static str> {
    PRINTING.into_iter().filter(|text| code.contains(text)).collect()
}

#[test]
fn all_output_goes_through_the_sanitising_functions() {
    let host = repository().join("host");
    let printers: Vec<PathBuf> = PRINTERS.iter().map(|file| repository().join(file)).collect();
    // A build script speaks to cargo alone.
    let is_build_script = |path: &PathBuf| path.ends_with("build.rs");
    for path in sources(&host).into_iter().filter(|path| is_of_host(path) && !is_build_script(path)) {
        let (code, is_printer) = (code(&path), printers.contains(&path));
        assert!(is_printer || prints(&code).is_empty(), "{} prints: {:?}", path.display(), prints(&code));
        assert!(!is_printer || !prints(&code).is_empty(), "{} prints nothing: the list is out of date", path.display());
        // Only the output of cargo keeps its colours.
        let is_terminal = path.ends_with("cli/src/terminal.rs");
        let raw = code.matches("cargo_output(").count() - code.matches("cargo_output(&built.diagnostics)").count();
        assert_eq!(raw, usize::from(is_terminal), "{} writes colours", path.display());
    }
    // In the printers, text reaches a stream only at these places.
    let code = |file: &str| code(&repository().join("host/cli/src").join(file));
    let (output, terminal) = (code("output.rs"), code("terminal.rs"));
    assert_eq!(output.matches("write_all(").count(), 1);
    assert_eq!(output.matches("write_all(homeostat_text::lines(text)").count(), 1);
    assert_eq!(output.matches("writeln!(").count(), 1);
    assert_eq!(output.matches(r#"writeln!(io::stderr(), "{}", homeostat_text::block(text))"#).count(), 1);
    assert_eq!(terminal.matches("emit(").count(), 4, "a line, the table, its end, and the function itself");
    assert_eq!(terminal.matches("self.write(").count(), 2, "a line, and the output of cargo");
    assert_eq!(terminal.matches("self.screen.write(&homeostat_text::json(text))").count(), 1);
    assert!(terminal.contains("self.write(&homeostat_text::block("));
}

/// Returns the calls in `code` that open a file to read it. `ReloadingFile::open(` is none of them.
fn opens(code: &str) -> Vec<&'static str> {
    let is_call = |at: usize| !code[..at].ends_with(|before: char| before.is_alphanumeric() || before == '_');
    OPENING.into_iter().filter(|text| code.match_indices(text).any(|(at, _)| is_call(at))).collect()
}

#[test]
fn only_one_crate_opens_files_that_people_name() {
    let openers: Vec<PathBuf> = OPENERS.iter().map(|file| repository().join(file)).collect();
    // A build script reads the sources of its crate. Only build scripts call `orderfile`.
    let is_of_build =
        |path: &PathBuf| path.ends_with("host/builtin/build.rs") || path.iter().any(|part| part == "orderfile");
    let is_tested = |path: &PathBuf| is_of_host(path) && !path.iter().any(|part| part == "tests") && !is_of_build(path);
    for path in sources(&repository().join("host")).into_iter().filter(is_tested) {
        let (code, is_opener) = (code(&path), openers.contains(&path));
        let opens = opens(&code);
        assert!(is_opener || opens.is_empty(), "{} opens files directly: {opens:?}", path.display());
        assert!(!is_opener || !opens.is_empty(), "{} opens none: the list is out of date", path.display());
    }
}

#[test]
fn a_print_is_detected_in_every_form() {
    for code in
        ["println!(\"a\")", "eprint!(\"a\")", "io::stdout().lock()", "std::io::stderr().write_all(b)", "dbg!(a)"]
    {
        assert!(!prints(code).is_empty(), "{code}");
    }
    assert!(prints("output::print(&text); command.stdout(Stdio::piped())").is_empty());
}

#[test]
fn an_opened_file_is_detected_and_another_type_of_a_similar_name_is_not() {
    assert_eq!(opens("let file = std::fs::File::open(path)?;"), ["File::open("]);
    assert_eq!(opens("!fs::read(path).is_empty()"), ["fs::read("]);
    assert!(opens("Self(ReloadingFile::open(kind)?)").is_empty());
}
