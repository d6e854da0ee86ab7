use serde_json::json;

use super::*;

#[test]
fn the_head_has_the_metadata_without_managed_fields_and_nothing_else() {
    let document = json!({
        "apiVersion": "v1", "kind": "Pod", "spec": {"a": [1, {"b": null}]}, "status": "s",
        "metadata": {"name": "a", "labels": {"b": "c"}, "managedFields": [{"manager": "m"}], "uid": "u"},
    });
    let wanted =
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "labels": {"b": "c"}, "uid": "u"}});
    assert_eq!(document_head(&document.to_string()), Ok(wanted));
}

#[test]
fn of_repeated_fields_the_last_one_counts_as_in_a_whole_document() {
    let text = r#"{"kind": "A", "metadata": {"name": "a", "n\u0061me": "b"}, "kind": "B", "metadata": {"uid": "u"}}"#;
    let document: Value = serde_json::from_str(text).expect("JSON");
    assert_eq!(document_head(text), Ok(document));
}

#[test]
fn the_head_accepts_the_same_values_as_a_whole_document() {
    let values = [
        "1",
        "-1",
        "1.5e3",
        "1e400",
        "-1e400",
        "01",
        "18446744073709551616",
        "\"\\ud83d\\ude00\"",
        "\"\\ud800\"",
        "\"\\q\"",
        "\"\u{1}\"",
        "tru",
        "true",
        "null",
        "[1,]",
        "[1 2]",
        "{\"a\"}",
        "{\"\\ud800\":1}",
        "{\"a\":1e400}",
        "{1:2}",
        "[\"\\ud800\"]",
        "",
    ];
    for value in values {
        for text in [
            format!(r#"{{"spec": {value}}}"#),
            format!(r#"{{"metadata": {{"managedFields": {value}, "labels": 1}}}}"#),
            format!(r#"{{"metadata": {{"labels": {value}}}}}"#),
            format!(r#"{{"kind": {value}}}"#),
        ] {
            let whole = serde_json::from_str::<Value>(&text);
            assert_eq!(document_head(&text).is_ok(), whole.is_ok(), "{text}");
        }
    }
    for text in ["", "[]", "1", "{} {}", "{", r#"{"metadata": []}"#, r#"{"metadata": null}"#] {
        assert!(document_head(text).is_err(), "{text}");
    }
}

#[test]
fn the_nesting_of_every_part_is_bounded() {
    let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    let limit = Err(validate::too_deep("document"));
    for (outer, before, after) in [
        (1, r#"{"spec": "#, "}"),
        (1, r#"{"kind": "#, "}"),
        (2, r#"{"metadata": {"labels": "#, "}}"),
        (2, r#"{"metadata": {"managedFields": "#, "}}"),
        (2, r#"{"spec": {"a": "#, "}}"),
    ] {
        let text = |levels: usize| format!("{before}{}{after}", nested(levels - outer));
        assert!(document_head(&text(DOCUMENT_DEPTH_MAX)).is_ok(), "{before}");
        assert_eq!(document_head(&text(DOCUMENT_DEPTH_MAX + 1)), limit, "{before}");
        assert!(document_head(&text(10_000)).is_err(), "{before}: the parser gives up");
    }
}
