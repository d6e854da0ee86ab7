use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::{CompilationCounts, CompileTask, Compiler, CompilerExit};
use crate::engine::Engine;
use crate::fixture;
use crate::limits::LimitName;
use crate::load_error::Reason;
use crate::options::EngineOptions;
use crate::tier::Tier;

/// Creates an engine whose compiler is a shell script. `$0` is its task.
fn engine(script: &str, options: EngineOptions) -> Engine {
    let arguments = ["-c", script].map(str::to_owned).into();
    let environment = [("PATH".to_owned(), "/bin:/usr/bin".to_owned())].into();
    let compiler = Some(Compiler { program: PathBuf::from("/bin/sh"), arguments, environment });
    Engine::new(EngineOptions { instances_max: 1, compiler, ..options }).unwrap()
}

/// Loads a valid component with that compiler, and returns the reason of the refusal.
async fn refusal(script: &str, options: EngineOptions) -> Reason {
    let engine = engine(script, options);
    let mut refused = engine.load(fixture::good()).await.unwrap_err();
    assert_eq!(refused.reasons.len(), 1, "{refused}");
    refused.reasons.remove(0)
}

fn hit(reason: &Reason) -> Option<LimitName> {
    if let Reason::Limit { limit, .. } = reason { Some(*limit) } else { None }
}

#[tokio::test]
async fn a_killed_compiler_is_distinguished_from_a_bad_component_and_a_retry_works() {
    let folder = tempfile::tempdir().unwrap();
    let code = folder.path().join("code");
    std::fs::write(&code, Engine::new(one()).unwrap().pooled().engine.precompile_component(&fixture::good()).unwrap())
        .unwrap();
    let second = folder.path().join("second");
    let script = format!(
        "cat > /dev/null; [ -e {second} ] && exec cat {code}; echo > {second}; kill -9 $$",
        code = code.display(),
        second = second.display()
    );
    let engine = engine(&script, EngineOptions::default());
    let refused = engine.load(fixture::good()).await.unwrap_err();
    let text = refused.to_string();
    assert!(matches!(refused.reasons.as_slice(), [Reason::Compiler { .. }]), "{text}");
    assert!(text.contains("signal: 9") && text.contains("try again"), "{text}");
    engine.load(fixture::good()).await.unwrap();
    assert_eq!(engine.compilation_counts(), CompilationCounts { good: 1, failed: 1, ..CompilationCounts::default() });
}

#[tokio::test]
async fn invalid_types_are_refused_before_anything_is_compiled() {
    let folder = tempfile::tempdir().unwrap();
    let ran = folder.path().join("ran");
    let engine = engine(&format!("echo > {}; exec cat > /dev/null", ran.display()), EngineOptions::default());
    let reconciler = "homeostat:reconciler/reconciler@0.1.0";
    let refused = [
        "(component (import \"wasi:nn/graph@0.2.0\" (instance)))".to_owned(),
        "(component)".to_owned(),
        format!("(component (instance $empty) (export \"{reconciler}\" (instance $empty)))"),
        "(component (import \"homeostat:reconciler/watches@0.1.0\" (instance (export \"unfollow\" (func)))))"
            .to_owned(),
    ];
    for text in refused {
        engine.load(wat::parse_str(&text).unwrap()).await.unwrap_err();
        assert!(!ran.exists(), "{text}");
    }
    engine.load(fixture::good()).await.unwrap_err();
    assert!(ran.exists(), "what is not refused is compiled");
}

#[tokio::test]
async fn an_endless_compilation_ends_under_the_name_of_its_limit() {
    let options = || EngineOptions { compile_time: Duration::from_millis(25), ..EngineOptions::default() };
    // A script that waits, one that does not read, one that reads but never answers, and one that writes
    // without end.
    for script in ["kill -STOP $$", "while :; do :; done", "exec cat > /dev/null < /dev/zero", "while :; do echo; done"]
    {
        let reason = refusal(script, options()).await;
        assert_eq!(hit(&reason), Some(LimitName::CompileTime), "{script}: {reason}");
        assert!(
            reason.to_string().contains("limit compile-time: the compilation did not end within 100ms"),
            "{reason}"
        );
    }
}

#[tokio::test]
async fn an_endless_answer_of_the_compiler_is_cut_off() {
    let options = EngineOptions { compile_memory_bytes_max: 1 << 20, ..EngineOptions::default() };
    let reason = refusal("exec cat /dev/zero", options).await;
    assert_eq!(hit(&reason), Some(LimitName::CompileMemory), "{reason}");
}

#[tokio::test]
async fn a_component_beyond_the_compiler_limits_is_refused_with_what_it_needs() {
    let script = "cat > /dev/null; printf 'multiple memories'; exit 70";
    let reason = refusal(script, EngineOptions::default()).await;
    assert_eq!(reason, Reason::Unsupported { needs: "multiple memories".to_owned() });
    let text = reason.to_string();
    assert!(text.contains("needs") && !text.contains("try again") && !text.contains("panicked"), "{text}");
}

#[tokio::test]
async fn an_answer_of_the_compiler_that_is_no_code_is_refused() {
    for script in ["cat > /dev/null", "cat", "echo what is no code", "exit 3", "no-such-program"] {
        let reason = refusal(script, EngineOptions::default()).await;
        assert!(matches!(reason, Reason::Compiler { .. }), "{script}: {reason}");
    }
    let program = PathBuf::from("/no/such/program");
    let compiler = Some(Compiler { program, arguments: Vec::new(), environment: Default::default() });
    let engine = Engine::new(EngineOptions { compiler, ..one() }).unwrap();
    let text = engine.load(fixture::good()).await.unwrap_err().to_string();
    assert!(text.contains("/no/such/program: No such file"), "{text}");
}

#[tokio::test]
async fn the_compiler_process_inherits_no_environment_and_no_open_file() {
    let held = tempfile::Builder::new().prefix("held-by-the-host").tempfile().unwrap();
    let script = "/usr/bin/env >&2; ls -l /proc/self/fd >&2; exit 1";
    let said = refusal(script, EngineOptions::default()).await.to_string();
    assert!(said.contains("2 -> pipe:"), "{said}");
    assert!(["HOME=", "CARGO", "held-by-the-host"].iter().all(|name| !said.contains(name)), "{said}");
    drop(held);
}

#[tokio::test]
async fn compilations_run_one_after_another_and_cached_code_does_not_wait() {
    let folder = tempfile::tempdir().unwrap();
    let compiled = Some(folder.path().join("compiled"));
    Engine::new(EngineOptions { compiled: compiled.clone(), ..one() }).unwrap().load(fixture::good()).await.unwrap();
    let running = folder.path().join("running");
    let end = folder.path().join("end");
    let script = format!("echo >> {}; until [ -e {} ]; do sleep 0.01; done; exit 1", running.display(), end.display());
    let engine = engine(&script, EngineOptions { compiled, ..EngineOptions::default() });
    let begun = || std::fs::read(&running).map_or(0, |lines| lines.len());
    let waiting: Vec<_> = (0..4)
        .map(|number| {
            let (engine, bytes) = (engine.clone(), fixture::guest("global.get $spec", &format!("i32.const {number}")));
            tokio::spawn(async move { engine.load(bytes).await })
        })
        .collect();
    let bound = Instant::now() + Duration::from_secs(60);
    while begun() < 2 {
        assert!(Instant::now() < bound, "{} have begun", begun());
        tokio::task::yield_now().await;
    }
    engine.load(fixture::good()).await.unwrap();
    assert_eq!(begun(), 2);
    std::fs::write(end, "").unwrap();
    for loaded in waiting {
        loaded.await.unwrap().unwrap_err();
    }
    assert_eq!((begun(), engine.compilation_counts().failed), (4, 4));
}

#[test]
fn a_compiler_task_survives_encoding_and_decoding() {
    let task = CompileTask {
        time: Duration::from_millis(1500),
        memory_bytes_max: 7,
        parallel: false,
        tier: Tier::Baseline,
        background: true,
    };
    let text = r#"{"timeMs":1500,"memoryBytesMax":7,"parallel":false,"tier":"baseline","background":true}"#;
    assert_eq!(task.to_string(), text);
    assert_eq!(task.to_string().parse::<CompileTask>().unwrap(), task);
    assert!("{}".parse::<CompileTask>().is_err());
    for ended in [CompilerExit::Compiled, CompilerExit::Malformed, CompilerExit::GaveUp, CompilerExit::NoMemory] {
        assert_eq!(CompilerExit::of(ended.code().into()), Some(ended));
    }
}

fn one() -> EngineOptions {
    EngineOptions { instances_max: 1, ..EngineOptions::default() }
}
