//! The controller of `apps/v1` Deployments: one ReplicaSet for each pod template, and the rollout from one to
//! the next.
//!
//! `template` finds the new ReplicaSet, `rollout` computes the size of each, `status` computes the status.
//! This file orders the writes: each is idempotent, and the controller may stop after any of them. Orphaned
//! ReplicaSets that the selector matches are adopted, so a Deployment that is created again continues with
//! the existing ones.
//!
//! Deliberately absent: pods. The ReplicaSet's controller creates them; this one reads only the ReplicaSet's
//! status.

mod api;
mod rollout;
mod status;
mod template;

use std::collections::BTreeMap;

use api::{Deployment, ReplicaSet};
use homeostat_sdk::adopt;
use homeostat_sdk::prelude::*;
use rollout::{Rollout, Set};
use serde_json::{Map, Value, json};
use status::{Observed, is_observed};
use template::HASH_LABEL;

const REVISION: &str = "deployment.kubernetes.io/revision";
const DESIRED: &str = "deployment.kubernetes.io/desired-replicas";
const MAX: &str = "deployment.kubernetes.io/max-replicas";
/// Annotations of a Deployment that its ReplicaSets do not inherit.
const NOT_COPIED: [&str; 4] = [REVISION, DESIRED, MAX, "kubectl.kubernetes.io/last-applied-configuration"];

struct Deployments;

impl Reconciler for Deployments {
    fn describe() -> Spec {
        Spec::manages::<Deployment>().owns::<ReplicaSet>()
    }

    fn reconcile(key: Key) -> Result<Outcome, Failure> {
        let Some(mut deployment) = Deployment::get_opt(&key)? else {
            return Ok(Outcome::settled());
        };
        if deployment.is_deleting() {
            return Ok(Outcome::settled());
        }
        check(&deployment.spec)?;
        let mut sets = Sets::read(&deployment)?;
        let rollout = Rollout::of(&deployment.spec);
        if !sets.resize(&deployment, rollout)? {
            return count_collision(&mut deployment);
        }
        sets.number(&mut deployment)?;
        let before = deployment.status.clone().unwrap_or_default();
        let observed = Observed {
            generation: deployment.metadata.generation,
            rollout,
            progress_deadline: Duration::from_secs(deployment.spec.progress_deadline_seconds.into()),
            new: sets.new.as_ref(),
            old: &sets.old,
        };
        let now = Time::now();
        let status = observed.status(&before, now);
        if observed.is_complete(&status) {
            sets.forget(deployment.spec.revision_history_limit)?;
        }
        let deadline = observed.deadline_in(&status, now);
        match deployment.set_status(status) {
            // A concurrent write won. The current state leads to another status.
            Err(Error::Conflict { .. }) => return Ok(Outcome::again_after(Duration::ZERO)),
            written => written?,
        };
        Ok(deadline.map_or_else(Outcome::settled, Outcome::again_after))
    }
}

/// Rejects a spec that could never settle: only a person can fix it.
fn check(deployment: &Deployment) -> Result<(), Failure> {
    if deployment.selector.is_empty() {
        return Err(Failure::never("spec.selector: must not be empty, as it would select every pod"));
    }
    if !deployment.selector.matches(&template::labels(&deployment.template)) {
        return Err(Failure::never("spec.selector: does not match spec.template.metadata.labels"));
    }
    Ok(())
}

/// The name of the new ReplicaSet is taken: the next one is derived with a higher collision count.
fn count_collision(deployment: &mut Resource<Deployment>) -> Result<Outcome, Failure> {
    let mut status = deployment.status.clone().unwrap_or_default();
    status.collision_count = Some(status.collision_count.unwrap_or(0) + 1);
    deployment.set_status(status)?;
    Ok(Outcome::again_after(Duration::ZERO))
}

/// The ReplicaSets of one Deployment.
struct Sets {
    /// The ReplicaSet of the current template.
    new: Option<Resource<ReplicaSet>>,
    /// The ReplicaSets of other templates, oldest first.
    old: Vec<Resource<ReplicaSet>>,
}

impl Sets {
    fn read(deployment: &Resource<Deployment>) -> Result<Self, Error> {
        let mut all: Vec<Resource<ReplicaSet>> = adopt(deployment, &deployment.spec.selector)?;
        all.retain(|set| !set.is_deleting());
        all.sort_by(|a, b| {
            let age = |set: &Resource<ReplicaSet>| (set.metadata.creation_timestamp, set.metadata.name.clone());
            age(a).cmp(&age(b))
        });
        let new = all.iter().position(|set| template::same(&set.spec.template, &deployment.spec.template));
        let new = new.map(|index| all.remove(index));
        Ok(Self { new, old: all })
    }

    /// Resizes each set according to the plan, and creates the new one when the plan says so. Returns `false`
    /// if its name is taken.
    fn resize(&mut self, deployment: &Resource<Deployment>, rollout: Rollout) -> Result<bool, Failure> {
        let old: Vec<Set> = self.old.iter().map(measure).collect();
        let plan = rollout.plan(self.new.as_ref().map(measure), &old);
        match (&mut self.new, plan.new) {
            (Some(new), Some(replicas)) => {
                let copied = copied_annotations(deployment);
                resize(new, replicas, rollout, copied, deployment.spec.min_ready_seconds)?;
            }
            (None, Some(replicas)) => match create(deployment, replicas, rollout)? {
                Some(created) => self.new = Some(created),
                None => return Ok(false),
            },
            (_, None) => {}
        }
        for (set, replicas) in self.old.iter_mut().zip(plan.old) {
            let min_ready_seconds = set.spec.min_ready_seconds;
            resize(set, replicas, rollout, BTreeMap::new(), min_ready_seconds)?;
        }
        Ok(true)
    }

    /// Gives the new set the highest revision, and copies it to the Deployment.
    fn number(&mut self, deployment: &mut Resource<Deployment>) -> Result<(), Error> {
        let Some(new) = &mut self.new else { return Ok(()) };
        let next = self.old.iter().map(|set| revision(&set.metadata)).max().unwrap_or(0) + 1;
        if revision(&new.metadata) < next {
            new.patch(annotations(&[(REVISION, &next.to_string())]))?;
        }
        let now = revision(&new.metadata).to_string();
        if deployment.metadata.annotations.get(REVISION) != Some(&now) {
            deployment.patch(annotations(&[(REVISION, &now)]))?;
        }
        Ok(())
    }

    /// Deletes the oldest revisions without pods beyond `limit`.
    fn forget(&self, limit: usize) -> Result<(), Error> {
        let mut unused: Vec<_> = self.old.iter().filter(|set| measure(set).empty && set.spec.replicas == 0).collect();
        unused.sort_by_key(|set| revision(&set.metadata));
        let surplus = unused.len().saturating_sub(limit);
        for set in unused.into_iter().take(surplus) {
            set.delete()?;
        }
        Ok(())
    }
}

fn revision(metadata: &Metadata) -> u64 {
    number(metadata, REVISION).unwrap_or(0)
}

fn number<T: std::str::FromStr>(metadata: &Metadata, annotation: &str) -> Option<T> {
    metadata.annotations.get(annotation)?.parse().ok()
}

fn measure(set: &Resource<ReplicaSet>) -> Set {
    let status = set.status.clone().unwrap_or_default();
    Set {
        replicas: set.spec.replicas,
        available: status.available_replicas.min(set.spec.replicas),
        there: is_observed(set).then_some(status.replicas),
        empty: is_observed(set) && status.replicas == 0 && status.terminating_replicas == 0,
        desired_then: number(&set.metadata, DESIRED),
        max_then: number(&set.metadata, MAX),
    }
}

/// Creates the set of the current template. Returns `None` if another resource has its name.
fn create(
    deployment: &Resource<Deployment>,
    replicas: u32,
    rollout: Rollout,
) -> Result<Option<Resource<ReplicaSet>>, Failure> {
    let Deployment { selector, template, min_ready_seconds, .. } = &deployment.spec;
    let collisions = deployment.status.as_ref().and_then(|status| status.collision_count).unwrap_or(0);
    let hash = template::hash(template, collisions);
    let mut selector = selector.clone();
    selector.match_labels.insert(HASH_LABEL.to_owned(), hash.clone());
    let spec = ReplicaSet {
        replicas,
        min_ready_seconds: *min_ready_seconds,
        selector,
        template: template::labelled(template, &hash),
    };
    let name = format!("{}-{hash}", deployment.metadata.name);
    let mut set = Resource::new(&deployment.metadata.namespace, &name, spec)
        .labels(&template::labels(template))
        .label(HASH_LABEL, &hash)
        .annotation(DESIRED, rollout.desired.to_string())
        .annotation(MAX, rollout.max().to_string())
        .owned_by(deployment);
    set.metadata.annotations.extend(copied_annotations(deployment));
    // Not `apply`: a set of another owner that has this name must stay as it is.
    match set.create() {
        Ok(created) => {
            emit_scaled_event(&name, 0, replicas);
            Ok(Some(created))
        }
        Err(Error::AlreadyExists { .. }) => {
            // A set that was deleted since is no collision: the error brings the key back, and the name is free.
            let there = ReplicaSet::get(&set.key())?;
            let is_ours = there.metadata.is_controlled_by(deployment) && template::same(&there.spec.template, template);
            // If it is ours after all, the list was older than the last write.
            Ok(is_ours.then_some(there))
        }
        Err(error) => Err(Failure::from(error).while_doing(format_args!("creating ReplicaSet {name}"))),
    }
}

fn copied_annotations(deployment: &Resource<Deployment>) -> BTreeMap<String, String> {
    let mut copied = deployment.metadata.annotations.clone();
    copied.retain(|name, _| !NOT_COPIED.contains(&name.as_str()));
    copied
}

/// Writes all differences in one patch, if there are any.
fn resize(
    set: &mut Resource<ReplicaSet>,
    replicas: u32,
    rollout: Rollout,
    mut wanted: BTreeMap<String, String>,
    min_ready_seconds: u32,
) -> Result<(), Error> {
    let before = set.spec.replicas;
    if before > 0 || replicas > 0 {
        wanted.insert(DESIRED.to_owned(), rollout.desired.to_string());
        wanted.insert(MAX.to_owned(), rollout.max().to_string());
    }
    wanted.retain(|name, value| set.metadata.annotations.get(name) != Some(value));
    let mut spec = Map::new();
    if replicas != before {
        spec.insert("replicas".to_owned(), replicas.into());
    }
    if min_ready_seconds != set.spec.min_ready_seconds {
        spec.insert("minReadySeconds".to_owned(), min_ready_seconds.into());
    }
    let mut patch = Map::new();
    if !wanted.is_empty() {
        patch.insert("metadata".to_owned(), json!({ "annotations": wanted }));
    }
    if !spec.is_empty() {
        patch.insert("spec".to_owned(), Value::Object(spec));
    }
    if patch.is_empty() {
        return Ok(());
    }
    set.patch(Patch::Merge(Value::Object(patch)))?;
    emit_scaled_event(&set.metadata.name, before, replicas);
    Ok(())
}

fn emit_scaled_event(name: &str, before: u32, after: u32) {
    let direction = match after.cmp(&before) {
        std::cmp::Ordering::Less => "down",
        std::cmp::Ordering::Equal => return,
        std::cmp::Ordering::Greater => "up",
    };
    events::normal("ScalingReplicaSet", format_args!("Scaled {direction} replica set {name} from {before} to {after}"));
}

fn annotations(of: &[(&str, &String)]) -> Patch {
    let annotations: BTreeMap<_, _> = of.iter().copied().collect();
    Patch::Merge(json!({ "metadata": { "annotations": annotations } }))
}

homeostat_sdk::export!(Deployments);

#[cfg(test)]
mod tests;
