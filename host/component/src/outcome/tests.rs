use std::time::Duration;

use serde_json::json;

use super::{Cost, Fault, LimitName, Outcome, Report, Retry};

#[test]
fn a_report_is_the_same_after_a_trip_through_json() {
    let fault = Fault::Failure { message: "no".into(), retry: Retry::After(Duration::from_millis(5)) };
    let cost = Cost { cpu: Duration::from_micros(7), wall: Duration::from_micros(9), memory_bytes_max: 1, effects: 2 };
    let report: Report<Outcome> = Report { result: Err(fault), cost };
    let value = serde_json::to_value(&report).unwrap();
    assert_eq!(value["result"], json!({"err": {"failure": {"message": "no", "retry": {"afterMs": 5}}}}));
    assert_eq!(value["cost"]["cpuUs"], 7);
    assert_eq!(serde_json::from_value::<Report<Outcome>>(value).unwrap(), report);
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
