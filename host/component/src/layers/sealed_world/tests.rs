use homeostat_store::{Query, Selector, View, Write};
use serde_json::json;

use super::*;
use crate::call::new_call;
use crate::effect::{EntryPoint, Severity};

fn world() -> SealedWorld {
    SealedWorld::new([("a", "1"), ("b", "2")].map(|(name, value)| (name.to_owned(), value.to_owned())).into())
}

async fn perform(world: &SealedWorld, effect: Effect) -> Answer {
    world.perform(&new_call(&"test".into(), EntryPoint::Describe, None), effect).await
}

#[tokio::test]
async fn describe_reads_one_of_its_settings_or_all() {
    let (world, pair) = (world(), |name: &str, value: &str| (name.to_owned(), value.to_owned()));
    let read = async |key: Option<&str>| perform(&world, Effect::Config { key: key.map(str::to_owned) }).await;
    assert_eq!(read(Some("b")).await, Answer::Config(vec![pair("b", "2")]));
    assert_eq!(read(Some("c")).await, Answer::Config(Vec::new()));
    assert_eq!(read(None).await, Answer::Config(vec![pair("a", "1"), pair("b", "2")]));
    assert_eq!(world.used(), (Vec::new(), false));
}

#[tokio::test]
async fn everything_but_settings_is_refused_or_the_same_each_time() {
    let (kind, key) = (homeostat_fixtures::demo_kind("App"), homeostat_fixtures::demo_key("App", "a"));
    let (one, other) = (world(), world());
    for effect in [Effect::WallClock, Effect::MonotonicClock, Effect::Random { bytes: 8 }, Effect::Random { bytes: 8 }]
    {
        assert_eq!(perform(&one, effect.clone()).await, perform(&other, effect).await);
    }
    let write = Write::Create { document: json!({}) };
    for effect in [
        Effect::Get { key: key.clone(), view: View::Whole, live: false },
        Effect::List { query: Query::all(kind.clone()), view: View::Whole },
        Effect::Write(write),
        Effect::Follow { target: key },
        Effect::FollowAll { kind, selector: Selector::default() },
    ] {
        let answer = perform(&one, effect).await;
        let is_refused = matches!(
            answer,
            Answer::Resource(Err(StoreError::Forbidden(_)))
                | Answer::Page(Err(StoreError::Forbidden(_)))
                | Answer::Written(Err(StoreError::Forbidden(_)))
                | Answer::Done(Err(StoreError::Forbidden(_)))
        );
        assert!(is_refused, "{answer:?}");
    }
    assert_eq!((one.used().0.len(), one.used().1), (5, false));
    let (severity, reason, message) = (Severity::Normal, "Odd".to_owned(), String::new());
    perform(&one, Effect::Emit { severity, reason, message, regarding: None }).await;
    assert!(one.used().1, "an event has no error to return");
}
