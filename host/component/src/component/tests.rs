mod foreign;
mod hostile;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use homeostat_store::{Key, Kind};

use super::Component;
use crate::call::new_call;
use crate::effect::{Answer, Call, Effect, Effects, EntryPoint};
use crate::fixture::{self, engine};
use crate::instances::CallSession;
use crate::limits::LimitName;
use crate::limits::Limits;
use crate::load_error::Reason;
use crate::outcome::{CallReport, Fault, Outcome};

const FOREVER: &str = "(loop $again (br $again)) unreachable";
const READ_THE_CLOCK: &str = "(drop (call $now)) global.get $settled";
const READ_THE_CLOCK_FOREVER: &str = "(loop $again (drop (call $now)) (br $again)) unreachable";
const GROW_FOREVER: &str = "(loop $again (drop (memory.grow (i32.const 1))) (br $again)) unreachable";

/// A clock that can be slow to answer.
#[derive(Default)]
struct Clock {
    delay: Duration,
    wrong: bool,
    reads: AtomicU32,
}

#[async_trait]
impl Effects for Clock {
    async fn perform(&self, call: &Call, effect: Effect) -> Answer {
        assert_eq!((call.entry, effect), (EntryPoint::Reconcile, Effect::MonotonicClock));
        self.reads.fetch_add(1, Ordering::SeqCst);
        tokio::time::sleep(self.delay).await;
        if self.wrong { Answer::Unit } else { Answer::Nanoseconds(1) }
    }
}

async fn load(reconcile: &str) -> Component {
    engine(2).load(fixture::guest("global.get $spec", reconcile)).await.unwrap()
}

async fn run(component: &Component, limits: Limits, clock: Clock) -> CallReport<Outcome> {
    let key = Key::new(Kind::new("", "v1", "Thing"), "default", "a");
    component.reconcile(&mut CallSession::new("test"), &key, &limits, Arc::new(clock)).await
}

fn limit(report: &CallReport<Outcome>) -> LimitName {
    match &report.result {
        Err(Fault::Limit { limit, .. }) => *limit,
        other => panic!("{other:?}"),
    }
}

async fn reason(describe: &str) -> String {
    let refused = engine(1).load(fixture::guest(describe, "global.get $settled")).await;
    let reasons = refused.unwrap_err().reasons;
    assert!(matches!(reasons.as_slice(), [Reason::Describe { .. } | Reason::Description { .. }]), "{reasons:?}");
    reasons[0].to_string()
}

#[test]
fn calls_have_unique_numbers_on_all_threads() {
    let numbers = || -> Vec<u64> {
        let name = Arc::from("test");
        (0..3000).map(|_| new_call(&name, EntryPoint::Map, None).id).collect()
    };
    let threads: Vec<_> = (0..4).map(|_| std::thread::spawn(numbers)).collect();
    let all: Vec<u64> = threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
    let distinct: std::collections::HashSet<u64> = all.iter().copied().collect();
    assert_eq!(distinct.len(), all.len());
}

#[tokio::test]
async fn a_loaded_component_reports_its_kind_imports_and_digest() {
    let component = load("global.get $settled").await;
    let manages = &component.describe().manages;
    assert_eq!((manages.kind.to_string().as_str(), manages.plural.as_str()), ("v1/Thing", "things"));
    assert!(manages.namespaced && !manages.keys_only);
    assert_eq!(component.imports(), ["wasi:clocks/monotonic-clock@0.2.0"]);
    assert_eq!(component.exports(), super::Exports::default());
    assert!(component.info().pooled && component.digest().as_str().starts_with("sha256:"));
}

#[tokio::test]
async fn an_endless_describe_is_refused() {
    assert!(reason("unreachable").await.contains("unreachable"));
    assert!(reason(FOREVER).await.contains("limit cpu"));
}

#[tokio::test]
async fn clocks_stand_still_during_describe() {
    let once = "(if (i64.ne (call $now) (call $now)) (then unreachable)) global.get $spec";
    let component = engine(1).load(fixture::guest(once, "global.get $settled")).await.unwrap();
    assert_eq!(component.describe().manages.plural, "things");
}

#[tokio::test]
async fn a_description_out_of_range_is_refused() {
    let text = reason("(i32.store (i32.const 1052) (i32.const 0)) global.get $spec").await;
    assert!(text.contains("manages.plural"), "{text}");
}

#[tokio::test]
async fn a_call_reports_its_outcome_and_what_it_cost() {
    let report = run(&load(READ_THE_CLOCK).await, Limits::default(), Clock::default()).await;
    assert_eq!(report.result, Ok(Outcome::Settled));
    assert_eq!((report.cost.effects.total(), report.cost.memory_bytes_max), (1, 64 << 10));
    assert!(report.cost.cpu > Duration::ZERO && report.cost.cpu <= report.cost.wall, "{:?}", report.cost);
}

#[tokio::test]
async fn a_call_sees_no_state_of_the_previous_call() {
    let once = "(if (i32.load (i32.const 3000)) (then unreachable)) (i32.store (i32.const 3000) (i32.const 1)) global.get $settled";
    let component = load(once).await;
    for _ in 0..10 {
        assert_eq!(run(&component, Limits::default(), Clock::default()).await.result, Ok(Outcome::Settled));
    }
}

#[tokio::test]
async fn an_endless_guest_is_stopped_at_its_limit_of_processor_time() {
    let limits = Limits { cpu: Duration::from_millis(50), ..Limits::default() };
    let report = run(&load(FOREVER).await, limits, Clock::default()).await;
    assert_eq!(limit(&report), LimitName::Cpu);
    assert!(report.cost.cpu >= Duration::from_millis(50), "{:?}", report.cost);
}

#[tokio::test]
async fn a_waiting_guest_is_stopped_at_its_deadline_and_uses_no_processor_time() {
    let limits = Limits { deadline: Duration::from_millis(200), cpu: Duration::from_millis(190), ..Limits::default() };
    let clock = Clock { delay: Duration::from_secs(3600), ..Clock::default() };
    let report = run(&load(READ_THE_CLOCK).await, limits, clock).await;
    assert_eq!(limit(&report), LimitName::Deadline);
    assert!(report.cost.wall >= Duration::from_millis(200) && report.cost.cpu < report.cost.wall, "{:?}", report.cost);
}

#[tokio::test]
async fn endless_effects_are_stopped_at_their_limit() {
    let limits = Limits { effects_max: 10, ..Limits::default() };
    let report = run(&load(READ_THE_CLOCK_FOREVER).await, limits, Clock::default()).await;
    assert_eq!(limit(&report), LimitName::Effects);
    assert_eq!(report.cost.effects.total(), 10);
}

#[tokio::test]
async fn endless_memory_growth_is_stopped_under_the_name_of_its_limit() {
    let limits = Limits { memory_bytes_max: 1 << 20, ..Limits::default() };
    let report = run(&load(GROW_FOREVER).await, limits, Clock::default()).await;
    assert_eq!(limit(&report), LimitName::Memory);
    assert_eq!(report.cost.memory_bytes_max, 1 << 20);
}

#[tokio::test]
async fn a_crash_is_a_trap() {
    let report = run(&load("unreachable").await, Limits::default(), Clock::default()).await;
    assert!(matches!(&report.result, Err(Fault::Trap { message }) if message.contains("unreachable")), "{report:?}");
}

#[tokio::test]
async fn an_answer_of_the_wrong_type_traps_the_guest_and_not_the_host() {
    let clock = Clock { wrong: true, ..Clock::default() };
    let report = run(&load(READ_THE_CLOCK).await, Limits::default(), clock).await;
    assert!(matches!(&report.result, Err(Fault::Trap { message }) if message.contains("Unit")), "{report:?}");
}

#[tokio::test]
async fn calls_above_the_number_of_instances_wait() {
    let component = load(READ_THE_CLOCK).await;
    let calls = (0..20).map(|_| {
        let component = component.clone();
        let clock = Clock { delay: Duration::from_millis(5), ..Clock::default() };
        tokio::spawn(async move { run(&component, Limits::default(), clock).await })
    });
    for call in calls.collect::<Vec<_>>() {
        assert_eq!(call.await.unwrap().result, Ok(Outcome::Settled));
    }
    assert_eq!(component.0.engine.instances_free(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn busy_guests_do_not_keep_others_from_running() {
    let engine = engine(8);
    let hog = engine.load(fixture::guest("global.get $spec", FOREVER)).await.unwrap();
    let modest = engine.load(fixture::good()).await.unwrap();
    let hogs: Vec<_> = (0..4)
        .map(|_| {
            let hog = hog.clone();
            tokio::spawn(async move {
                let limits = Limits { cpu: Duration::from_secs(20), ..Limits::default() };
                run(&hog, limits, Clock::default()).await
            })
        })
        .collect();
    let served = tokio::spawn(async move {
        for _ in 0..50 {
            let report = run(&modest, Limits::default(), Clock::default()).await;
            assert_eq!(report.result, Ok(Outcome::Settled));
        }
    });
    let within = tokio::time::timeout(Duration::from_secs(10), served).await;
    for hog in &hogs {
        assert!(!hog.is_finished());
        hog.abort();
    }
    within.expect("fifty calls are served beside four hogs").unwrap();
}

#[tokio::test]
async fn a_call_that_is_dropped_gives_its_instance_back() {
    let component = load(FOREVER).await;
    let run = run(&component, Limits::default(), Clock::default());
    tokio::time::timeout(Duration::from_millis(20), run).await.unwrap_err();
    assert_eq!(component.0.engine.instances_free(), 2);
}
