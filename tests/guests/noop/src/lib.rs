//! Settles for every key, to measure the minimal cost of a reconcile.

use homeostat_sdk::prelude::*;

#[derive(Serialize, Deserialize)]
struct Noop {}

impl Kind for Noop {
    const API_VERSION: &str = "demo.homeostat.dev/v1";
    const NAME: &str = "Noop";
    const PLURAL: &str = "noops";
    type Status = ();
}

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
