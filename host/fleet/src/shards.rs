//! From keys to shards, and the names of their leases.

#[cfg(test)]
mod tests;

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;
use std::sync::Arc;

use xxhash_rust::xxh3::xxh3_64;

/// The most shards of one controller. Each has a lease, which its holder renews.
pub const SHARDS_MAX: u32 = 256;

/// The part of a key that selects its shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ShardBy {
    /// Namespace and name: keys spread evenly.
    Key,
    /// The namespace: all keys of a namespace are in one shard.
    Namespace,
}

/// The shards of a controller. One shard is a singleton.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Shards {
    count: NonZeroU32,
    by: ShardBy,
}

/// The name of a lease: a controller, and which of its shards.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseName {
    controller: Arc<str>,
    /// The number of the shard, from 0, and how many there are.
    shard: u32,
    count: u32,
}

impl Shards {
    /// One shard with all keys.
    pub const SINGLETON: Self = Self { count: NonZeroU32::MIN, by: ShardBy::Key };

    /// Returns this many shards; `None` for none or more than [`SHARDS_MAX`].
    pub fn new(count: u32, by: ShardBy) -> Option<Self> {
        let count = NonZeroU32::new(count).filter(|count| count.get() <= SHARDS_MAX)?;
        Some(Self { count, by })
    }

    /// Returns the number of shards.
    pub fn count(&self) -> u32 {
        self.count.get()
    }

    /// Returns the number of the shard of a key, from 0.
    ///
    /// It depends on nothing else, and no version of the host may change it: two hosts that disagree would
    /// both work on a key.
    pub fn shard_of(&self, namespace: &str, name: &str) -> u32 {
        let hash = match self.by {
            ShardBy::Namespace => xxh3_64(namespace.as_bytes()),
            // No namespace and no name has the separator.
            ShardBy::Key => xxh3_64([namespace.as_bytes(), b"/", name.as_bytes()].concat().as_slice()),
        };
        // The upper bits choose, so that every shard has the same part of the hashes. The result is below the
        // count.
        ((u128::from(hash) * u128::from(self.count())) >> 64) as u32
    }

    /// Returns the names of the leases of a controller, by shard.
    pub fn leases(&self, controller: &str) -> Vec<LeaseName> {
        let (count, controller) = (self.count(), Arc::<str>::from(controller));
        (0..count).map(|shard| LeaseName { controller: controller.clone(), shard, count }).collect()
    }
}

/// As `8-by-key` and `8-by-namespace`. One shard is `1`, whatever selects it.
impl fmt::Display for Shards {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.by {
            _ if self.count() == 1 => f.write_str("1"),
            ShardBy::Key => write!(f, "{}-by-key", self.count),
            ShardBy::Namespace => write!(f, "{}-by-namespace", self.count),
        }
    }
}

/// Reads what `Display` writes, and nothing else.
impl FromStr for Shards {
    type Err = ShardsError;

    fn from_str(text: &str) -> Result<Self, ShardsError> {
        let (count, by) = match text.split_once("-by-") {
            None => (text, ShardBy::Key),
            Some((count, "key")) => (count, ShardBy::Key),
            Some((count, "namespace")) => (count, ShardBy::Namespace),
            Some(_) => return Err(ShardsError),
        };
        let shards = count.parse().ok().and_then(|count| Self::new(count, by));
        shards.filter(|shards| shards.to_string() == text).ok_or(ShardsError)
    }
}

/// A text that names no shards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be a number of shards, as `1`, `8-by-key` or `8-by-namespace`")]
pub struct ShardsError;

impl LeaseName {
    /// The end of the name of the lease of a host, in the place of the controller. No controller has a dot in its name.
    pub const HOST_SUFFIX: &str = ".host";

    /// Returns the name of the lease by which the others know a host.
    pub fn of_host(host: &str) -> Self {
        Self { controller: format!("{host}{}", Self::HOST_SUFFIX).into(), shard: 0, count: 1 }
    }

    /// The end of the name of the record that says which shards of a controller are in force.
    pub const SHARDS_SUFFIX: &str = ".shards";

    /// Returns the name of the record that says which shards of a controller are in force.
    pub fn of_shards(controller: &str) -> Self {
        Self { controller: format!("{controller}{}", Self::SHARDS_SUFFIX).into(), shard: 0, count: 1 }
    }

    /// The end of the name of the record of the rollout of a controller.
    pub const ROLLOUT_SUFFIX: &str = ".rollout";

    /// Returns the name of the record of the rollout of a controller.
    pub fn of_rollout(controller: &str) -> Self {
        Self { controller: format!("{controller}{}", Self::ROLLOUT_SUFFIX).into(), shard: 0, count: 1 }
    }

    /// Returns whether this is such a record.
    pub fn is_of_rollout(&self) -> bool {
        self.count == 1 && self.controller.ends_with(Self::ROLLOUT_SUFFIX)
    }

    /// Returns whether this is the record of shards.
    pub fn is_of_shards(&self) -> bool {
        self.count == 1 && self.controller.ends_with(Self::SHARDS_SUFFIX)
    }

    /// The end of the name of a lease of the host's own controllers.
    pub const OWN_SUFFIX: &str = ".homeostat";

    /// Returns the name of the lease under which one host of several collects the garbage of their store.
    pub fn of_garbage() -> Self {
        Self { controller: format!("garbage{}", Self::OWN_SUFFIX).into(), shard: 0, count: 1 }
    }

    /// Returns whether this is such a lease.
    fn is_own(&self) -> bool {
        self.count == 1 && self.controller.ends_with(Self::OWN_SUFFIX)
    }

    /// Returns whether this is a lease of a controller that people define.
    pub fn is_of_controller(&self) -> bool {
        !self.is_of_host() && !self.is_of_shards() && !self.is_of_rollout() && !self.is_own()
    }

    /// Returns whether this is the lease of a host.
    pub fn is_of_host(&self) -> bool {
        self.count == 1 && self.controller.ends_with(Self::HOST_SUFFIX)
    }

    /// Returns the name of the lease of a shard; `None` when the controller has no such shard.
    pub fn new(controller: &str, shard: u32, count: u32) -> Option<Self> {
        let is_shard = shard < count && count <= SHARDS_MAX;
        is_shard.then(|| Self { controller: controller.into(), shard, count })
    }

    /// Returns the name of the controller.
    pub fn controller(&self) -> &str {
        &self.controller
    }

    /// Returns the name of the controller or host whose lease or record this is.
    pub fn owner(&self) -> &str {
        let suffix = match self {
            _ if self.is_of_host() => Self::HOST_SUFFIX,
            _ if self.is_of_shards() => Self::SHARDS_SUFFIX,
            _ if self.is_of_rollout() => Self::ROLLOUT_SUFFIX,
            _ if self.is_own() => Self::OWN_SUFFIX,
            _ => "",
        };
        self.controller.strip_suffix(suffix).unwrap_or(&self.controller)
    }

    /// Returns the number of the shard, from 0.
    pub fn shard(&self) -> u32 {
        self.shard
    }

    /// Returns the number of shards, from 1.
    pub fn count(&self) -> u32 {
        self.count
    }
}

impl fmt::Display for LeaseName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.controller)?;
        if self.count > 1 { write!(f, "/{}-of-{}", self.shard, self.count) } else { Ok(()) }
    }
}
