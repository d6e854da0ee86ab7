//! One effect with its answer, as it is kept.

use serde::{Deserialize, Serialize};

use super::{Answer, Effect};

/// One effect and its answer.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Exchange {
    /// What the guest asked for.
    pub effect: Effect,
    /// What it was told.
    pub answer: Answer,
}

impl Exchange {
    /// Returns roughly how many bytes this carries, either way.
    pub(crate) fn size_bytes(&self) -> u64 {
        self.effect.size_bytes() + self.answer.size_bytes()
    }
}
