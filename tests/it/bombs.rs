//! Components that attack the compiler: the host refuses each under the name of a limit, and keeps running.
//!
//! `host/component/src/compiler/tests.rs` tests compiler processes that misbehave by themselves.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use homeostat_component::{CompilationCounts, Compiler, Engine, EngineOptions, LimitName, Reason};
use homeostat_fixtures::{demo, demo_key, memory_store};
use homeostat_runtime::{Definition, Options};
use homeostat_testing::{eventually_blocking, eventually_built};
use homeostat_tests::{HostProcess, TestHost, all_resources, guest, homeostat};
use serde_json::json;

use crate::metrics::scrape::Scrape;

/// Returns the options of an engine that compiles in processes of the binary.
fn options() -> EngineOptions {
    let environment = BTreeMap::from([("MIMALLOC_ARENA_RESERVE".to_owned(), "65536".to_owned())]);
    let compiler = Compiler { program: homeostat(), arguments: vec!["compile".to_owned()], environment };
    EngineOptions { instances_max: 4, compiler: Some(compiler), ..EngineOptions::default() }
}

/// Encodes a number as unsigned LEB128, as WebAssembly does.
pub(crate) fn leb128(mut number: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number >= 0x80 {
        bytes.push(u8::try_from(number & 0x7f).unwrap() | 0x80);
        number >>= 7;
    }
    bytes.push(u8::try_from(number).unwrap());
    bytes
}

pub(crate) fn section(number: u8, content: &[u8]) -> Vec<u8> {
    [&[number], leb128(content.len()).as_slice(), content].concat()
}

/// Returns a good component with a core module of these sections appended. Its types are valid, so it is
/// compiled.
fn component(module: &[u8]) -> Vec<u8> {
    let module = [b"\0asm\x01\0\0\0".as_slice(), module].concat();
    [std::fs::read(guest("greeter")).unwrap(), section(1, &module)].concat()
}

/// Returns a component whose few functions are short and slow to compile. Each has nested loops, and in the
/// innermost one every local takes the value of the next. A compiler that tracks values has to visit every
/// local in every loop.
fn bomb(functions: usize, loops: usize, locals: usize) -> Vec<u8> {
    let mut code = [leb128(1), leb128(locals), vec![0x7f]].concat();
    code.extend([0x03, 0x40].repeat(loops));
    for local in 0..locals {
        code.push(0x20);
        code.extend(leb128((local + 1) % locals));
        code.push(0x21);
        code.extend(leb128(local));
    }
    // Each loop repeats while the first local is not zero.
    code.extend([0x20, 0, 0x0d, 0, 0x0b].repeat(loops));
    code.push(0x0b);
    let body = [leb128(code.len()), code].concat();
    let types = section(1, &[1, 0x60, 0, 0]);
    let declared = section(3, &[leb128(functions), vec![0; functions]].concat());
    let bodies = section(10, &[leb128(functions), body.repeat(functions)].concat());
    component(&[types, declared, bodies].concat())
}

/// Returns a component that compiles for minutes. It is below the size from which a host has baseline code first.
fn time_bomb() -> Vec<u8> {
    let bytes = bomb(35, 1000, 1000);
    assert!((bytes.len() as u64) < EngineOptions::default().baseline_function_bytes_min);
    bytes
}

async fn host(options: EngineOptions) -> TestHost {
    let store = memory_store();
    let engine = Engine::new(options).unwrap();
    let test = TestHost::with(store, |options| Options { engine, ..options }).await;
    let component = test.load(&guest("greeter")).await;
    test.host.put(Definition { grants: all_resources(), ..Definition::new("greeter", component) }).await.unwrap();
    test
}

async fn assert_greets(test: &TestHost, name: &str) {
    test.apply(demo("Greeting", name, json!({"name": name}))).await;
    let wanted = format!("Hello, {name}!");
    let greeted = |document: &serde_json::Value| document["status"]["message"] == wanted.as_str();
    test.until(&demo_key("Greeting", name), "is greeted", greeted).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_compilation_ends_under_the_name_of_its_limit_and_delays_no_reconcile() {
    let test = host(EngineOptions { compile_time: Duration::from_secs(5), ..options() }).await;
    let (host, mut rounds) = (test.host.clone(), 0);
    let loading = tokio::spawn(async move { host.load(time_bomb()).await });
    while !loading.is_finished() {
        assert_greets(&test, &format!("round{rounds}")).await;
        rounds += 1;
    }
    let refused = loading.await.unwrap().unwrap_err();
    assert!(rounds > 1, "no key was reconciled during the compilation");
    assert!(refused.to_string().contains("limit compile-time: "), "{refused}");
    assert_eq!(test.host.measure().compiled, CompilationCounts { good: 1, time: 1, ..CompilationCounts::default() });
}

#[tokio::test(flavor = "multi_thread")]
async fn a_compilation_without_memory_ends_under_its_limit_and_the_next_one_works() {
    let engine = Engine::new(EngineOptions { compile_memory_bytes_max: 256 << 20, ..options() }).unwrap();
    let refused = engine.load(bomb(1, 1000, 3000)).await.unwrap_err();
    assert!(matches!(refused.reasons[..], [Reason::Limit { limit: LimitName::CompileMemory, .. }]), "{refused}");
    engine.load(std::fs::read(guest("greeter")).unwrap()).await.unwrap();
    assert_eq!(engine.compilation_counts(), CompilationCounts { good: 1, memory: 1, ..CompilationCounts::default() });
}

/// The memory limit is so low that an allocation for the announced length would fail.
#[tokio::test(flavor = "multi_thread")]
async fn a_component_with_false_lengths_is_refused_before_any_allocation_for_them() {
    let engine = Engine::new(EngineOptions { compile_memory_bytes_max: 192 << 20, ..options() }).unwrap();
    let many = leb128(u32::MAX as usize);
    let in_module = (1..=13).map(|number| component(&section(number, &many)));
    let in_component = (2..=11).map(|number| [b"\0asm\x0d\0\x01\0".as_slice(), &section(number, &many)].concat());
    let in_function = [component(
        &[
            section(1, &[1, 0x60, 0, 0]),
            section(3, &[1, 0]),
            section(10, &[vec![1, 8, 1], many.clone(), vec![0x7f, 0x0b]].concat()),
        ]
        .concat(),
    )];
    for (number, lie) in in_module.chain(in_component).chain(in_function).enumerate() {
        let refused = engine.load(lie).await.unwrap_err();
        assert!(matches!(refused.reasons[..], [Reason::Malformed { .. }]), "lie {number}: {refused}");
    }
}

/// Writes a manifest and its component into a folder.
fn put(folder: &Path, name: &str, component: &[u8]) {
    std::fs::write(folder.join(format!("{name}.wasm")), component).unwrap();
    let manifest = format!(
        "apiVersion: homeostat.dev/v1alpha1\nkind: Controller\nmetadata: {{name: {name}}}\nspec: {{component: {{file: {name}.wasm}}, \
         grants: {{resources: [{{kinds: [\"*\"], verbs: [\"*\"], namespaces: [\"*\"]}}]}}}}\n"
    );
    std::fs::write(folder.join(format!("{name}.yaml")), manifest).unwrap();
}

#[test]
fn a_host_reports_and_counts_a_component_that_exceeds_the_compiler_limits() {
    let (folder, scratch) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    put(folder.path(), "greeter", &std::fs::read(guest("greeter")).unwrap());
    // 20 million phi nodes of locals take more than the 2 GiB that a compilation has by default.
    put(folder.path(), "bomb", &bomb(1, 400, 50_000));
    let host = HostProcess::start("run", folder.path(), scratch.path(), &[]);
    host.wait_for_stderr("controller/bomb refused");
    assert!(host.stderr().contains("limit compile-memory: "), "{}", host.stderr());
    let events = host.json(&["events", "--controller", "bomb"]);
    assert!(events.to_string().contains("limit compile-memory: "), "{events}");
    let counted = |result: &str| Scrape::of(scratch.path()).get("homeostat_compilations_total", &[("result", result)]);
    assert!(counted("compile-memory") >= 1.0 && counted("compile-time") == 0.0);
    eventually_built("the other component to be compiled", || (counted("good") >= 1.0).then_some(()));
}

#[test]
fn a_compilation_in_progress_is_shown_and_delays_no_resource_of_the_folder() {
    let (folder, scratch) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    put(folder.path(), "bomb", &time_bomb());
    std::fs::write(folder.path().join("crd.yaml"), include_str!("crontabs.yaml")).unwrap();
    let tab = "apiVersion: stable.example.com/v1\nkind: CronTab\nmetadata: {name: nightly}\nspec: {schedule: \"0 3 * * *\"}\n";
    std::fs::write(folder.path().join("tab.yaml"), tab).unwrap();
    let host = HostProcess::spawn("run", folder.path(), scratch.path(), &["--compile-time", "3m"]);
    host.until("controller", "bomb", "/status/state", &"compiling".into());
    host.wait_for_stderr("crontab.stable.example.com/nightly created");
    let event = || host.json(&["events", "--controller", "bomb"]).to_string().contains("\"Compiling\"").then_some(());
    eventually_blocking("the event", event);
    let table = host.ask(&["get", "controllers"]).stdout;
    assert!(table.lines().any(|line| line.starts_with("bomb") && line.contains("Compiling ")), "{table}");
    let top = host.ask(&["top"]);
    assert!(top.stderr.starts_with("Compiling: bomb "), "{top:?}");
    host.wait_for_stderr("its component is being compiled");
    // The command works although the controller has no queue yet.
    assert_eq!(host.ask(&["queue"]).code, Some(0));
    host.kill();
}

/// Returns a child process of `parent`, if it has one.
#[cfg(target_os = "linux")]
fn child_of(parent: u32) -> Option<u32> {
    let processes =
        std::fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let is_child = |process: &u32| {
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        // The state and the parent follow the name, which may contain any character.
        stat.rsplit_once(") ")
            .and_then(|(_, rest)| rest.split(' ').nth(1))
            .is_some_and(|number| number == parent.to_string())
    };
    processes.into_iter().find(is_child)
}

#[cfg(target_os = "linux")]
#[test]
fn a_compiler_has_the_limits_of_the_command_line_and_ends_with_its_host() {
    let (folder, scratch) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    put(folder.path(), "bomb", &time_bomb());
    let bounds = ["--compile-time", "3m", "--compile-memory", "1Gi"];
    let host = HostProcess::spawn("run", folder.path(), scratch.path(), &bounds);
    let of = |process: u32, name: &str| std::fs::read_to_string(format!("/proc/{process}/{name}")).unwrap_or_default();
    let bound = |process: u32| {
        let limits = of(process, "limits");
        let rows = [
            "Max cpu time 180 181",
            "Max file size 0 0",
            "Max data size 1073741824 1073741824",
            "Max core file size 0 0",
        ];
        let limits: Vec<String> =
            limits.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        rows.iter().all(|row| limits.iter().any(|line| line.starts_with(row)))
    };
    let compiler =
        eventually_built("a compiler with its limits", || child_of(host.id()).filter(|process| bound(*process)));
    assert_eq!(of(compiler, "environ").trim_end_matches('\0'), "MIMALLOC_ARENA_RESERVE=65536");
    // The process group, and the nice value: 10 above the host's, at most 19.
    let group_and_nice = |process: u32| {
        let stat = of(process, "stat");
        let fields: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
        (fields[2].parse::<u32>().unwrap(), fields[16].parse::<i32>().unwrap())
    };
    let (_, nice) = group_and_nice(host.id());
    assert_eq!(group_and_nice(compiler), (compiler, (nice + 10).min(19)));
    host.kill();
    eventually_built("the compiler to end with its host", || {
        let stat = of(compiler, "stat");
        // A dead process is a zombie until its parent waits for it.
        (stat.is_empty() || stat.contains(") Z ")).then_some(())
    });
}
