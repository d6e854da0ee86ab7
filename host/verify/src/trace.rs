//! One reconcile, as data.

use homeostat_component::{Exchange, Fault, Outcome};
use homeostat_store::Key;
use serde::{Deserialize, Serialize};

/// Everything that went in and out of one sandbox. Enough to run the reconcile again.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Trace {
    /// Digest of the component.
    pub digest: String,
    /// On whose behalf it ran.
    pub controller: String,
    /// What was reconciled.
    pub key: Key,
    /// Every effect with its answer, in order.
    pub exchanges: Vec<Exchange>,
    /// What it came to.
    pub result: Result<Outcome, Fault>,
}
