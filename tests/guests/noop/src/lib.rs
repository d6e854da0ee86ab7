//! Settles for every key, to measure the minimal cost of a reconcile.

use homeostat_sdk::prelude::*;

#[derive(Resource, Serialize, Deserialize)]
#[resource(group = "demo.homeostat.dev", version = "v1", schema = "disabled")]
struct Noop {}

struct Guest;

impl Reconciler for Guest {
    fn describe() -> Spec {
        Spec::manages::<Noop>()
    }

    fn reconcile(_key: Key) -> Result<Outcome, Failure> {
        Ok(Outcome::settled())
    }
}

homeostat_sdk::export!(Guest);
