use std::sync::Arc;

use homeostat_store::{Key, Kind, Precondition, Propagation, View, Write};

use super::{EffectCounter, EffectTotals};
use crate::call::new_call;
use crate::effect::{Effect, EffectClass, Effects, EntryPoint, Level};
use crate::layers::EmptyWorld;

fn key() -> Key {
    Key::new(Kind::new("", "v1", "Thing"), "default", "a")
}

async fn passed(effects: Vec<Effect>) -> EffectTotals {
    let accounted = EffectCounter::new(EmptyWorld);
    for effect in effects {
        accounted.perform(&new_call(&Arc::from("test"), EntryPoint::Reconcile, None), effect).await;
    }
    accounted.totals()
}

#[tokio::test]
async fn every_effect_counts_in_its_class_and_lines_of_the_log_are_none() {
    let line = || Effect::Log { level: Level::Info, message: "said".to_owned(), fields: Vec::new() };
    let delete = Write::Delete { key: key(), precondition: Precondition::default(), propagation: Propagation::Orphan };
    let get = Effect::Get { key: key(), view: View::Whole };
    let EffectTotals { effects, .. } =
        passed(vec![get, Effect::Write(delete), Effect::WallClock, line(), line()]).await;
    let counts = EffectClass::ALL.map(|class| (class.as_str(), effects.of(class)));
    let used: Vec<_> = counts.into_iter().filter(|(_, count)| *count > 0).collect();
    assert_eq!(used, [("get", 1), ("write", 1), ("log", 2), ("clock", 1)]);
    assert_eq!(effects.total(), 3);
}

#[tokio::test]
async fn bytes_count_in_the_direction_in_which_they_go() {
    let nothing = passed(vec![Effect::WallClock]).await;
    let drawn = passed(vec![Effect::Random { bytes: 1000 }]).await;
    assert_eq!((drawn.bytes_in - nothing.bytes_in, drawn.bytes_out), (1000, nothing.bytes_out));
    let message = "x".repeat(500);
    let said = passed(vec![Effect::Log { level: Level::Info, message, fields: Vec::new() }]).await;
    assert_eq!((said.bytes_out - nothing.bytes_out, said.bytes_in), (500, nothing.bytes_in));
}
