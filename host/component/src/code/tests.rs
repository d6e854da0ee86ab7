use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use homeostat_digest::Digest;
use homeostat_store::{Key, Kind};

use super::{Code, Origin};
use crate::engine::Engine;
use crate::fixture::{self, engine};
use crate::layers::EmptyWorld;
use crate::limits::Limits;
use crate::load::compile::compile_or_restore;
use crate::options::EngineOptions;
use crate::outcome::{CallReport, Fault, Outcome, Retry};
use crate::tier::Tier;
use crate::{CallSession, Component, Error};

#[tokio::test]
async fn equal_components_are_compiled_once_and_share_their_code() {
    let engine = engine(2);
    // Three concurrent loads, and a later one.
    let (a, b, c) =
        tokio::join!(engine.load(fixture::good()), engine.load(fixture::good()), engine.load(fixture::good()));
    let (a, b, c) = (a.unwrap(), b.unwrap(), c.unwrap());
    let later = engine.load(fixture::good()).await.unwrap();
    for other in [&b, &c, &later] {
        assert!(Arc::ptr_eq(&a.0.code, &other.0.code));
    }
    let different = engine.load(fixture::guest("global.get $spec", "unreachable")).await.unwrap();
    assert!(!Arc::ptr_eq(&a.0.code, &different.0.code));
}

#[tokio::test]
async fn a_loaded_component_is_loaded_again_without_its_bytes() {
    let engine = engine(2);
    let (good, bad) = (fixture::good(), fixture::guest("global.get $spec", "unreachable"));
    let component = engine.load(good.clone()).await.unwrap();
    let again = engine.load_known(component.digest(), &Limits::default(), &BTreeMap::new()).await.unwrap().unwrap();
    assert!(Arc::ptr_eq(&component.0.code, &again.0.code));
    assert_eq!((again.info(), again.size_bytes()), (component.info(), good.len() as u64));
    assert!(engine.load_known(&Digest::of(&bad), &Limits::default(), &BTreeMap::new()).await.is_none());
    let digest = component.digest().clone();
    drop((component, again));
    assert!(engine.load_known(&digest, &Limits::default(), &BTreeMap::new()).await.is_none(), "nobody has it any more");
}

#[tokio::test]
async fn code_without_users_is_forgotten() {
    let engine = engine(2);
    let code = engine.load(fixture::good()).await.map(|component| Arc::downgrade(&component.0.code)).unwrap();
    assert!(code.upgrade().is_none());
    let different = engine.load(fixture::guest("global.get $spec", "unreachable")).await.unwrap();
    assert_eq!(engine.codes().places.lock().keys().collect::<Vec<_>>(), [different.digest()]);
}

#[tokio::test]
async fn a_component_too_large_for_the_pool_stays_unpooled_from_the_cache() {
    let folder = tempfile::tempdir().unwrap();
    let module = "(core module $m (memory 1))";
    let text = format!("(component {module} {})", "(core instance (instantiate $m))".repeat(5));
    let bytes = wat::parse_str(text).unwrap();
    let made = async || -> Code {
        let compiled = Some(folder.path().join("compiled"));
        let engine = Engine::new(EngineOptions { instances_max: 2, compiled, ..EngineOptions::default() }).unwrap();
        compile_or_restore(&engine, &Digest::of(&bytes), Arc::new(bytes.clone()), Tier::Optimised).await.unwrap()
    };
    let (first, second) = (made().await, made().await);
    assert_eq!((first.origin, second.origin), (Origin::Compiled, Origin::Cache));
    assert!(first.unpooled.is_some() && first.unpooled == second.unpooled, "both say which bound it exceeds");
}

/// The idle time before eviction in these tests, on the test's paused clock.
const REST_AFTER: Duration = Duration::from_secs(10);

fn resting_engine(folder: &Path) -> Engine {
    let compiled = Some(folder.join("compiled"));
    let options =
        EngineOptions { instances_max: 2, compiled, rest_after: Some(REST_AFTER), ..EngineOptions::default() };
    Engine::new(options).unwrap()
}

fn is_in_memory(component: &Component) -> bool {
    component.0.code.current().memory.lock().ready.is_some()
}

async fn call(component: &Component) -> CallReport<Outcome> {
    let key = Key::new(Kind { group: String::new(), version: "v1".into(), name: "Thing".into() }, "default", "it");
    component.reconcile(&mut CallSession::new("test"), &key, &Limits::default(), Arc::new(EmptyWorld)).await
}

/// Waits until a component is evicted, and checks that it is.
async fn let_rest(component: &Component) {
    tokio::time::sleep(REST_AFTER * 3).await;
    assert!(!is_in_memory(component));
}

/// Runs `test` beside a task that evicts idle code.
async fn beside_rest(engine: &Engine, test: impl Future<Output = ()>) {
    tokio::time::pause();
    tokio::select! {
        _ = engine.evict_idle() => {}
        () = test => {}
    }
}

/// Loads the ordinary fixture, and alternates between eviction and calls.
async fn rests_and_answers(engine: &Engine, origin: Origin) {
    let component = engine.load(fixture::good()).await.unwrap();
    assert_eq!((component.0.code.current().origin, engine.components_in_memory()), (origin, 1));
    beside_rest(engine, async {
        for _ in 0..3 {
            let_rest(&component).await;
            assert_eq!(engine.components_in_memory(), 0);
            assert_eq!(call(&component).await.result, Ok(Outcome::Settled));
            assert_eq!(engine.components_in_memory(), 1);
        }
    })
    .await;
}

#[tokio::test]
async fn idle_code_is_evicted_and_loaded_again_by_the_next_call() {
    let folder = tempfile::tempdir().unwrap();
    rests_and_answers(&resting_engine(folder.path()), Origin::Compiled).await;
}

#[tokio::test]
async fn idle_code_from_the_cache_is_evicted_and_loaded_again_by_the_next_call() {
    let folder = tempfile::tempdir().unwrap();
    resting_engine(folder.path()).load(fixture::good()).await.unwrap();
    rests_and_answers(&resting_engine(folder.path()), Origin::Cache).await;
}

#[tokio::test]
async fn code_that_runs_or_is_called_now_and_then_is_not_evicted() {
    let folder = tempfile::tempdir().unwrap();
    let engine = resting_engine(folder.path());
    let component = engine.load(fixture::good()).await.unwrap();
    beside_rest(&engine, async {
        for _ in 0..10 {
            tokio::time::sleep(REST_AFTER - Duration::from_secs(1)).await;
            assert!(is_in_memory(&component));
            call(&component).await.result.unwrap();
        }
        let running = component.0.code.current().ready(engine.codes()).unwrap();
        tokio::time::sleep(REST_AFTER * 5).await;
        assert!(is_in_memory(&component));
        drop(running);
        let_rest(&component).await;
        let mut caller = CallSession::new("test");
        let key = Key::new(Kind::new("", "v1", "Thing"), "default", "it");
        component.reconcile(&mut caller, &key, &Limits::default(), Arc::new(EmptyWorld)).await.result.unwrap();
        tokio::time::sleep(REST_AFTER * 5).await;
        assert!(is_in_memory(&component), "whoever called it last still has it at hand");
        drop(caller);
        let_rest(&component).await;
    })
    .await;
}

#[tokio::test]
async fn idle_code_is_evicted_beside_a_load_of_the_same_component() {
    let folder = tempfile::tempdir().unwrap();
    let engine = resting_engine(folder.path());
    let component = engine.load(fixture::good()).await.unwrap();
    let slot = engine.codes().slot(component.digest());
    beside_rest(&engine, async {
        let load = slot.load.lock().await;
        assert_eq!(engine.components_in_memory(), 1);
        let_rest(&component).await;
        assert_eq!(engine.components_in_memory(), 0);
        drop(load);
    })
    .await;
}

#[tokio::test]
async fn names_that_share_code_share_it_after_an_eviction() {
    let folder = tempfile::tempdir().unwrap();
    let engine = resting_engine(folder.path());
    let one = engine.load(fixture::good()).await.unwrap();
    let other = engine.load(fixture::good()).await.unwrap();
    beside_rest(&engine, async {
        let_rest(&one).await;
        let (ready, same) = (
            one.0.code.current().ready(engine.codes()).unwrap(),
            other.0.code.current().ready(engine.codes()).unwrap(),
        );
        assert!(Arc::ptr_eq(&ready, &same));
    })
    .await;
}

#[tokio::test]
async fn evicted_code_runs_again_after_its_cache_folder_is_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let engine = resting_engine(folder.path());
    let component = engine.load(fixture::good()).await.unwrap();
    beside_rest(&engine, async {
        let_rest(&component).await;
        std::fs::remove_dir_all(folder.path().join("compiled")).unwrap();
        assert_eq!(call(&component).await.result, Ok(Outcome::Settled));
    })
    .await;
}

#[tokio::test]
async fn evicted_code_that_was_changed_on_disk_never_runs() {
    let folder = tempfile::tempdir().unwrap();
    let engine = resting_engine(folder.path());
    let component = engine.load(fixture::good()).await.unwrap();
    let files = std::fs::read_dir(folder.path().join("compiled")).unwrap().map(|file| file.unwrap().path());
    let entry = files.into_iter().find(|path| path.extension().is_some_and(|end| end == "compiled")).unwrap();
    let whole = std::fs::read(&entry).unwrap();
    let mut changed = whole.clone();
    changed[whole.len() / 2] ^= 1;
    beside_rest(&engine, async {
        for bytes in [&changed[..], &whole[..whole.len() - 1], &[]] {
            let_rest(&component).await;
            std::fs::write(&entry, bytes).unwrap();
            let fault = call(&component).await.result.unwrap_err();
            assert!(
                matches!(&fault, Fault::Failure { message, retry: Retry::Backoff } if message.contains("changed on disk")),
                "{fault}"
            );
            std::fs::write(&entry, &whole).unwrap();
            assert_eq!(call(&component).await.result, Ok(Outcome::Settled));
        }
    })
    .await;
}

#[tokio::test]
async fn code_that_is_stored_nowhere_is_not_evicted() {
    let engine = engine(2);
    let component = engine.load(fixture::good()).await.unwrap();
    beside_rest(&engine, async {
        tokio::time::sleep(REST_AFTER * 5).await;
        assert!(is_in_memory(&component));
    })
    .await;
}

#[test]
fn an_eviction_after_zero_idle_time_is_refused() {
    let options = EngineOptions { rest_after: Some(Duration::ZERO), ..EngineOptions::default() };
    assert!(matches!(Engine::new(options), Err(Error::Option { option: "restAfterMs", .. })));
}
