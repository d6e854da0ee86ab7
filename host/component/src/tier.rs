//! The tiers of code: the same component, compiled fast or compiled well.
//!
//! A large component, as one with the runtime of a language in it, compiles for some 15 s of processor time. Its
//! *baseline* code is ready in a seventh of that, and runs slower. It has the same results, traps and limits. So a host calls the baseline code first, and replaces it when the *optimised* code is ready.

use serde::{Deserialize, Serialize};

/// The quality of code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Tier {
    /// Compiled in one pass.
    Baseline,
    /// Compiled with all optimisations.
    #[default]
    Optimised,
}

/// The order in which code of different quality is compiled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum TierPolicy {
    /// Optimised code only: a load waits for it.
    #[default]
    Optimised,
    /// Baseline code only, unless the optimised code is cached. For processes that call a component a few times.
    Baseline,
    /// Baseline code first. [`Engine::optimise`](crate::Engine::optimise), which must be polled, replaces it.
    BaselineFirst,
}

impl Tier {
    /// Returns the name of the tier, as in the status of a controller.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Baseline => "baseline",
            Self::Optimised => "optimised",
        }
    }
}

#[cfg(test)]
mod tests;
