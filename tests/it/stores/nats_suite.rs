//! The conformance suite on NATS, with reads from the cache.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use homeostat_conformance::{Difference, Fixture, Making, Setup};
use homeostat_nats::BucketSettings;
use homeostat_nats::settings::Create;
use homeostat_store::schema::Schemas;
use homeostat_store::{Options, cached};
use homeostat_tests::shared_nats;

mod on_a_cache {
    homeostat_conformance::suite!(
        crate::stores::nats_suite::on_a_cache,
        cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")
    );
}

fn on_a_cache(options: Options) -> Making {
    Box::pin(with_bucket(options))
}

/// Makes the store of one case, in a bucket of its own.
async fn with_bucket(options: Options) -> Fixture {
    const DIFFERENCES: &[Difference] = &[Difference::GapsInRevisions, Difference::SeenLater, Difference::KindsStay];
    static CASES: AtomicU32 = AtomicU32::new(0);
    let bucket = format!("case-{}", CASES.fetch_add(1, Ordering::Relaxed));
    let create = Some(Create { memory: true, ..Create::default() });
    let settings = BucketSettings { create, ..BucketSettings::new(shared_nats().url(), bucket) };
    let Options { history_max, history_bytes_max, clock, .. } = options;
    let cache = cached::Options { history_max, history_bytes_max, clock, ..cached::Options::default() };
    let store = homeostat_nats::open(settings, Schemas::default(), cache).unwrap();
    Setup { differences: DIFFERENCES, subscribes: true, ..Setup::of(Arc::new(store)) }.start().await
}
