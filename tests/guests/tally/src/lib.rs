//! Logs its start, records in its status the generation of the spec that it read and the setting `version`, and does
//! what `spec.action` says. So a test can detect a lost change, concurrent runs of one key, and a key that goes back to
//! an earlier version.
//!
//! | action | does |
//! |---|---|
//! | `settle` | settles |
//! | `again` | asks to be requeued in a tenth of a second |
//! | `fail`, `never` | fails with backoff, permanently |
//! | `panic` | panics |

use homeostat_sdk::prelude::*;

#[derive(Resource, Serialize, Deserialize)]
#[resource(group = "demo.homeostat.dev", version = "v1", status = TallyStatus, schema = "disabled")]
struct Tally {
    action: String,
}

#[derive(Serialize, Deserialize)]
struct TallyStatus {
    generation: u64,
    #[serde(default)]
    version: u64,
}

struct Guest;

impl Reconciler for Guest {
    fn describe() -> Spec {
        Spec::manages::<Tally>().ignore_status()
    }

    fn reconcile(key: Key) -> Result<Outcome, Failure> {
        info!("begin");
        let Some(mut tally) = Tally::get_opt(&key)? else {
            return Ok(Outcome::settled());
        };
        let generation = tally.metadata.generation;
        let version = config::get_or("version", 0)?;
        tally.set_status(TallyStatus { generation, version })?;
        // The run continues after its last write: a change in the meantime must requeue the key.
        let _again = Tally::get_opt(&key)?;
        match tally.spec.action.as_str() {
            "again" => Ok(Outcome::again_after(Duration::from_millis(100))),
            "fail" => Err(Failure::new("failed on purpose")),
            "never" => Err(Failure::never("given up on purpose")),
            "panic" => panic!("on purpose"),
            _ => Ok(Outcome::settled()),
        }
    }
}

homeostat_sdk::export!(Guest);
