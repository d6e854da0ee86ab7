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
fn the_loads_of_a_controller_are_found_by_shard() {
    let loads = |controller| Vec::from_iter(loads_of(&three(), controller));
    assert_eq!(loads("web"), [(0, json!(1350))]);
    assert_eq!(loads("db"), [(0, json!(0))]);
    // The beginning of a name is another controller.
    assert_eq!((loads("we"), loads("d")), (Vec::new(), Vec::new()));
}

#[test]
fn the_asked_host_is_found_among_the_others() {
    assert_eq!(this(&three()).unwrap()["name"], "b");
    assert!(this(&three()[..1]).is_err());
}
