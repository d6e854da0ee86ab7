//! One reconcile, as data.

use homeostat_component::{Exchange, Fault, Outcome};
use homeostat_store::Key;
use serde::{Deserialize, Serialize};

/// All effects and answers of one reconcile. Sufficient to run it again.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Trace {
    /// Digest of the component.
    pub digest: String,
    /// The name of the controller.
    pub controller: String,
    /// The reconciled key.
    pub key: Key,
    /// Every effect with its answer, in order.
    pub exchanges: Vec<Exchange>,
    /// The result.
    pub result: Result<Outcome, Fault>,
}
