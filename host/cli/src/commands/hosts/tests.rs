use super::*;

fn three() -> [Value; 3] {
    [
        json!({"name": "a", "identity": "a_1", "isThis": false, "isDraining": false, "leases": ["web/0-of-2", "web/1-of-2"],
            "version": "0.1.0", "address": "10.0.0.1:8081", "processors": 8, "cpuMillicores": 1350,
            "leaseCpuMillicores": {"web/0-of-2": 1350}}),
        json!({"name": "b", "identity": "b_2", "isThis": true, "isDraining": false, "leases": []}),
        json!({"name": "c", "identity": "c_3", "isThis": false, "isDraining": true, "leases": ["db"],
            "cpuMillicores": 0, "leaseCpuMillicores": {"db": 0}}),
    ]
}

#[test]
fn the_loads_and_terms_of_a_controller_are_found_by_shard() {
    let host = |leases: Value| json!({"status": {"identity": "a_1", "leases": leases}});
    let resources = [
        host(json!([
            {"name": "web/0-of-2", "epoch": 7, "since": "2026-11-29T10:00:00Z"}, {"name": "web/1-of-2"},
            {"name": "website", "epoch": 3},
        ])),
        json!({"metadata": {"name": "new"}}),
    ];
    let leases = |controller| json!(merge_leases(&three(), &resources, controller));
    let first = json!({"cpuMillicores": 1350, "holder": "a_1", "epoch": 7, "since": "2026-11-29T10:00:00Z"});
    assert_eq!(leases("web"), json!({"0": first, "1": {"holder": "a_1"}}));
    assert_eq!(leases("db"), json!({"0": {"cpuMillicores": 0}}));
    // The beginning of a name is another controller.
    assert_eq!((leases("we"), leases("d")), (json!({}), json!({})));
}

#[test]
fn the_asked_host_is_found_among_the_others() {
    assert_eq!(this(&three()).unwrap()["name"], "b");
    assert!(this(&three()[..1]).is_err());
}
