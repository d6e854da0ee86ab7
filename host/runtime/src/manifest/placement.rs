//! `spec.placement` as written and as checked.

use homeostat_fleet::{SHARDS_MAX, ShardBy, Shards};
use serde::{Deserialize, Serialize};

use super::Problems;
use crate::PlacementSpec;

/// On which of several hosts a controller runs, as written.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PlacementWritten {
    /// On one host at a time.
    Singleton,
    /// On every host.
    EveryHost,
    /// Each shard of the keys on one host at a time.
    Sharded(ShardsWritten),
}

/// The shards of the keys, as written.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ShardsWritten {
    /// Their number, 1 to 256.
    pub shards: u32,
    /// The part of a key that selects its shard: `key` (the default) or `namespace`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

pub(super) fn check(written: Option<&PlacementWritten>, problems: &mut Problems) -> PlacementSpec {
    match written {
        None | Some(PlacementWritten::Singleton) => PlacementSpec::Singleton,
        Some(PlacementWritten::EveryHost) => PlacementSpec::EveryHost,
        Some(PlacementWritten::Sharded(ShardsWritten { shards, by })) => {
            problems.number("spec.placement.sharded.shards", Some(*shards), 1..=SHARDS_MAX);
            let by = match by.as_deref() {
                None | Some("key") => ShardBy::Key,
                Some("namespace") => ShardBy::Namespace,
                Some(_) => {
                    problems.push("spec.placement.sharded.by", "must be `key` or `namespace`".to_owned());
                    ShardBy::Key
                }
            };
            Shards::new(*shards, by).map_or(PlacementSpec::Singleton, PlacementSpec::Sharded)
        }
    }
}
