mod meter;
mod state;

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use homeostat_store::{Key, Kind, Precondition, Propagation, Write};

use super::CallContext;
use crate::call::new_call;
use crate::effect::{Answer, Blob, Call, Effect, Effects, EntryPoint, Level, Severity};
use crate::limits::LimitName;
use crate::limits::Limits;

#[derive(Default)]
struct Recorder(Mutex<Vec<Effect>>);

#[async_trait]
impl Effects for Recorder {
    async fn perform(&self, _: &Call, effect: Effect) -> Answer {
        let answer = match effect {
            Effect::Random { bytes } => Answer::Bytes(Blob::from(vec![0; bytes as usize])),
            _ => Answer::Unit,
        };
        self.0.lock().unwrap().push(effect);
        answer
    }
}

fn port(limits: Limits) -> (CallContext, Arc<Recorder>) {
    let recorder = Arc::new(Recorder::default());
    let call = new_call(&Arc::from("test"), EntryPoint::Reconcile, None);
    (CallContext::new(call, &limits, recorder.clone()), recorder)
}

fn line(message: &str) -> Effect {
    Effect::Log { level: Level::Info, message: message.to_owned(), fields: Vec::new() }
}

#[tokio::test]
async fn an_effect_above_the_limit_is_not_performed() {
    let (port, recorder) = port(Limits { effects_max: 3, ..Limits::default() });
    for _ in 0..3 {
        port.perform(Effect::WallClock).await.unwrap();
    }
    assert!(port.first_hit().is_none());
    port.perform(Effect::WallClock).await.unwrap_err();
    assert_eq!(port.first_hit().unwrap().limit, LimitName::Effects);
    assert_eq!(recorder.0.lock().unwrap().len(), 3);
    assert_eq!(port.cost().effects.total(), 3);
}

#[tokio::test]
async fn bytes_of_effects_and_answers_count_together() {
    let (port, _) = port(Limits { effect_bytes_max: 3000, ..Limits::default() });
    port.perform(Effect::Random { bytes: 1000 }).await.unwrap();
    port.perform(Effect::Random { bytes: 1000 }).await.unwrap();
    port.perform(Effect::Random { bytes: 1000 }).await.unwrap_err();
    assert_eq!(port.first_hit().unwrap().limit, LimitName::EffectBytes);
}

#[tokio::test]
async fn an_effect_that_is_too_large_is_not_performed() {
    let (port, recorder) = port(Limits { effect_bytes_max: 3000, ..Limits::default() });
    let event = |bytes: usize| {
        let (reason, message) = ("Told".to_owned(), "m".repeat(bytes));
        Effect::Emit { severity: Severity::Normal, reason, message, regarding: None }
    };
    port.perform(event(1000)).await.unwrap();
    port.perform(event(3000)).await.unwrap_err();
    assert_eq!(port.first_hit().unwrap().limit, LimitName::EffectBytes);
    assert_eq!(recorder.0.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn log_lines_count_by_their_bytes_and_not_as_effects() {
    let (port, _) = port(Limits { effects_max: 0, log_bytes_max: 1000, ..Limits::default() });
    port.log(line("short")).await.unwrap();
    assert_eq!(port.cost().effects.total(), 0);
    port.log(line(&"long".repeat(1000))).await.unwrap_err();
    assert_eq!(port.first_hit().unwrap().limit, LimitName::LogBytes);
}

#[tokio::test]
async fn log_lines_have_their_own_limit_however_they_are_written() {
    let (port, recorder) = port(Limits { log_lines_max: 3, ..Limits::default() });
    port.log(line("one")).await.unwrap();
    port.write_output(Level::Info, b"two\nthree\nand no end").unwrap();
    assert!(port.first_hit().is_none());
    port.write_output(Level::Warn, b"four\n").unwrap_err();
    assert_eq!(port.first_hit().unwrap().limit, LimitName::LogLines);
    port.finish_output().await.unwrap();
    // Lines before the limit are kept; the line that exceeded it is dropped.
    assert_eq!(*recorder.0.lock().unwrap(), [line("one"), line("two"), line("three"), line("and no end")]);
}

fn deletion() -> Effect {
    let key = Key::new(Kind::new("", "v1", "Thing"), "default", "a");
    Effect::Write(Write::Delete {
        key,
        precondition: Precondition::default(),
        propagation: Propagation::Background,
        grace_seconds: None,
    })
}

fn event() -> Effect {
    Effect::Emit { severity: Severity::Normal, reason: "Said".to_owned(), message: String::new(), regarding: None }
}

#[tokio::test]
async fn writes_and_events_have_limits_of_their_own() {
    for (effect, limit) in [(deletion as fn() -> Effect, LimitName::Writes), (event, LimitName::Events)] {
        let (port, recorder) = port(Limits { writes_max: 2, events_max: 2, ..Limits::default() });
        for _ in 0..2 {
            port.perform(Effect::WallClock).await.unwrap();
            port.perform(effect()).await.unwrap();
        }
        port.perform(effect()).await.unwrap_err();
        assert_eq!(port.first_hit().unwrap().limit, limit);
        assert_eq!(recorder.0.lock().unwrap().len(), 4);
    }
}

#[tokio::test]
async fn an_answer_that_is_too_large_for_one_call_does_not_reach_the_guest() {
    let (port, _) = port(Limits { transfer_bytes_max: 4096, ..Limits::default() });
    port.perform(Effect::Random { bytes: 4000 }).await.unwrap();
    port.perform(Effect::Random { bytes: 5000 }).await.unwrap_err();
    assert_eq!(port.first_hit().unwrap().limit, LimitName::Transfer);
}

#[tokio::test]
async fn standard_output_is_logged_before_the_next_effect() {
    let (port, recorder) = port(Limits::default());
    port.write_output(Level::Info, b"first\nthen ").unwrap();
    port.perform(Effect::WallClock).await.unwrap();
    port.finish_output().await.unwrap();
    assert_eq!(*recorder.0.lock().unwrap(), [line("first"), Effect::WallClock, line("then ")]);
}

#[tokio::test]
async fn the_first_limit_that_a_call_hits_is_the_one_reported() {
    let (port, _) = port(Limits { effects_max: 0, ..Limits::default() });
    port.perform(Effect::WallClock).await.unwrap_err();
    let error = port.hit(LimitName::Memory, "later".to_owned());
    assert!(error.to_string().contains("memory"));
    assert_eq!(port.first_hit().unwrap().limit, LimitName::Effects);
}
