use super::*;

fn keys(names: &[&str]) -> Vec<Value> {
    names.iter().map(|name| json!({ "key": { "name": name } })).collect()
}

fn queue(names: &[&str], ready: u64, wanted: u64) -> Value {
    json!({
        "counts": { "waiting": 0, "ready": ready, "running": 0, "parked": 1 },
        "cut": { "wanted": wanted, "notLookedAt": 1 }, "items": keys(names),
    })
}

#[test]
fn queues_are_added_and_keys_beyond_the_limit_are_counted() {
    let mut own = queue(&["a"], 1, 0);
    add_queues(&mut own, vec![queue(&["b", "c"], 2, 5), queue(&["d"], 3, 0)], 3);
    assert_eq!(own["counts"], json!({ "waiting": 0, "ready": 6, "running": 0, "parked": 3 }));
    assert_eq!(own["cut"], json!({ "wanted": 6, "notLookedAt": 3 }));
    assert_eq!(own["items"], json!(keys(&["a", "b", "c"])));
}

#[test]
fn a_queue_of_another_shape_adds_nothing() {
    let before = queue(&["a"], 1, 0);
    for other in [
        json!(null),
        json!([]),
        json!({ "items": "x", "counts": 7, "cut": [] }),
        json!({ "items": [1, "x", null], "counts": { "ready": -1, "waiting": "x" }, "cut": { "wanted": null } }),
    ] {
        let mut own = before.clone();
        add_queues(&mut own, vec![other], 10);
        assert_eq!(own, before);
    }
    let mut own = before.clone();
    add_queues(&mut own, vec![json!({ "counts": { "ready": u64::MAX } })], 10);
    assert_eq!(own["counts"]["ready"], u64::MAX);
}

fn costs(controller: &str, keys: &[(&str, u64)]) -> Value {
    let spent = |cpu: u64| json!({ "runs": 1, "cpuUs": cpu, "cpuUsMax": cpu, "effects": { "write": 1 } });
    let all = keys.iter().map(|(_, cpu)| cpu).sum();
    let keys: Vec<Value> = keys
        .iter()
        .map(|(name, cpu)| json!({ "key": { "name": name }, "spent": spent(*cpu), "atLeast": false }))
        .collect();
    let lately = json!({ "seconds": 55.5, "runs": 1 });
    json!({ "controller": controller, "spent": spent(all), "lately": lately, "keys": keys })
}

#[test]
fn costs_of_a_shared_controller_are_added_and_its_keys_are_one_list() {
    let mut own = json!({ "items": [costs("web", &[("a", 5), ("b", 7)]), costs("home", &[("x", 1)])] });
    let mut other = costs("web", &[("a", 9), ("c", 1)]);
    other["spent"]["effects"] = json!({ "write": 2, "http": 3 });
    other["lately"]["seconds"] = json!(60.0);
    other["keys"][0]["atLeast"] = json!(true);
    let odd = json!({ "items": [7, { "controller": "web", "spent": [], "lately": 7, "keys": "x" }] });
    let others = vec![json!({ "items": [other, costs("home", &[("x", 100)]), costs("none", &[])] }), odd, json!(7)];
    add_costs(&mut own, others, |name| name != "home");
    let [web, home] = [0, 1].map(|at| &own["items"][at]);
    assert_eq!(web["spent"], json!({ "runs": 2, "cpuUs": 22, "cpuUsMax": 12, "effects": { "write": 3, "http": 3 } }));
    assert_eq!(web["lately"], json!({ "seconds": 60.0, "runs": 2 }));
    let found: Vec<Value> = web["keys"]
        .as_array()
        .unwrap()
        .iter()
        .map(|key| json!([key["key"]["name"], key["spent"]["cpuUs"], key["spent"]["cpuUsMax"], key["atLeast"]]))
        .collect();
    assert_eq!(found, [json!(["a", 14, 9, true]), json!(["b", 7, 7, false]), json!(["c", 1, 1, false])]);
    assert_eq!(home["spent"]["cpuUs"], 1);
    assert_eq!(own["items"].as_array().unwrap().len(), 2);
}

#[test]
fn costs_keep_a_bounded_number_of_keys() {
    let names: Vec<String> = (0..3 * COST_KEYS_MAX).map(|number| number.to_string()).collect();
    let keys: Vec<(&str, u64)> = names.iter().map(|name| (&**name, name.parse().unwrap())).collect();
    let mut own = json!({ "items": [costs("web", &keys[..2])] });
    add_costs(&mut own, vec![json!({ "items": [costs("web", &keys)] })], |_| true);
    let kept = own["items"][0]["keys"].as_array().unwrap();
    assert_eq!((kept.len(), &kept[0]["key"]["name"]), (COST_KEYS_MAX, &json!(names.last().unwrap())));
}
