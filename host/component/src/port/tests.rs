use std::sync::{Arc, Mutex};

use async_trait::async_trait;

use super::Port;
use crate::component::new_call;
use crate::effect::{Answer, Blob, Call, Effect, Effects, Entry, Level};
use crate::limits::Limits;
use crate::outcome::LimitName;

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

fn port(limits: Limits) -> (Port, Arc<Recorder>) {
    let recorder = Arc::new(Recorder::default());
    let call = new_call(&Arc::from("test"), Entry::Reconcile, None);
    (Port::new(call, &limits, recorder.clone()), recorder)
}

fn line(message: &str) -> Effect {
    Effect::Log { level: Level::Info, message: message.to_owned(), fields: Vec::new() }
}

#[tokio::test]
async fn one_effect_more_than_allowed_is_not_performed() {
    let (port, recorder) = port(Limits { effects_max: 3, ..Limits::default() });
    for _ in 0..3 {
        port.perform(Effect::WallClock).await.unwrap();
    }
    assert!(port.first_hit().is_none());
    port.perform(Effect::WallClock).await.unwrap_err();
    assert_eq!(port.first_hit().unwrap().limit, LimitName::Effects);
    assert_eq!(recorder.0.lock().unwrap().len(), 3);
    assert_eq!(port.cost().effects, 3);
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
async fn lines_of_the_log_count_by_their_bytes_and_not_as_effects() {
    let (port, _) = port(Limits { effects_max: 0, log_bytes_max: 1000, ..Limits::default() });
    port.log(line("short")).await.unwrap();
    assert_eq!(port.cost().effects, 0);
    port.log(line(&"long".repeat(1000))).await.unwrap_err();
    assert_eq!(port.first_hit().unwrap().limit, LimitName::LogBytes);
}

#[tokio::test]
async fn standard_output_comes_before_the_effect_that_follows_it() {
    let (port, recorder) = port(Limits::default());
    port.write_output(Level::Info, b"first\nthen ").unwrap();
    port.perform(Effect::WallClock).await.unwrap();
    port.finish_output().await.unwrap();
    assert_eq!(*recorder.0.lock().unwrap(), [line("first"), Effect::WallClock, line("then ")]);
}

#[tokio::test]
async fn the_first_limit_that_is_hit_stays() {
    let (port, _) = port(Limits { effects_max: 0, ..Limits::default() });
    port.perform(Effect::WallClock).await.unwrap_err();
    let error = port.hit(LimitName::Memory, "later".to_owned());
    assert!(error.to_string().contains("memory"));
    assert_eq!(port.first_hit().unwrap().limit, LimitName::Effects);
}

#[test]
fn a_reconcile_may_follow_so_many_and_no_more() {
    let (port, _) = port(Limits::default());
    assert_eq!((0..100).filter(|_| port.may_follow()).count(), 64);
}
