use std::sync::Arc;

use homeostat_store::{Key, Kind, Precondition, Propagation, View, Write};

use super::{EffectTotals, LimitHit, Limited};
use crate::call::new_call;
use crate::effect::{Answer, Effect, EffectClass, Effects, EntryPoint, Level, StoreError};
use crate::layers::EmptyWorld;
use crate::limits::LimitName;
use crate::limits::Limits;

fn key() -> Key {
    Key::new(Kind::new("", "v1", "Thing"), "default", "a")
}

async fn perform(limited: &Limited<EmptyWorld>, effect: Effect) -> Answer {
    limited.perform(&new_call(&Arc::from("test"), EntryPoint::Reconcile, None), effect).await
}

#[tokio::test]
async fn an_effect_beyond_a_limit_is_answered_with_the_limit() {
    let limited = Limited::new(Limits { effects_max: 1, ..Limits::default() }, EmptyWorld);
    assert_eq!(perform(&limited, Effect::WallClock).await, Answer::Nanoseconds(1));
    let over = perform(&limited, Effect::WallClock).await;
    let message = "more than 1 effects in one call".to_owned();
    assert_eq!(over, Answer::Limit { limit: LimitName::Effects, message });
}

#[tokio::test]
async fn a_reconcile_that_follows_too_many_resources_hits_the_limit() {
    let limited = Limited::new(Limits::default(), EmptyWorld);
    let follow = || Effect::Follow { target: key() };
    for _ in 0..64 {
        assert!(matches!(perform(&limited, follow()).await, Answer::Done(Err(StoreError::NotFound(_)))));
    }
    assert!(matches!(perform(&limited, follow()).await, Answer::Done(Err(StoreError::TooLarge(_)))));
    assert_eq!(perform(&limited, Effect::WallClock).await, Answer::Nanoseconds(1), "it may go on");
}

#[test]
fn the_usage_of_a_call_does_not_count_for_the_next_one() {
    let limits = Limits { log_lines_max: 2, ..Limits::default() };
    for _ in 0..3 {
        let limited = Limited::new(limits.clone(), EmptyWorld);
        assert_eq!(limited.charge_log(1, 2), Ok(()));
        let Err(LimitHit { limit, .. }) = limited.charge_log(1, 1) else { panic!("a third line") };
        assert_eq!(limit, LimitName::LogLines);
    }
}

async fn passed(effects: Vec<Effect>) -> EffectTotals {
    let limited = Limited::new(Limits::default(), EmptyWorld);
    for effect in effects {
        perform(&limited, effect).await;
    }
    limited.totals()
}

#[tokio::test]
async fn effects_count_in_their_class_and_log_lines_in_none() {
    let line = || Effect::Log { level: Level::Info, message: "said".to_owned(), fields: Vec::new() };
    let delete = Write::Delete {
        key: key(),
        precondition: Precondition::default(),
        propagation: Propagation::Orphan,
        grace_seconds: None,
    };
    let get = Effect::Get { key: key(), view: View::Whole, live: false };
    let EffectTotals { effects, .. } =
        passed(vec![get, Effect::Write(delete), Effect::WallClock, line(), line()]).await;
    let counts = EffectClass::ALL.map(|class| (class.as_str(), effects.of(class)));
    let used: Vec<_> = counts.into_iter().filter(|(_, count)| *count > 0).collect();
    assert_eq!(used, [("get", 1), ("write", 1), ("log", 2), ("clock", 1)]);
    assert_eq!(effects.total(), 3);
}

#[tokio::test]
async fn sent_and_received_bytes_are_counted_apart() {
    let nothing = passed(vec![Effect::WallClock]).await;
    let drawn = passed(vec![Effect::Random { bytes: 1000 }]).await;
    assert_eq!((drawn.bytes_in - nothing.bytes_in, drawn.bytes_out), (1000, nothing.bytes_out));
    let message = "x".repeat(500);
    let said = passed(vec![Effect::Log { level: Level::Info, message, fields: Vec::new() }]).await;
    assert_eq!((said.bytes_out - nothing.bytes_out, said.bytes_in), (500, nothing.bytes_in));
}

#[tokio::test]
async fn an_effect_that_a_limit_refuses_is_not_counted() {
    let limited = Limited::new(Limits { effects_max: 1, ..Limits::default() }, EmptyWorld);
    perform(&limited, Effect::WallClock).await;
    let before = limited.totals();
    perform(&limited, Effect::WallClock).await;
    assert_eq!(limited.totals(), before);
}
