use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::patch::tests::json_value;

fn stored(mut value: Value) -> String {
    normalize(&mut value);
    value.to_string()
}

#[test]
fn numbers_are_stored_as_kubernetes_stores_them() {
    for (written, stored_as) in [
        ("1", "1"),
        ("1.0", "1"),
        ("1e0", "1"),
        ("-7.00", "-7"),
        ("-0", "0"),
        ("-0.0", "0"),
        ("1.5", "1.5"),
        ("0.1", "0.1"),
        ("9007199254740991.0", "9007199254740991"),
        ("9223372036854775807", "9223372036854775807"),
        ("-9223372036854775808", "-9223372036854775808"),
        ("1e300", "1e+300"),
        ("1e18", "1e+18"),
        (r#"{"a":[{"b":2.0}]}"#, r#"{"a":[{"b":2}]}"#),
        (r#""1.0""#, r#""1.0""#),
    ] {
        assert_eq!(stored(serde_json::from_str(written).unwrap()), stored_as, "{written}");
    }
}

#[test]
fn a_whole_number_beyond_64_bits_with_a_sign_is_a_float() {
    let float = (1_u64 << 63) as f64;
    for beyond in [1_u64 << 63, (1 << 63) + 1] {
        assert_eq!(stored(json!(beyond)), json!(float).to_string());
    }
    assert_eq!(stored(json!(u64::MAX)), json!(u64::MAX as f64).to_string());
}

#[test]
fn numbers_nested_too_deeply_are_left_unchanged() {
    let mut value = json!(1.0);
    for _ in 0..DEPTH_MAX {
        value = json!([value]);
    }
    normalize(&mut value);
    assert!(value.to_string().contains("1.0"));
}

/// Calls a function for every number of a value.
fn each(value: &Value, look: &mut impl FnMut(&Number)) {
    match value {
        Value::Number(number) => look(number),
        Value::Array(items) => items.iter().for_each(|item| each(item, look)),
        Value::Object(fields) => fields.values().for_each(|field| each(field, look)),
        _ => {}
    }
}

fn numbers() -> impl Strategy<Value = Value> {
    prop_oneof![
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_filter_map("JSON has no such number", |float| Number::from_f64(float).map(Value::Number)),
        (-100_i32..100).prop_map(|whole| Value::from(f64::from(whole))),
        (0_u64..4, prop::bool::ANY)
            .prop_map(|(off, up)| { Value::from(if up { EXACT_END + off as f64 } else { EXACT_END - off as f64 }) }),
        json_value(),
    ]
}

proptest! {
    #[test]
    fn a_number_is_stored_once_and_for_all_and_is_the_same_number(written in numbers()) {
        let mut stored = written.clone();
        normalize(&mut stored);
        let mut again = stored.clone();
        normalize(&mut again);
        prop_assert_eq!(&again, &stored);
        let read: Value = serde_json::from_str(&stored.to_string()).unwrap();
        prop_assert_eq!(&read, &stored, "what is stored reads back");

        let (mut before, mut after) = (Vec::new(), Vec::new());
        each(&written, &mut |number| before.push(number.as_f64().unwrap()));
        each(&stored, &mut |number| {
            after.push(number.as_f64().unwrap());
            let text = number.to_string();
            let is_written_whole = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
            assert_eq!(is_written_whole, number.is_i64(), "{text}");
            assert!(number.is_i64() || !is_whole(number.as_f64().unwrap()), "{text}");
        });
        prop_assert_eq!(before, after, "no number becomes another");
    }
}
