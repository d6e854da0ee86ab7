//! One effect with its answer, as recorded.

use serde::{Deserialize, Serialize};

use super::{Answer, Effect};

/// One effect and its answer.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Exchange {
    /// The request of the guest.
    pub effect: Effect,
    /// The answer that the guest got.
    pub answer: Answer,
}

impl Exchange {
    /// Returns the approximate size of both in bytes.
    pub(crate) fn size_bytes(&self) -> u64 {
        self.effect.size_bytes() + self.answer.size_bytes()
    }
}
