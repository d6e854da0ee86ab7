use std::time::Duration;

use serde_json::json;

use crate::effect::EffectClass;

use super::{CallReport, Cost, EffectCounts, Fault, Outcome, Retry};
use crate::limits::LimitName;

#[test]
fn call_reports_survive_encoding_and_decoding_as_json() {
    let fault = Fault::Failure { message: "no".into(), retry: Retry::After(Duration::from_millis(5)) };
    let (cpu, wall) = (Duration::from_micros(7), Duration::from_micros(9));
    let effects = EffectCounts::new([2, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    let cost = Cost { cpu, wall, memory_bytes_max: 1, pages_grown: 2, effects, bytes_out: 3, bytes_in: 4 };
    let report: CallReport<Outcome> = CallReport { result: Err(fault), cost };
    let value = serde_json::to_value(&report).unwrap();
    assert_eq!(value["result"], json!({"err": {"failure": {"message": "no", "retry": {"afterMs": 5}}}}));
    assert_eq!(value["cost"]["cpuUs"], 7);
    assert_eq!(value["cost"]["effects"], json!({"get": 2, "write": 1}));
    assert_eq!(serde_json::from_value::<CallReport<Outcome>>(value).unwrap(), report);
}

#[test]
fn an_outcome_has_its_unit_in_its_name() {
    let again = Outcome::AgainAfter(Duration::from_secs(2));
    assert_eq!(serde_json::to_value(again).unwrap(), json!({"againAfterMs": 2000}));
    assert_eq!(serde_json::to_value(Outcome::Settled).unwrap(), json!("settled"));
}

#[test]
fn a_limit_has_one_name_everywhere() {
    for limit in LimitName::ALL {
        assert_eq!(serde_json::to_value(limit).unwrap(), json!(limit.to_string()));
        let fault = Fault::Limit { limit, message: "m".into() };
        assert!(fault.to_string().contains(limit.as_str()));
    }
}

#[test]
fn every_class_of_effects_has_its_place_and_its_name() {
    for (place, class) in EffectClass::ALL.into_iter().enumerate() {
        assert_eq!(class as usize, place);
        let mut counts = [0; EffectClass::ALL.len()];
        counts[place] = 1;
        let value = serde_json::to_value(EffectCounts::new(counts)).unwrap();
        assert_eq!(value, json!({class.as_str(): 1}));
        assert_eq!(serde_json::from_value::<EffectCounts>(value).unwrap().of(class), 1);
    }
    let unknown = serde_json::from_value::<EffectCounts>(json!({"sing": 1})).unwrap_err();
    assert!(unknown.to_string().contains("sing"), "{unknown}");
}
