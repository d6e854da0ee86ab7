//! How many replicas each ReplicaSet gets next: arithmetic alone.
//!
//! During a rolling update these hold at every step, wherever the controller is stopped: there are never more pods than asked for plus
//! the surge, not counting those that are being deleted, and never fewer available ones than asked for minus what may be unavailable,
//! as far as pods do not fail by themselves.

use crate::api::{Deployment, Share, StrategyKind};

/// What the Deployment asks for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rollout {
    pub(crate) desired: u32,
    /// How many replicas there may be beyond those.
    pub(crate) surge: u32,
    /// How many of those may be missing.
    pub(crate) unavailable: u32,
    pub(crate) recreate: bool,
    pub(crate) paused: bool,
}

/// What a ReplicaSet has now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Set {
    /// That it was asked for.
    pub(crate) replicas: u32,
    /// That are available; no more than it was asked for, however old its status is.
    pub(crate) available: u32,
    /// How many pods it has. `None`: it has not said so since its size was changed.
    pub(crate) there: Option<u32>,
    /// Whether it has not a single pod left, not even one that is being deleted.
    pub(crate) empty: bool,
    /// What the Deployment asked for when this set got its size.
    pub(crate) desired_then: Option<u32>,
    /// How many replicas there could be in all when this set got its size.
    pub(crate) max_then: Option<u32>,
}

/// What each ReplicaSet is to have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Of the present template. `None`: it is not time to create one.
    pub(crate) new: Option<u32>,
    /// Of older templates, in the order in which they came.
    pub(crate) old: Vec<u32>,
}

impl Rollout {
    pub(crate) fn of(deployment: &Deployment) -> Self {
        let Deployment { replicas: desired, strategy, paused, .. } = deployment;
        let (desired, paused) = (*desired, *paused);
        let recreate = strategy.kind == StrategyKind::Recreate;
        if recreate {
            return Self { desired, surge: 0, unavailable: 0, recreate, paused };
        }
        let limits = strategy.rolling_update.unwrap_or_default();
        let surge = limits.max_surge.of(desired, u32::div_ceil);
        let unavailable = limits.max_unavailable.of(desired, |all, hundred| all / hundred).min(desired);
        // With neither, nothing could ever move.
        let unavailable = if surge == 0 { unavailable.max(1) } else { unavailable };
        Self { desired, surge, unavailable, recreate, paused }
    }

    /// How many replicas there may be in all.
    pub(crate) fn max(&self) -> u32 {
        self.desired.saturating_add(self.surge)
    }

    /// How many have to be available.
    pub(crate) fn min_available(&self) -> u32 {
        self.desired.saturating_sub(self.unavailable)
    }

    /// What each set is to have next. `old` is ordered from the oldest to the youngest.
    pub(crate) fn plan(&self, new: Option<Set>, old: &[Set]) -> Plan {
        let resized = new
            .iter()
            .chain(old)
            .any(|set| set.replicas > 0 && set.desired_then.is_some_and(|desired_then| desired_then != self.desired));
        if self.paused || resized {
            self.scale(new, old)
        } else if self.recreate {
            self.replace(new, old)
        } else {
            self.roll(new, old)
        }
    }

    /// Old ones go first, to the last pod; then the new one comes.
    fn replace(&self, new: Option<Set>, old: &[Set]) -> Plan {
        let gone = old.iter().all(|set| set.replicas == 0 && set.empty);
        let waiting = new.map(|set| set.replicas);
        Plan { new: if gone { Some(self.desired) } else { waiting }, old: vec![0; old.len()] }
    }

    /// One step of a rolling update: the new one grows into the surge, old ones shrink as far as availability allows.
    fn roll(&self, new: Option<Set>, old: &[Set]) -> Plan {
        let new = new.unwrap_or(Set { there: Some(0), ..Set::default() });
        // A set that shrinks has more pods than it should, for a moment. While it is not known how many, nothing grows.
        let pods = |set: &Set| set.there.map(|there| there.max(set.replicas));
        let all = old.iter().chain([&new]).map(pods).try_fold(0, |sum: u32, pods| Some(sum.saturating_add(pods?)));
        let room = all.map_or(0, |all| self.max().saturating_sub(all));
        let size = if new.replicas > self.desired {
            self.desired
        } else {
            new.replicas + room.min(self.desired - new.replicas)
        };
        Plan { new: Some(size), old: self.shrink(Set { replicas: size, ..new }, old) }
    }

    /// The sizes of old sets: first without what is not available anyway, oldest first, then without what is more than needed.
    fn shrink(&self, new: Set, old: &[Set]) -> Vec<u32> {
        let mut sizes: Vec<u32> = old.iter().map(|set| set.replicas).collect();
        let new_available = new.available.min(new.replicas);
        let all = total(sizes.iter().copied()).saturating_add(new.replicas);
        let needed = self.min_available().saturating_add(new.replicas - new_available);
        let Some(mut spare) = all.checked_sub(needed).filter(|spare| *spare > 0) else {
            return sizes;
        };
        for (size, set) in sizes.iter_mut().zip(old) {
            let unhealthy = spare.min(set.replicas - set.available.min(set.replicas));
            *size -= unhealthy;
            spare -= unhealthy;
        }
        let old_available = total(old.iter().zip(&sizes).map(|(set, size)| set.available.min(*size)));
        let mut spare = new_available.saturating_add(old_available).saturating_sub(self.min_available());
        for size in &mut sizes {
            let less = spare.min(*size);
            *size -= less;
            spare -= less;
        }
        sizes
    }

    /// Another number is asked for, or the rollout is paused: the sets keep their shares.
    fn scale(&self, new: Option<Set>, old: &[Set]) -> Plan {
        let mut plan = Plan { new: new.map(|set| set.replicas), old: old.iter().map(|set| set.replicas).collect() };
        let saturated = new.is_some_and(|set| set.replicas == self.desired && set.available == self.desired);
        let active = new.iter().chain(old).filter(|set| set.replicas > 0).count();
        if active <= 1 {
            if let Some(only) = Self::active_or_latest(&mut plan) {
                *only = self.desired;
            }
        } else if saturated {
            plan.old.fill(0);
        } else if !self.recreate {
            self.share(new, old, &mut plan);
        }
        plan
    }

    /// The one size that is not 0; without one, that of the newest set.
    fn active_or_latest(plan: &mut Plan) -> Option<&mut u32> {
        let Plan { new, old } = plan;
        let active = old.iter().position(|size| *size > 0).filter(|_| new.is_none_or(|size| size == 0));
        match (active, new) {
            (Some(index), _) => old.get_mut(index),
            (None, Some(new)) => Some(new),
            (None, None) => old.last_mut(),
        }
    }

    /// Shares out what may be more or must be less, by size, the rest to the largest. Ties: growing, the younger first;
    /// shrinking, the older.
    fn share(&self, new: Option<Set>, old: &[Set], plan: &mut Plan) {
        let mut sizes: Vec<(&mut u32, Set)> = plan.old.iter_mut().zip(old.iter().copied()).collect();
        if let (Some(size), Some(set)) = (plan.new.as_mut(), new) {
            sizes.push((size, set));
        }
        let total: i64 = sizes.iter().map(|(size, _)| i64::from(**size)).sum();
        let allowed = if self.desired == 0 { 0 } else { self.max() };
        let change = i64::from(allowed) - total;
        if change > 0 {
            sizes.reverse();
        }
        sizes.sort_by_key(|(size, _)| std::cmp::Reverse(**size));
        let mut left = change;
        for (size, set) in &mut sizes {
            let part = self.proportion(*set);
            let part = if change > 0 { part.clamp(0, left) } else { part.clamp(left, 0) };
            **size = resized(**size, part);
            left -= part;
        }
        if let Some((size, _)) = sizes.first_mut() {
            **size = resized(**size, left);
        }
    }

    /// How much more, or less when below zero, a set gets for its size.
    fn proportion(&self, set: Set) -> i64 {
        let size = i64::from(set.replicas);
        if self.desired == 0 || size == 0 {
            return -size;
        }
        let then = i64::from(set.max_then.unwrap_or(self.max()).max(1));
        let now = i64::from(self.max());
        // Rounded to the nearest.
        (2 * size * now + then) / (2 * then) - size
    }
}

fn total(sizes: impl Iterator<Item = u32>) -> u32 {
    sizes.fold(0, u32::saturating_add)
}

fn resized(size: u32, change: i64) -> u32 {
    u32::try_from((i64::from(size) + change).max(0)).unwrap_or(u32::MAX)
}

impl Share {
    /// The number that it means. A percentage is taken of `all`, and `divide` says which way it is rounded.
    fn of(self, all: u32, divide: fn(u32, u32) -> u32) -> u32 {
        match self {
            Self::Number(number) => number,
            Self::Percent(percent) => divide(all.saturating_mul(percent), 100),
        }
    }
}

#[cfg(test)]
mod tests;
