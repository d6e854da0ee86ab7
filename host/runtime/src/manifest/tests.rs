use serde_json::json;

use super::*;

fn spec(value: serde_json::Value) -> Spec {
    serde_json::from_value(value).unwrap()
}

#[test]
fn durations_and_sizes_survive_printing_and_parsing() {
    for text in ["250ms", "5s", "10m", "1h30m", "2d", "1m500ms", "0s"] {
        assert_eq!(text.parse::<Span>().unwrap().to_string(), text);
    }
    for text in ["", "5", "s", "5 s", "30m1h", "1h1h", "-5s", "99999999999999999999d", "5µs"] {
        assert!(text.parse::<Span>().is_err(), "{text}");
    }
    for text in ["0", "1000", "64Ki", "64Mi", "4Gi"] {
        assert_eq!(text.parse::<Bytes>().unwrap().to_string(), text);
    }
    for text in ["", "Mi", "64MB", "-1", "99999999999Gi"] {
        assert!(text.parse::<Bytes>().is_err(), "{text}");
    }
}

#[test]
fn missing_fields_keep_their_defaults() {
    let checked = spec(json!({"component": {"file": "a.wasm"}, "limits": {"cpu": "20ms"}})).check().unwrap();
    assert_eq!(checked.limits, Limits { cpu: Duration::from_millis(20), ..Limits::default() });
    assert_eq!(checked.overrides, Overrides::default());
    assert_eq!(checked.grants, Grants::default());
}

/// C4: a suspended controller keeps events as keys and runs none.
#[test]
fn suspend_is_true_false_or_except_deletes() {
    let written = |value: serde_json::Value| spec(json!({"component": {"file": "a.wasm"}, "suspend": value}));
    let written_as =
        [(json!(false), Suspend::No), (json!(true), Suspend::Yes), (json!("exceptDeletes"), Suspend::ExceptDeletes)];
    for (value, suspend) in written_as {
        let spec = written(value.clone());
        assert_eq!(serde_json::to_value(&spec).unwrap()["suspend"], value);
        assert_eq!(spec.check().unwrap().suspend, suspend);
    }
    assert_eq!(spec(json!({"component": {"file": "a.wasm"}})).check().unwrap().suspend, Suspend::No);
    for wrong in [json!("exceptdeletes"), json!(1), json!(null)] {
        let written = json!({"component": {"file": "a.wasm"}, "suspend": wrong});
        let error = serde_json::from_value::<Spec>(written).unwrap_err().to_string();
        assert!(error.contains("expected true, false or exceptDeletes"), "{error}");
    }
}

#[test]
fn all_values_out_of_bounds_are_reported_at_once() {
    let written = json!({
        "component": {"file": "a.wasm"}, "concurrency": 0, "resync": "1ms", "poll": "1ms",
        "limits": {"deadline": "2h", "cpu": "1h", "memory": 1}, "backoff": {"base": "10s", "max": "5s"}
    });
    let fields: Vec<_> = spec(written).check().unwrap_err().into_iter().map(|problem| problem.field).collect();
    assert_eq!(
        fields,
        [
            "spec.limits.deadline",
            "spec.limits.cpu",
            "spec.limits.memory",
            "spec.concurrency",
            "spec.resync",
            "spec.poll",
            "spec.backoff.max"
        ]
    );
}

#[test]
fn a_field_that_does_not_exist_is_refused() {
    let wrong = json!({"component": {"file": "a.wasm"}, "limit": {}});
    let error = serde_json::from_value::<Spec>(wrong).unwrap_err().to_string();
    assert!(error.contains("unknown field `limit`"), "{error}");
}

#[test]
fn grants_that_can_never_cover_anything_are_refused_with_their_path() {
    let grants = json!({
        "resources": [
            {"kinds": ["Pod"], "verbs": ["get"]},
            {"kinds": ["Pod", "apps/v1/Deployment"], "verbs": []},
        ],
        "http": [{"urls": ["a.example"]}],
    });
    let problems = spec(json!({"component": {"file": "a.wasm"}, "grants": grants})).check().unwrap_err();
    let paths: Vec<_> = problems.iter().map(|problem| format!("{}{}", problem.field, problem.item)).collect();
    assert_eq!(
        paths,
        ["spec.grants.resources[1].verbs", "spec.grants.resources[1].kinds[1]", "spec.grants.http[0].urls[0]"]
    );
    let told = problems[1].to_string();
    assert!(told.starts_with("spec.grants.resources[1].kinds[1]: ") && told.contains("apps/Deployment"), "{told}");
}

#[test]
fn a_header_has_a_value_or_a_secret_with_a_valid_name() {
    let grants = |source: serde_json::Value| json!({"http": [{"urls": ["https://a.example/*"], "headers": {"authorization": source}}]});
    for source in [json!({"value": "Bearer x"}), json!({"secret": "api-token"})] {
        let written = json!({"component": {"file": "a.wasm"}, "grants": grants(source)});
        assert!(spec(written).check().is_ok());
    }
    for name in ["", "../token", ".hidden", "a/b"] {
        let written = json!({"component": {"file": "a.wasm"}, "grants": grants(json!({"secret": name}))});
        let told = spec(written).check().unwrap_err()[0].to_string();
        assert!(told.starts_with("spec.grants.http[0].headers.authorization.secret: "), "{told}");
    }
}

#[test]
fn processor_time_is_at_most_the_deadline() {
    let limits = |limits: serde_json::Value| spec(json!({"component": {"file": "a.wasm"}, "limits": limits})).check();
    assert_eq!(limits(json!({"deadline": "200ms"})).unwrap().limits.cpu, Duration::from_millis(200));
    let refused = limits(json!({"deadline": "200ms", "cpu": "300ms"})).unwrap_err();
    assert_eq!(refused.iter().map(|problem| problem.field).collect::<Vec<_>>(), ["spec.limits.cpu"]);
}

#[test]
fn limits_are_accepted_within_their_bounds_and_refused_outside_of_them() {
    use homeostat_component::Amount;
    for LimitBounds { limit, field, least, most } in LIMIT_BOUNDS {
        let name = field.strip_prefix("spec.limits.").unwrap();
        let check = |value: Amount| {
            let value = match value {
                Amount::Count(count) => json!(count),
                text => json!(written(text)),
            };
            // The deadline bounds the processor time too.
            let mut limits = json!({"deadline": "1h"});
            limits[name] = value;
            spec(json!({"component": {"file": "a.wasm"}, "limits": limits})).check()
        };
        assert_eq!(check(most).unwrap().limits.amount(limit), most, "{name}");
        assert_eq!(check(least).unwrap().limits.amount(limit), least, "{name}");
        let above = match most {
            Amount::Time(time) => Amount::Time(time + Duration::from_secs(1)),
            Amount::Bytes(bytes) => Amount::Bytes(bytes + 1),
            Amount::Count(count) => Amount::Count(count + 1),
        };
        let fields: Vec<_> = check(above).unwrap_err().into_iter().map(|problem| problem.field).collect();
        assert_eq!(fields.first(), Some(&field));
        assert!(Limits::default().amount(limit) >= least && Limits::default().amount(limit) <= most, "{name}");
    }
}

#[test]
fn a_rollout_is_read_within_its_bounds_and_every_value_outside_of_them_is_named() {
    use crate::rollout::{CanaryPlan, Factor, Gate, Plan, Share};
    use crate::rollout::{DifferenceLimit, ShadowPlan};
    let check = |rollout: serde_json::Value| spec(json!({"component": {"file": "a.wasm"}, "rollout": rollout})).check();
    let plan = |rollout| check(rollout).unwrap().plan;
    assert_eq!(spec(json!({"component": {"file": "a.wasm"}})).check().unwrap().plan, Plan::Immediate);
    assert_eq!(plan(json!({})), Plan::Immediate);
    assert_eq!(plan(json!({"strategy": "canary"})), Plan::Canary(CanaryPlan::default()));
    let steps = |rollout| match plan(rollout) {
        Plan::Canary(canary) => canary.steps,
        Plan::Immediate => Vec::new(),
    };
    assert_eq!(steps(json!({"strategy": "canary", "share": "5%"})), [Share::percent(5)]);
    let chosen = json!({"strategy": "canary", "selector": {"matchLabels": {"a": "b"}}});
    assert_eq!(steps(chosen), [Share::NONE], "all keys come after those that were chosen");
    let both = json!({"strategy": "canary", "selector": {"matchLabels": {"a": "b"}}, "steps": ["1%", "50%"]});
    assert_eq!(steps(both), [Share::NONE, Share::percent(1), Share::percent(50)]);
    let gate = json!({
        "errors": "0%", "traps": 3, "limits": 4, "duration": "1.5x", "writes": "3x", "hotLoops": "4x", "for": "2s", "reconciles": 7,
    });
    let written = Gate {
        errors: Share::NONE,
        traps: 3,
        limits: 4,
        duration: "1.5x".parse().unwrap(),
        writes: Factor::times(3),
        hot_loops: Factor::times(4),
        lasts: Duration::from_secs(2),
        reconciles: 7,
    };
    let canary = CanaryPlan { gate: written, ..CanaryPlan::default() };
    assert_eq!(plan(json!({"strategy": "canary", "gate": gate})), Plan::Canary(canary));

    let shadow = |shadow: serde_json::Value| match plan(json!({"strategy": "shadow", "shadow": shadow})) {
        Plan::Canary(CanaryPlan { steps, shadow: Some(shadow), .. }) if steps.is_empty() => shadow,
        other => panic!("{other:?}"),
    };
    assert_eq!(shadow(json!({})), ShadowPlan::default());
    let allowed = |differences: serde_json::Value| shadow(json!({"differences": differences})).allowed;
    assert_eq!(allowed(json!(3)), DifferenceLimit::Count(3));
    assert_eq!(allowed(json!("0.5%")), DifferenceLimit::Share("0.5%".parse().unwrap()));
    assert_eq!(allowed(json!("any")), DifferenceLimit::Any);
    let written = shadow(json!({"for": "2s", "reconciles": 7}));
    assert_eq!((written.lasts, written.reconciles), (Duration::from_secs(2), 7));
    assert_eq!(steps(json!({"strategy": "shadow", "share": "5%"})), [Share::percent(5)], "it has some keys then");
    let Plan::Canary(both) = plan(json!({"strategy": "canary", "shadow": {}})) else { panic!() };
    assert_eq!(both, CanaryPlan { shadow: Some(ShadowPlan::default()), ..CanaryPlan::default() });

    let fields = |rollout| check(rollout).unwrap_err().into_iter().map(|problem| problem.field).collect::<Vec<_>>();
    assert_eq!(fields(json!({"strategy": "canary", "share": "5%", "steps": ["10%"]})), ["spec.rollout.share"]);
    for steps in [json!([]), json!(["0%"]), json!(["100%"]), json!(["10%", "10%"]), json!(["50%", "10%"])] {
        assert_eq!(fields(json!({"strategy": "canary", "steps": steps})), ["spec.rollout.steps"], "{steps}");
    }
    assert_eq!(
        fields(json!({"strategy": "canary", "selector": {"matchLabels": {}}})),
        ["spec.rollout.selector.matchLabels"]
    );
    let tried = json!({"share": "5%", "selector": {"matchLabels": {"a": "b"}}, "gate": {"traps": 1}, "shadow": {}});
    let named = ["share", "selector", "gate", "shadow"].map(|name| format!("spec.rollout.{name}"));
    assert_eq!(fields(tried), named, "nothing is tried without a strategy");
    assert_eq!(fields(json!({"strategy": "immediate", "steps": ["5%"]})), ["spec.rollout.steps"]);
    let wrong = json!({"for": "99ms", "reconciles": 0, "differences": "some"});
    let named = ["for", "reconciles", "differences"].map(|name| format!("spec.rollout.shadow.{name}"));
    assert_eq!(fields(json!({"strategy": "shadow", "shadow": wrong})), named);
    let gate = json!({
        "duration": "0.5x", "writes": "1001x", "hotLoops": "0x", "traps": 1_000_001, "limits": 1_000_001, "reconciles": 0, "for": "99ms",
    });
    let named: Vec<_> = ["duration", "writes", "hotLoops", "traps", "limits", "reconciles", "for"]
        .iter()
        .map(|name| format!("spec.rollout.gate.{name}"))
        .collect();
    assert_eq!(fields(json!({"strategy": "canary", "gate": gate})), named);
    let negative =
        json!({"component": {"file": "a.wasm"}, "rollout": {"strategy": "shadow", "shadow": {"differences": -1}}});
    let told = serde_json::from_value::<Spec>(negative).unwrap_err().to_string();
    assert!(told.contains("a number, a share as 1%, or any"), "{told}");
    for wrong in [json!({"strategy": "slowly"}), json!({"gate": {"error": "1%"}}), json!({"gate": {"errors": 1}})] {
        let written = json!({"component": {"file": "a.wasm"}, "rollout": wrong});
        assert!(serde_json::from_value::<Spec>(written).is_err(), "{wrong}");
    }
}
