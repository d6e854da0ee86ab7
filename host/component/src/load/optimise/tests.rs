use std::path::{Path, PathBuf};
use std::sync::Arc;

use homeostat_fixtures::demo_key;
use homeostat_testing::{eventually, soon};
use tokio::sync::Semaphore;

use crate::code::Origin;
use crate::compiler::Compiler;
use crate::engine::Engine;
use crate::fixture::{self, Guest, Slow};
use crate::layers::EmptyWorld;
use crate::limits::Limits;
use crate::optimiser::WAITING_BYTES_MAX;
use crate::options::EngineOptions;
use crate::outcome::{Fault, Outcome};
use crate::tier::{Tier, TierPolicy};
use crate::{CallSession, Component};

/// Options with which even the smallest guest gets baseline code first.
fn baseline_first() -> EngineOptions {
    EngineOptions {
        instances_max: 2,
        tiers: TierPolicy::BaselineFirst,
        baseline_function_bytes_min: 0,
        ..EngineOptions::default()
    }
}

fn cached(folder: &Path) -> Engine {
    Engine::new(EngineOptions { compiled: Some(folder.join("compiled")), ..baseline_first() }).unwrap()
}

async fn call(component: &Component, caller: &mut CallSession) -> Result<Outcome, Fault> {
    component.reconcile(caller, &demo_key("Thing", "a"), &Limits::default(), Arc::new(EmptyWorld)).await.result
}

/// Runs the optimiser until the next call of a component runs optimised code.
async fn optimised(engine: &Engine, component: &Component) {
    let replaced = eventually("optimised code", || async { (component.tier() == Tier::Optimised).then_some(()) });
    tokio::select! {
        _ = engine.optimise() => {}
        () = replaced => {}
    }
}

#[tokio::test]
async fn optimised_code_replaces_baseline_code_behind_the_same_component() {
    let engine = Engine::new(baseline_first()).unwrap();
    let component = engine.load(fixture::good()).await.unwrap();
    let shared = engine.load(fixture::good()).await.unwrap();
    let mut caller = CallSession::new("test");
    assert_eq!(call(&component, &mut caller).await, Ok(Outcome::Settled));
    assert_eq!((component.tier(), engine.components_with_baseline_code()), (Tier::Baseline, 1));
    let before = (component.digest().clone(), component.describe().clone());
    optimised(&engine, &component).await;
    assert_eq!(call(&component, &mut caller).await, Ok(Outcome::Settled));
    assert_eq!((component.digest().clone(), component.describe().clone()), before);
    assert_eq!((shared.tier(), engine.components_with_baseline_code()), (Tier::Optimised, 0));
    assert_eq!(engine.compilation_counts().good, 2);
}

#[tokio::test]
async fn a_call_that_runs_during_the_replacement_ends_on_its_own_code() {
    let engine = Engine::new(baseline_first()).unwrap();
    let component =
        engine.load(fixture::guest("global.get $spec", "(drop (call $now)) global.get $settled")).await.unwrap();
    let slow = Arc::new(Slow(Semaphore::new(0)));
    let running = tokio::spawn({
        let (component, slow) = (component.clone(), slow.clone());
        async move {
            let mut caller = CallSession::new("test");
            component.reconcile(&mut caller, &demo_key("Thing", "a"), &Limits::default(), slow).await.result
        }
    });
    eventually("a running call", || async { (engine.instances_free() == 1).then_some(()) }).await;
    optimised(&engine, &component).await;
    slow.0.add_permits(1);
    assert_eq!(soon(running).await.unwrap(), Ok(Outcome::Settled));
}

#[tokio::test]
async fn a_restart_takes_the_best_cached_code_and_optimises_baseline_code() {
    let folder = tempfile::tempdir().unwrap();
    let first = cached(folder.path()).load(fixture::good()).await.unwrap();
    assert_eq!((first.tier(), first.0.code.current().origin), (Tier::Baseline, Origin::Compiled));
    let engine = cached(folder.path());
    let second = engine.load(fixture::good()).await.unwrap();
    assert_eq!((second.tier(), second.0.code.current().origin), (Tier::Baseline, Origin::Cache));
    optimised(&engine, &second).await;
    let third = cached(folder.path()).load(fixture::good()).await.unwrap();
    assert_eq!((third.tier(), third.0.code.current().origin), (Tier::Optimised, Origin::Cache));
    let compiled = |path: PathBuf| path.extension().is_some_and(|end| end == "compiled");
    let files = std::fs::read_dir(folder.path().join("compiled")).unwrap();
    let entries = files.filter(|file| compiled(file.as_ref().unwrap().path())).count();
    assert_eq!(entries, 1, "the baseline code is removed");
}

#[tokio::test]
async fn a_small_component_waits_for_its_optimised_code() {
    let options = EngineOptions { baseline_function_bytes_min: 4 << 10, ..baseline_first() };
    let engine = Engine::new(options).unwrap();
    assert_eq!(engine.load(fixture::good()).await.unwrap().tier(), Tier::Optimised);
    // Data does not count, because it compiles in no time.
    let data = format!("(core module $data (memory 1) (data (i32.const 0) \"{}\"))", "x".repeat(8 << 10));
    let component = engine.load(Guest { parts: &data, ..Guest::default() }.build()).await.unwrap();
    assert_eq!(component.tier(), Tier::Optimised);
    let large = format!("(core module $functions (func {}))", "(drop (i32.const 1))".repeat(4 << 10));
    let component = engine.load(Guest { parts: &large, ..Guest::default() }.build()).await.unwrap();
    assert_eq!(component.tier(), Tier::Baseline);
}

#[tokio::test]
async fn a_load_waits_for_optimised_code_while_too_many_bytes_wait() {
    let engine = Engine::new(baseline_first()).unwrap();
    let room = engine.optimiser().reserve(WAITING_BYTES_MAX).unwrap();
    assert_eq!(engine.load(fixture::good()).await.unwrap().tier(), Tier::Optimised);
    drop(room);
    let other = fixture::guest("global.get $spec", "unreachable");
    assert_eq!(engine.load(other).await.unwrap().tier(), Tier::Baseline);
}

#[tokio::test]
async fn a_component_that_the_baseline_compiler_refuses_gets_optimised_code() {
    let engine = Engine::new(baseline_first()).unwrap();
    let items = "(func $tail (param i32) (result i32) (return_call $tail (local.get 0)))";
    let component = engine.load(Guest { items, ..Guest::default() }.build()).await.unwrap();
    assert_eq!(component.tier(), Tier::Optimised);
    assert_eq!(call(&component, &mut CallSession::new("test")).await, Ok(Outcome::Settled));
}

/// Returns an engine whose compiler process has baseline code, and runs `script` for optimised code.
fn scripted(folder: &Path, script: &str) -> Engine {
    let code = folder.join("code");
    let machine = Engine::new(baseline_first()).unwrap().pooled_of(Tier::Baseline).unwrap();
    std::fs::write(&code, machine.engine.precompile_component(&fixture::good()).unwrap()).unwrap();
    let background = r#"*'"background":true'*"#;
    let script = format!("case $0 in {background}) {script};; *) cat > /dev/null; exec cat {};; esac", code.display());
    let environment = [("PATH".to_owned(), "/bin:/usr/bin".to_owned())].into();
    let arguments = vec!["-c".to_owned(), script];
    let compiler = Some(Compiler { program: PathBuf::from("/bin/sh"), arguments, environment });
    Engine::new(EngineOptions { compiler, ..baseline_first() }).unwrap()
}

#[tokio::test]
async fn a_component_without_users_ends_the_compilation_of_its_optimised_code() {
    let folder = tempfile::tempdir().unwrap();
    let pid = folder.path().join("pid");
    let engine = scripted(
        folder.path(),
        &format!("echo $$ > {pid}.new; mv {pid}.new {pid}; exec sleep 1000", pid = pid.display()),
    );
    let component = engine.load(fixture::good()).await.unwrap();
    let dropped = async {
        eventually("the compiler process", || async { pid.exists().then_some(()) }).await;
        let process = PathBuf::from("/proc").join(std::fs::read_to_string(&pid).unwrap().trim());
        assert!(process.exists());
        drop(component);
        eventually("the end of the compiler process", || async { (!process.exists()).then_some(()) }).await;
    };
    tokio::select! {
        _ = engine.optimise() => {}
        () = dropped => {}
    }
    assert_eq!(engine.compilation_counts().failed, 0);
}

#[tokio::test]
async fn a_component_without_optimised_code_keeps_its_baseline_code_and_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let engine = scripted(folder.path(), "cat > /dev/null; exit 3");
    let component = engine.load(fixture::good()).await.unwrap();
    assert_eq!(component.optimisation_error(), None);
    tokio::select! {
        _ = engine.optimise() => {}
        () = eventually("the error", || async { component.optimisation_error().is_some().then_some(()) }) => {}
    }
    assert!(component.optimisation_error().unwrap().contains("exit status: 3"), "{:?}", component.optimisation_error());
    assert_eq!(component.tier(), Tier::Baseline);
    assert_eq!(call(&component, &mut CallSession::new("test")).await, Ok(Outcome::Settled));
}
