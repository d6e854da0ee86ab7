//! Detects a key that runs twice at once: it holds a `Lock` of its own name while it runs.
//!
//! Its status shows the last `spec.value` that it read.

use homeostat_sdk::prelude::*;

#[derive(Resource, Serialize, Deserialize)]
#[resource(group = "demo.homeostat.dev", version = "v1", status = ExclusiveStatus, schema = "disabled")]
struct Exclusive {
    value: u64,
}

#[derive(Serialize, Deserialize)]
struct ExclusiveStatus {
    value: u64,
}

#[derive(Resource, Serialize, Deserialize)]
#[resource(group = "demo.homeostat.dev", version = "v1", schema = "disabled")]
struct Lock {}

struct Guest;

impl Reconciler for Guest {
    fn describe() -> Spec {
        // The watch only declares the kind; no lock has the label, so no lock queues a key.
        Spec::manages::<Exclusive>().watch(Watch::of::<Lock>(Mapping::label("demo.homeostat.dev/nobody")).secondary())
    }

    fn reconcile(key: Key) -> Result<Outcome, Failure> {
        let Some(mut exclusive) = Exclusive::get_opt(&key)? else {
            return Ok(Outcome::settled());
        };
        let lock = Resource::new(&key.namespace, &key.name, Lock {});
        lock.create().map_err(|_| Failure::never("two at once"))?;
        let value = exclusive.spec.value;
        let written = exclusive.set_status(ExclusiveStatus { value });
        lock.delete()?;
        written?;
        Ok(Outcome::settled())
    }
}

homeostat_sdk::export!(Guest);
