//! Writes into the status which build it is: `GUEST_VERSION` at compile time, `1` when not said.

use homeostat_sdk::prelude::*;

/// Two builds with different values are two components with different digests.
const VERSION: &str = match option_env!("GUEST_VERSION") {
    Some(version) => version,
    None => "1",
};

#[derive(Serialize, Deserialize)]
struct Versioned {}

#[derive(Serialize, Deserialize)]
struct Answered {
    version: String,
}

impl Kind for Versioned {
    const API_VERSION: &str = "demo.homeostat.dev/v1";
    const NAME: &str = "Versioned";
    const PLURAL: &str = "versioneds";
    type Status = Answered;
}

struct Guest;

impl Reconciler for Guest {
    fn describe() -> Spec {
        Spec::manages::<Versioned>()
    }

    fn reconcile(key: Key) -> Result<Outcome, Failure> {
        let Some(mut versioned) = Versioned::get_opt(&key)? else {
            return Ok(Outcome::settled());
        };
        versioned.set_status(Answered { version: VERSION.to_owned() })?;
        Ok(Outcome::settled())
    }
}

homeostat_sdk::export!(Guest);
