use std::sync::Arc;

use super::Recorder;
use crate::call::new_call;
use crate::effect::{Answer, Effect, Effects, EntryPoint, Exchange};
use crate::layers::EmptyWorld;

async fn ask(recorder: &Recorder<EmptyWorld>, bytes: u32) -> Answer {
    recorder.perform(&new_call(&Arc::from("test"), EntryPoint::Reconcile, None), Effect::Random { bytes }).await
}

#[tokio::test]
async fn effects_are_recorded_in_order_and_taken_once() {
    let recorder = Recorder::new(EmptyWorld);
    for bytes in [1, 2] {
        ask(&recorder, bytes).await;
    }
    let exchange = |bytes: u32| Exchange {
        effect: Effect::Random { bytes },
        answer: Answer::Bytes(vec![0; bytes as usize].into()),
    };
    assert_eq!(recorder.take(), Some(vec![exchange(1), exchange(2)]));
    assert_eq!(recorder.take(), Some(Vec::new()));
}

#[tokio::test]
async fn a_recording_beyond_its_bound_is_dropped_and_effects_are_still_answered() {
    let recorder = Recorder::within(1000, EmptyWorld);
    for bytes in [100, 1000, 100] {
        assert_eq!(ask(&recorder, bytes).await, Answer::Bytes(vec![0; bytes as usize].into()));
    }
    assert_eq!(recorder.kept().exchanges.capacity(), 0, "a recording that is torn holds no memory");
    assert_eq!(recorder.take(), None);
    ask(&recorder, 1).await;
    assert_eq!(recorder.take().map(|exchanges| exchanges.len()), Some(1), "the next call begins anew");
}
