//! The controller of `apps/v1` ReplicaSets: it keeps the desired number of pods from one template.
//!
//! Pod names are derived from the ReplicaSet and a number, so a reconcile that is stopped half-way and runs
//! again creates no duplicates. Orphaned pods that the selector matches are adopted, and managed pods that it
//! no longer matches are released.

mod api;
mod pods;

use api::{Pod, ReplicaSet, Template};
use homeostat_sdk::adopt;
use homeostat_sdk::prelude::*;
use pods::Pods;

/// The maximum pods that one reconcile creates or deletes. The key is requeued at once for the rest.
const BURST: usize = 200;

struct ReplicaSets;

impl Reconciler for ReplicaSets {
    fn describe() -> Spec {
        Spec::manages::<ReplicaSet>().owns::<Pod>()
    }

    fn reconcile(key: Key) -> Result<Outcome, Failure> {
        let Some(mut set) = ReplicaSet::get_opt(&key)? else {
            return Ok(Outcome::settled());
        };
        if set.is_deleting() {
            return Ok(Outcome::settled());
        }
        if set.spec.selector.is_empty() {
            return Err(Failure::never("spec.selector: must not be empty, as it would select every pod"));
        }
        if !set.spec.selector.matches(&set.spec.template.metadata.labels) {
            return Err(Failure::never("spec.selector: does not match spec.template.metadata.labels"));
        }
        let mut pods = Pods::new(adopt(&set, &set.spec.selector)?);

        let wanted = usize::try_from(set.spec.replicas)?;
        let there = pods.active.len();
        if there < wanted {
            create(&set, &mut pods, (wanted - there).min(BURST))?;
        } else {
            delete(&mut pods, (there - wanted).min(BURST))?;
        }
        let (status, again) = pods.status(&set, Time::now());
        match set.set_status(status) {
            // A concurrent write won. The current state leads to another status.
            Err(Error::Conflict { .. }) => return Ok(Outcome::again_after(Duration::ZERO)),
            written => written?,
        };
        if there.abs_diff(wanted) > BURST {
            return Ok(Outcome::again_after(Duration::ZERO));
        }
        Ok(again.map_or_else(Outcome::settled, Outcome::again_after))
    }
}

fn create(set: &Resource<ReplicaSet>, pods: &mut Pods, count: usize) -> Result<(), Failure> {
    let mut names = pods.free_names(&set.metadata);
    let mut created = Vec::new();
    while created.len() < count {
        let Some(name) = names.next() else { break };
        // Not `apply`: a pod of another owner that has this name must stay as it is.
        match pod(set, &name).create() {
            Ok(pod) => {
                events::normal("SuccessfulCreate", format_args!("Created pod: {name}"));
                created.push(pod);
            }
            // Either our own pod, created after the list, or another owner's; then the next name is tried.
            Err(Error::AlreadyExists { .. }) => {
                let there = Pod::get_opt(&set.key().beside::<Pod>(&name))?;
                created.extend(there.filter(|pod| pod.metadata.is_controlled_by(set) && !pod.is_deleting()));
            }
            Err(error) => {
                events::warning("FailedCreate", format_args!("Error creating pod {name}: {error}"));
                return Err(Failure::from(error).while_doing(format_args!("creating pod {name}")));
            }
        }
    }
    drop(names);
    pods.active.extend(created);
    Ok(())
}

fn delete(pods: &mut Pods, count: usize) -> Result<(), Failure> {
    for pod in pods.take_least(count) {
        if pod.delete()? {
            events::normal("SuccessfulDelete", format_args!("Deleted pod: {}", pod.metadata.name));
        }
    }
    Ok(())
}

/// Returns the pod of that name from the template.
fn pod(set: &Resource<ReplicaSet>, name: &str) -> Resource<Pod> {
    let Template { metadata, spec } = &set.spec.template;
    let mut pod =
        Resource::new(&set.metadata.namespace, name, Pod(spec.clone())).labels(&metadata.labels).owned_by(set);
    pod.metadata.annotations.clone_from(&metadata.annotations);
    pod.metadata.finalizers.clone_from(&metadata.finalizers);
    pod
}

homeostat_sdk::export!(ReplicaSets);

#[cfg(test)]
mod tests;
