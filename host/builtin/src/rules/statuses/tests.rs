use serde_json::{Value, json};

use crate::{find, rules};

/// Returns what the rules say of a status of a kind. `document` has the rest of the resource, and `old` is its former status.
fn violations(kind: (&str, &str), document: &Value, old: &Value, status: &Value) -> Vec<String> {
    let kind = homeostat_store::Kind::parse(kind.0, kind.1).unwrap();
    let with = |status: &Value| {
        let mut document = document.clone();
        document["status"] = status.clone();
        document
    };
    let (mut resource, old) = (with(status), with(old));
    let rules = rules::of(find(&kind).unwrap());
    rules.set_status_defaults(&mut resource, &old);
    rules.check_status(&resource, &old).iter().map(ToString::to_string).collect()
}

#[test]
fn the_numbers_of_a_status_fit_each_other() {
    let none = json!({});
    for (kind, status, wanted) in [
        (
            "Deployment",
            json!({ "replicas": 1, "updatedReplicas": 2 }),
            "status.updatedReplicas: Invalid value: 2: cannot be greater than status.replicas",
        ),
        (
            "ReplicaSet",
            json!({ "replicas": 1, "readyReplicas": 2 }),
            "status.readyReplicas: Invalid value: 2: cannot be greater than status.replicas",
        ),
        (
            "StatefulSet",
            json!({ "replicas": 3, "availableReplicas": 1 }),
            "status.availableReplicas: Invalid value: 1: cannot be greater than status.readyReplicas",
        ),
        (
            "DaemonSet",
            json!({ "numberReady": -1 }),
            "status.numberReady: Invalid value: -1: must be greater than or equal to 0",
        ),
    ] {
        assert_eq!(violations(("apps/v1", kind), &none, &none, &status), [wanted], "{kind}");
    }
    let before = json!({ "collisionCount": 3 });
    let found = violations(("apps/v1", "Deployment"), &none, &before, &json!({ "collisionCount": 2 }));
    assert_eq!(found, ["status.collisionCount: Invalid value: 2: cannot be decremented"]);
}

#[test]
fn a_finished_job_stays_finished() {
    let job = ("batch/v1", "Job");
    let condition = |name: &str| json!({ "type": name, "status": "True" });
    let complete = json!({
        "startTime": "2026-01-01T00:00:00Z", "completionTime": "2026-01-01T00:01:00Z", "succeeded": 1,
        "conditions": [condition("SuccessCriteriaMet"), condition("Complete")],
    });
    assert_eq!(violations(job, &json!({}), &json!({ "startTime": "2026-01-01T00:00:00Z" }), &complete), [""; 0]);
    let found = violations(job, &json!({}), &complete, &json!({ "startTime": "2026-01-01T00:00:00Z" }));
    let wanted = [
        "status.conditions: Invalid value: cannot disable the terminal Complete=True condition",
        "status.succeeded: Invalid value: 0: cannot decrease the succeeded counter",
        "status.conditions: Invalid value: cannot disable the SuccessCriteriaMet=True condition",
    ];
    assert_eq!(found, wanted);
    let found = violations(job, &json!({}), &json!({}), &json!({ "conditions": [condition("Complete")], "active": 1 }));
    let wanted = [
        "status.completionTime: Required value: completionTime is required for Complete jobs",
        "status.conditions: Invalid value: cannot set Complete=True condition without the SuccessCriteriaMet=true condition",
        "status.active: Invalid value: 1: active>0 is invalid for finished job",
        "status.startTime: Required value: startTime is required for finished job",
    ];
    assert_eq!(found, wanted);
}

#[test]
fn completed_and_failed_indexes_are_disjoint() {
    let spec = json!({ "spec": { "completionMode": "Indexed", "completions": 10, "backoffLimitPerIndex": 1 } });
    let of = |completed: &str, failed: &str| {
        violations(
            ("batch/v1", "Job"),
            &spec,
            &json!({}),
            &json!({ "completedIndexes": completed, "failedIndexes": failed }),
        )
    };
    assert_eq!(of("0-3,7", "4-6,9"), [""; 0]);
    let overlap =
        "status.failedIndexes: Invalid value: \"6-9\": failedIndexes and completedIndexes overlap at index: 7";
    assert_eq!(of("0-3,7", "6-9"), [overlap]);
    let order = "status.completedIndexes: Invalid value: \"3,1\": error parsing completedIndexes: non-increasing order, previous: 3, current: 1";
    assert_eq!(of("3,1", ""), [order]);
}

#[test]
fn an_ended_container_that_is_not_restarted_stays_ended() {
    let pod = |policy: &str| json!({ "spec": { "restartPolicy": policy, "containers": [{ "name": "a" }] } });
    let with = |state: Value| json!({ "containerStatuses": [{ "name": "a", "state": state }] });
    let of = |policy: &str, exit_code: u8| {
        let ended = with(json!({ "terminated": { "exitCode": exit_code } }));
        violations(("v1", "Pod"), &pod(policy), &ended, &with(json!({ "running": {} })))
    };
    let refused = ["status.containerStatuses[0].state: Forbidden: may not be transitioned to non-terminated state"];
    assert_eq!(
        (of("Never", 1), of("OnFailure", 0)),
        (refused.map(str::to_owned).into(), refused.map(str::to_owned).into())
    );
    assert_eq!((of("Always", 0), of("OnFailure", 1)), (vec![], vec![]));
}

#[test]
fn a_pod_has_one_address_of_each_family() {
    let of = |status: Value| violations(("v1", "Pod"), &json!({ "spec": {} }), &json!({}), &status);
    assert_eq!(
        of(json!({ "podIP": "192.0.2.1", "podIPs": [{ "ip": "192.0.2.1" }, { "ip": "2001:db8::1" }] })),
        [""; 0]
    );
    assert_eq!(of(json!({ "podIP": "x" })).len(), 1, "the list has the address, too");
    let twice = of(json!({ "podIPs": [{ "ip": "192.0.2.1" }, { "ip": "192.0.2.2" }] }));
    assert!(twice[0].contains("may specify no more than one IP for each IP family"), "{twice:?}");
}

#[test]
fn a_status_with_many_items_is_checked_at_once() {
    // As many as a document may have. Each pair of them would be 400 million.
    let statuses: Vec<Value> =
        (0..20_000).map(|number| json!({ "name": number.to_string(), "state": { "terminated": {} } })).collect();
    let conditions: Vec<Value> = (0..20_000).map(|number| json!({ "type": format!("c{number}") })).collect();
    let status = json!({ "containerStatuses": statuses, "conditions": conditions });
    assert_eq!(violations(("v1", "Pod"), &json!({ "spec": {} }), &status, &status), [""; 0]);
}

#[test]
fn a_capacity_below_zero_is_refused() {
    let of = |amount: &str| {
        let status = json!({ "capacity": { "storage": amount } });
        violations(("v1", "PersistentVolumeClaim"), &json!({}), &json!({}), &status)
    };
    // As in Kubernetes, a part of a byte counts as a whole one.
    let refused = ["status.capacity[storage]: Invalid value: -1: must be a valid resource quantity"];
    assert_eq!((of("-500m"), of("0")), (refused.map(str::to_owned).into(), vec![]));
}
