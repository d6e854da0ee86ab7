//! Fails to start as often as `spec.failures` of the `Phase` named `default/start` says, and then starts.
//!
//! The annotations of that document count the starts and the stops. The status of each `Phase` shows the
//! number of starts before its reconcile.

use homeostat_sdk::prelude::*;
use serde_json::json;

#[derive(Resource, Serialize, Deserialize)]
#[resource(group = "demo.homeostat.dev", version = "v1", status = PhaseStatus, schema = "disabled")]
struct Phase {
    /// The number of starts that fail.
    #[serde(default)]
    failures: u32,
}

#[derive(Serialize, Deserialize)]
struct PhaseStatus {
    starts: u32,
}

const STARTS: &str = "demo.homeostat.dev/starts";
const STOPS: &str = "demo.homeostat.dev/stops";

struct Guest;

impl Reconciler for Guest {
    fn describe() -> Spec {
        Spec::manages::<Phase>()
    }

    fn reconcile(key: Key) -> Result<Outcome, Failure> {
        let Some(mut phase) = Phase::get_opt(&key)? else {
            return Ok(Outcome::settled());
        };
        let starts = Phase::get_opt(&start_key())?.map_or(0, |start| count(&start, STARTS));
        phase.set_status(PhaseStatus { starts })?;
        Ok(Outcome::settled())
    }
}

impl Lifecycle for Guest {
    fn start() -> Result<(), Failure> {
        let Some(mut start) = Phase::get_opt(&start_key())? else {
            return Ok(());
        };
        let starts = count(&start, STARTS) + 1;
        let failures = start.spec.failures;
        annotate(&mut start, STARTS, starts)?;
        if starts <= failures {
            return Err(Failure::new(format!("start {starts} of {failures} that fail")));
        }
        Ok(())
    }

    fn stop() {
        if let Ok(Some(mut start)) = Phase::get_opt(&start_key()) {
            let stops = count(&start, STOPS) + 1;
            if let Err(error) = annotate(&mut start, STOPS, stops) {
                warn!("the stop is not noted: {error}");
            }
        }
    }
}

fn start_key() -> Key {
    Phase::key("default", "start")
}

fn count(phase: &Resource<Phase>, annotation: &str) -> u32 {
    phase.metadata.annotations.get(annotation).and_then(|text| text.parse().ok()).unwrap_or(0)
}

fn annotate(phase: &mut Resource<Phase>, annotation: &str, number: u32) -> Result<(), Error> {
    phase.patch(Patch::Merge(json!({ "metadata": { "annotations": { annotation: number.to_string() } } })))
}

homeostat_sdk::export!(Guest: lifecycle);
