//! The settings of stores that this build of the program cannot open.

use serde::Deserialize;
use serde::de::IgnoredAny;

/// Settings that are not read.
#[derive(Debug, Deserialize)]
#[serde(transparent)]
pub(super) struct AbsentEntry(IgnoredAny);
