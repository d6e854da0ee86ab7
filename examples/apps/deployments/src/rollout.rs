//! Computes the next size of each ReplicaSet. Pure arithmetic.
//!
//! These bounds hold at every step of a rolling update, even if the controller stops after any step:
//!
//! * There are never more pods than desired plus the surge, not counting pods that are being deleted.
//! * There are never fewer available pods than desired minus the allowed unavailable ones, unless pods fail
//!   on their own.

use crate::api::{Deployment, Share, StrategyKind};

/// The parameters of a Deployment's rollout.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rollout {
    pub(crate) desired: u32,
    /// The allowed replicas beyond `desired`.
    pub(crate) surge: u32,
    /// The allowed missing replicas.
    pub(crate) unavailable: u32,
    pub(crate) recreate: bool,
    pub(crate) paused: bool,
}

/// The current state of a ReplicaSet.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Set {
    /// The desired replicas.
    pub(crate) replicas: u32,
    /// The available replicas; at most `replicas`, even if the status is outdated.
    pub(crate) available: u32,
    /// The existing pods. `None` if the status has not been updated since the last resize.
    pub(crate) there: Option<u32>,
    /// Whether it has no pods at all, including those being deleted.
    pub(crate) empty: bool,
    /// The Deployment's desired replicas when this set was last resized.
    pub(crate) desired_then: Option<u32>,
    /// The allowed total of replicas when this set was last resized.
    pub(crate) max_then: Option<u32>,
}

/// The next sizes of the ReplicaSets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Plan {
    /// The set of the current template. `None` while it must not be created yet.
    pub(crate) new: Option<u32>,
    /// The sets of older templates, in their given order.
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
        // With neither, the rollout could never proceed.
        let unavailable = if surge == 0 { unavailable.max(1) } else { unavailable };
        Self { desired, surge, unavailable, recreate, paused }
    }

    /// Returns the allowed total of replicas.
    pub(crate) fn max(&self) -> u32 {
        self.desired.saturating_add(self.surge)
    }

    /// Returns the required available replicas.
    pub(crate) fn min_available(&self) -> u32 {
        self.desired.saturating_sub(self.unavailable)
    }

    /// Returns the next size of each set. `old` is ordered from the oldest to the youngest.
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

    /// Recreate: the old sets lose all pods before the new set gets any.
    fn replace(&self, new: Option<Set>, old: &[Set]) -> Plan {
        let gone = old.iter().all(|set| set.replicas == 0 && set.empty);
        let waiting = new.map(|set| set.replicas);
        Plan { new: if gone { Some(self.desired) } else { waiting }, old: vec![0; old.len()] }
    }

    /// One step of a rolling update: the new set grows into the surge, old sets shrink as far as availability
    /// allows.
    fn roll(&self, new: Option<Set>, old: &[Set]) -> Plan {
        let new = new.unwrap_or(Set { there: Some(0), ..Set::default() });
        // A shrinking set temporarily has more pods than its size. While their number is unknown, no set
        // grows.
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

    /// Returns the sizes of old sets: unavailable pods are removed first, oldest sets first, then pods beyond
    /// the required available ones.
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

    /// The number of replicas has changed, or the rollout is paused: the sets keep their proportions.
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

    /// Returns the only size above 0; if there is none, that of the newest set.
    fn active_or_latest(plan: &mut Plan) -> Option<&mut u32> {
        let Plan { new, old } = plan;
        let active = old.iter().position(|size| *size > 0).filter(|_| new.is_none_or(|size| size == 0));
        match (active, new) {
            (Some(index), _) => old.get_mut(index),
            (None, Some(new)) => Some(new),
            (None, None) => old.last_mut(),
        }
    }

    /// Distributes the change in proportion to the sizes, and the rest to the largest set. On ties, the
    /// younger set grows first, and the older one shrinks first.
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

    /// Returns the proportional change of a set, negative if it shrinks.
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
    /// Returns the absolute number. A percentage is taken of `all`, and `divide` determines the rounding.
    fn of(self, all: u32, divide: fn(u32, u32) -> u32) -> u32 {
        match self {
            Self::Number(number) => number,
            Self::Percent(percent) => divide(all.saturating_mul(percent), 100),
        }
    }
}

#[cfg(test)]
mod tests;
