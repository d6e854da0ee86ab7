use homeostat_sdk::LabelSelector;
use serde_json::json;

use super::*;
use crate::api::ReplicaSetStatus;

fn at(seconds: i64) -> Time {
    Time::from_unix_milliseconds(seconds * 1000)
}

fn set(name: &str, asked_for: u32, there: u32, available: u32) -> Resource<ReplicaSet> {
    let spec = ReplicaSet {
        replicas: asked_for,
        min_ready_seconds: 0,
        selector: LabelSelector::default(),
        template: json!({}),
    };
    let mut set = Resource::new("default", name, spec);
    set.metadata.generation = 1;
    set.status = Some(ReplicaSetStatus {
        observed_generation: 1,
        replicas: there,
        ready_replicas: available,
        available_replicas: available,
        terminating_replicas: 0,
    });
    set
}

fn observed<'a>(new: &'a Resource<ReplicaSet>, old: &'a [Resource<ReplicaSet>]) -> Observed<'a> {
    let rollout = Rollout { desired: 3, surge: 1, unavailable: 0, recreate: false, paused: false };
    Observed { generation: 4, rollout, progress_deadline: Duration::from_secs(60), new: Some(new), old }
}

fn reason<'a>(status: &'a DeploymentStatus, kind: &str) -> (Status, &'a str) {
    let condition = status.conditions.get(kind).unwrap();
    (condition.status, &condition.reason)
}

#[test]
fn the_numbers_are_those_of_all_sets() {
    let old = [set("web-a", 3, 3, 3)];
    let status = observed(&set("web-b", 1, 1, 0), &old).status(&DeploymentStatus::default(), at(0));
    let numbers = (status.replicas, status.updated_replicas, status.available_replicas, status.unavailable_replicas);
    assert_eq!(numbers, (4, 1, 3, 1));
    assert_eq!(reason(&status, "Available"), (Status::True, "MinimumReplicasAvailable"));
    assert_eq!(reason(&status, "Progressing"), (Status::True, "ReplicaSetUpdated"));
}

#[test]
fn a_second_look_at_a_rollout_changes_nothing() {
    let (new, old) = (set("web-b", 1, 1, 0), [set("web-a", 3, 3, 3)]);
    let status = observed(&new, &old).status(&DeploymentStatus::default(), at(0));
    assert_eq!(observed(&new, &old).status(&status, at(30)), status);
}

#[test]
fn a_rollout_is_complete_when_only_new_pods_are_there_and_available() {
    let new = set("web-b", 3, 3, 3);
    let observed = observed(&new, &[]);
    let status = observed.status(&DeploymentStatus::default(), at(0));
    assert!(observed.is_complete(&status));
    assert_eq!(reason(&status, "Progressing"), (Status::True, "NewReplicaSetAvailable"));
    assert_eq!(observed.deadline_in(&status, at(0)), None);
}

#[test]
fn an_old_status_of_a_set_completes_nothing() {
    let mut new = set("web-b", 3, 3, 3);
    new.metadata.generation = 2;
    let observed = observed(&new, &[]);
    assert!(!observed.is_complete(&observed.status(&DeploymentStatus::default(), at(0))));
}

#[test]
fn a_rollout_that_stands_still_misses_its_deadline() {
    let (new, old) = (set("web-b", 1, 1, 0), [set("web-a", 3, 3, 3)]);
    let observed = observed(&new, &old);
    let started = observed.status(&DeploymentStatus::default(), at(0));
    assert_eq!(observed.deadline_in(&started, at(20)), Some(Duration::from_secs(40)));
    let late = observed.status(&started, at(60));
    assert_eq!(reason(&late, "Progressing"), (Status::False, "ProgressDeadlineExceeded"));
    assert_eq!(observed.deadline_in(&late, at(60)), None);
    assert_eq!(observed.status(&late, at(90)), late);
}

#[test]
fn each_step_forward_gives_the_rollout_its_time_again() {
    let old = [set("web-a", 3, 3, 3)];
    let started = observed(&set("web-b", 1, 1, 0), &old).status(&DeploymentStatus::default(), at(0));
    let new = set("web-b", 1, 1, 1);
    let further = observed(&new, &old).status(&started, at(59));
    assert_eq!(observed(&new, &old).deadline_in(&further, at(59)), Some(Duration::from_secs(60)));
}

#[test]
fn the_next_rollout_starts_anew_and_a_pod_that_fails_later_does_not() {
    let done = observed(&set("web-a", 3, 3, 3), &[]).status(&DeploymentStatus::default(), at(0));
    let failed = observed(&set("web-a", 3, 3, 1), &[]).status(&done, at(500));
    assert_eq!(reason(&failed, "Progressing"), (Status::True, "NewReplicaSetAvailable"));
    assert_eq!(reason(&failed, "Available"), (Status::False, "MinimumReplicasUnavailable"));
    let next = observed(&set("web-b", 1, 0, 0), &[set("web-a", 3, 3, 3)]).status(&done, at(500));
    assert_eq!(reason(&next, "Progressing"), (Status::True, "ReplicaSetUpdated"));
}
