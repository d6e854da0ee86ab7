//! Tests of quantities, with the answers of Kubernetes' own parser.

use serde_json::json;

use super::{Quantity, canonical};

#[test]
fn quantities_have_the_canonical_form_of_kubernetes() {
    let cases = [
        ("0", "0"),
        ("0.5", "500m"),
        ("1000m", "1"),
        ("1500", "1500"),
        ("1500m", "1500m"),
        ("2000", "2k"),
        ("1024Mi", "1Gi"),
        ("1536Mi", "1536Mi"),
        ("512", "512"),
        ("0.5Gi", "512Mi"),
        ("1Ki", "1Ki"),
        ("0.5Ki", "512"),
        ("1e3", "1e3"),
        ("12e2", "1200"),
        ("0.1n", "1n"),
        ("-1", "-1"),
        ("+1", "1"),
        ("100M", "100M"),
        ("1000M", "1G"),
        (".5", "500m"),
        ("9999999999999999999999", "9223372036854775807"),
        // Kubernetes reads no digits as a zero.
        ("-", "0"),
        (".", "0"),
        ("m", "0"),
        ("e3", "0"),
    ];
    for (text, wanted) in cases {
        assert_eq!(canonical(&json!(text)).as_deref(), Some(wanted), "{text}");
    }
    assert_eq!(canonical(&json!(0.25)).as_deref(), Some("250m"));
    assert_eq!(canonical(&json!(2)).as_deref(), Some("2"));
}

#[test]
fn other_texts_are_no_quantities() {
    for text in ["", "a", "1 Gi", "1gi", "1.2.3", "1e", "1e999", "1Kim", "--1"] {
        assert_eq!(canonical(&json!(text)), None, "{text:?}");
    }
}

#[test]
fn a_sum_has_the_notation_of_its_first_amount_that_is_not_zero() {
    let quantity = |text: &str| Quantity::of(&json!(text)).expect("the text is a quantity");
    for (amount, more, sum) in [
        ("1Gi", "1Gi", "2Gi"),
        ("0", "1Gi", "1Gi"),
        ("1500m", "500m", "2"),
        ("1Gi", "24M", "1097741824"),
        ("1k", "1Ki", "2024"),
    ] {
        assert_eq!(quantity(amount).plus(quantity(more)).to_string(), sum);
    }
    assert_eq!(quantity("1").minus(quantity("2")).to_string(), "0");
    assert_eq!(quantity("2Gi").minus(quantity("1Gi")).to_string(), "1Gi");
    assert_eq!(quantity("1500m").rounded_up().to_string(), "2");
    assert_eq!(quantity("1Ki"), quantity("1024"));
    assert_eq!(Quantity::whole(3), quantity("3"));
}
