use std::sync::Arc;

use homeostat_store::{Key, Kind};

use super::{LimitHit, Limited};
use crate::call::new_call;
use crate::effect::{Answer, Effect, Effects, EntryPoint, StoreError};
use crate::layers::EmptyWorld;
use crate::limits::LimitName;
use crate::limits::Limits;

async fn perform(limited: &Limited<EmptyWorld>, effect: Effect) -> Answer {
    limited.perform(&new_call(&Arc::from("test"), EntryPoint::Reconcile, None), effect).await
}

#[tokio::test]
async fn an_effect_beyond_a_limit_is_answered_with_the_limit() {
    let limited = Limited::new(Limits { effects_max: 1, ..Limits::default() }, EmptyWorld);
    assert_eq!(perform(&limited, Effect::WallClock).await, Answer::Nanoseconds(0));
    let over = perform(&limited, Effect::WallClock).await;
    let message = "more than 1 effects in one call".to_owned();
    assert_eq!(over, Answer::Limit { limit: LimitName::Effects, message });
}

#[tokio::test]
async fn a_reconcile_may_follow_so_many_and_is_told_of_one_too_many() {
    let limited = Limited::new(Limits::default(), EmptyWorld);
    let follow = || Effect::Follow { target: Key::new(Kind::new("", "v1", "Thing"), "default", "a") };
    for _ in 0..64 {
        assert!(matches!(perform(&limited, follow()).await, Answer::Done(Err(StoreError::NotFound(_)))));
    }
    assert!(matches!(perform(&limited, follow()).await, Answer::Done(Err(StoreError::TooLarge(_)))));
    assert_eq!(perform(&limited, Effect::WallClock).await, Answer::Nanoseconds(0), "it may go on");
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
