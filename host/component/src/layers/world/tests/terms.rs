//! Writes under the term of a lease.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use homeostat_fixtures::{Fault, FaultyStore, On, demo, memory_store};
use homeostat_fleet::LeaseName;
use homeostat_store::{Fence, Kind, Write};
use homeostat_testing::soon;
use serde_json::json;

use super::Setting;
use crate::effect::{Answer, Call, Effect, HttpError, HttpRequest, StoreError};
use crate::layers::world::{Terms, WriteEnd, WriteTerm};

/// A lease that is held under an epoch, or not at all, and how the writes under it have ended.
struct TestTerms {
    epoch: Mutex<Option<u64>>,
    timeout: Duration,
    ends: Mutex<Vec<WriteEnd>>,
}

impl Terms for TestTerms {
    fn term(&self, _: &Call, kind: Option<&Kind>) -> Result<WriteTerm, StoreError> {
        let epoch = self.epoch.lock().unwrap().ok_or_else(|| StoreError::Unavailable("the lease is lost".into()))?;
        let fence = kind.map(|_| Fence { lease: LeaseName::new("test", 0, 1).unwrap(), epoch });
        Ok(WriteTerm { fence, timeout: self.timeout })
    }

    fn ended(&self, _: &Call, end: WriteEnd) {
        self.ends.lock().unwrap().push(end);
    }
}

struct LeasedSetting {
    terms: Arc<TestTerms>,
    setting: Setting,
    store: Arc<FaultyStore>,
}

impl LeasedSetting {
    fn new(timeout: Duration) -> Self {
        let store = FaultyStore::over(memory_store());
        let terms = Arc::new(TestTerms { epoch: Mutex::new(Some(1)), timeout, ends: Mutex::default() });
        let Setting { world, told, call } = Setting::over(store.clone());
        let setting = Setting { world: world.under(terms.clone()), told, call };
        Self { terms, setting, store }
    }

    fn hold(&self, epoch: Option<u64>) {
        *self.terms.epoch.lock().unwrap() = epoch;
    }

    async fn create(&self, name: &str) -> Result<(), StoreError> {
        let write = Write::Create { document: demo("Thing", name, json!({})) };
        match self.setting.perform(Effect::Write(write)).await {
            Answer::Written(written) => written.map(drop),
            answer => panic!("{answer:?}"),
        }
    }

    fn ends(&self) -> Vec<WriteEnd> {
        self.terms.ends.lock().unwrap().clone()
    }
}

const LONG: Duration = Duration::from_secs(600);

#[tokio::test]
async fn a_write_carries_the_epoch_of_its_term() {
    let leased = LeasedSetting::new(LONG);
    leased.hold(Some(7));
    leased.create("a").await.unwrap();
    // The store has seen a later term.
    leased.hold(Some(6));
    assert!(matches!(leased.create("b").await, Err(StoreError::Conflict(_))));
    assert_eq!(leased.ends(), [WriteEnd::Answered, WriteEnd::Fenced]);
}

#[tokio::test]
async fn nothing_is_sent_without_the_lease() {
    let leased = LeasedSetting::new(LONG);
    leased.hold(None);
    assert!(matches!(leased.create("a").await, Err(StoreError::Unavailable(_))));
    let (method, url) = ("GET".to_owned(), "http://127.0.0.1:1/".to_owned());
    let request = HttpRequest { method, url, headers: Vec::new(), body: Vec::new().into(), timeout_ms: None };
    let answer = leased.setting.perform(Effect::Http(request)).await;
    assert!(matches!(&answer, Answer::Http(Err(HttpError::Unreachable(why))) if why.contains("lost")), "{answer:?}");
    leased.hold(Some(1));
    leased.create("a").await.unwrap();
    assert_eq!(leased.ends(), [WriteEnd::Answered]);
}

#[tokio::test(start_paused = true)]
async fn a_write_is_given_up_after_the_time_that_the_lease_leaves() {
    let leased = LeasedSetting::new(Duration::from_secs(4));
    leased.store.fault(On::Write, "Thing", Fault::Wait);
    assert!(matches!(soon(leased.create("a")).await, Err(StoreError::Unavailable(_))));
    assert_eq!(leased.ends(), [WriteEnd::Unanswered]);
}

#[tokio::test(start_paused = true)]
async fn a_write_whose_caller_is_gone_may_still_arrive() {
    let leased = LeasedSetting::new(LONG);
    leased.store.fault(On::Write, "Thing", Fault::Wait);
    assert!(tokio::time::timeout(Duration::from_secs(1), leased.create("a")).await.is_err());
    assert_eq!(leased.ends(), [WriteEnd::Unanswered]);
}
