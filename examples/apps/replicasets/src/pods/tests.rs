use homeostat_sdk::LabelSelector;
use serde_json::json;

use super::*;
use crate::api::{PodStatus, Template};

fn at(seconds: i64) -> Time {
    Time::from_unix_milliseconds(seconds * 1000)
}

fn pod(name: &str, created: i64, ready_since: Option<i64>) -> Resource<Pod> {
    let mut pod = Resource::new("default", name, Pod(json!({}))).label("app", "web");
    pod.metadata.creation_timestamp = Some(at(created));
    let mut conditions = Conditions::default();
    conditions.set_at(Condition::new("Ready", ready_since.is_some()), || at(ready_since.unwrap_or(0)));
    pod.status = Some(PodStatus { phase: "Running".to_owned(), conditions });
    pod
}

fn set(replicas: u32, min_ready_seconds: u32) -> Resource<ReplicaSet> {
    let mut template = Template::default();
    template.metadata.labels.insert("app".to_owned(), "web".to_owned());
    let selector = LabelSelector { match_labels: template.metadata.labels.clone(), ..LabelSelector::default() };
    let mut set = Resource::new("default", "web-1", ReplicaSet { replicas, min_ready_seconds, selector, template });
    set.metadata.uid = "u1".to_owned();
    set.metadata.generation = 3;
    set
}

fn names(pods: &[Resource<Pod>]) -> Vec<&str> {
    pods.iter().map(|pod| pod.metadata.name.as_str()).collect()
}

#[test]
fn pods_that_are_not_ready_go_first_then_the_youngest() {
    let all = vec![pod("old", 1, Some(2)), pod("sick", 1, None), pod("young", 5, Some(6)), pod("sick-young", 5, None)];
    let mut pods = Pods::new(all);
    assert_eq!(names(&pods.take_least(3)), ["sick-young", "sick", "young"]);
    assert_eq!(names(&pods.active), ["old"]);
    assert_eq!(pods.terminating, 3);
}

#[test]
fn names_follow_from_the_set_and_are_not_used_twice() {
    let set = set(3, 0);
    let first: Vec<_> = Pods::new(Vec::new()).free_names(&set.metadata).take(200).collect();
    let distinct: BTreeSet<_> = first.iter().collect();
    assert_eq!(distinct.len(), 200);
    assert!(first[0].starts_with("web-1-") && first[0].len() == "web-1-".len() + 5, "{}", first[0]);
    let next: Vec<_> = Pods::new(vec![pod(&first[0], 0, None)]).free_names(&set.metadata).take(1).collect();
    assert_eq!(next, first[1..2]);
}

#[test]
fn finished_and_deleted_pods_do_not_count() {
    let mut finished = pod("finished", 1, None);
    finished.status = Some(PodStatus { phase: "Failed".to_owned(), ..PodStatus::default() });
    let mut going = pod("going", 1, Some(1));
    going.metadata.deletion_timestamp = Some(at(2));
    let (status, _) = Pods::new(vec![finished, going, pod("there", 1, Some(1))]).status(&set(1, 0), at(9));
    assert_eq!((status.replicas, status.ready_replicas, status.terminating_replicas), (1, 1, 1));
}

#[test]
fn a_pod_is_available_when_it_was_ready_for_long_enough() {
    let pods = Pods::new(vec![pod("a", 0, Some(0)), pod("b", 0, Some(7)), pod("c", 0, None)]);
    let (status, again) = pods.status(&set(3, 10), at(10));
    assert_eq!((status.replicas, status.ready_replicas, status.available_replicas), (3, 2, 1));
    assert_eq!(status.observed_generation, 3);
    assert_eq!(again, Some(Duration::from_secs(7)));
}

#[test]
fn a_pod_without_all_labels_of_the_template_is_not_fully_labelled() {
    let mut bare = pod("bare", 0, None);
    bare.metadata.labels.clear();
    let (status, _) = Pods::new(vec![bare, pod("labelled", 0, None)]).status(&set(2, 0), at(1));
    assert_eq!((status.replicas, status.fully_labeled_replicas), (2, 1));
}
