use super::*;

#[test]
fn duplicate_fields_are_found_at_any_depth() {
    let body = br#"{"a": 1, "b": {"c": 1, "d": [0, {"e": 1, "e": 2, "e": 3}], "c": 2.5}, "a": "x", "f": [[{"g": 1, "g": null}]]}"#;
    assert_eq!(duplicates(body), ["b.d[1].e", "b.c", "a", "f[0][0].g"]);
    assert_eq!(duplicates(br#"[{"op": "add", "path": "/a", "op": "test"}]"#), ["[0].op"]);
}

#[test]
fn unique_fields_and_invalid_json_have_no_duplicates() {
    for body in
        [&br#"{"a": {"a": [1, true, null, -1]}}"#[..], b"", b"{\"a\": 1, \"a\": 2", b"a: 1\na: 2", &[b'['; 10_000]]
    {
        assert!(duplicates(body).is_empty());
    }
}

#[test]
fn number_of_duplicates_is_bounded() {
    let many: Vec<String> = (0..2 * VIOLATIONS_MAX).map(|at| format!("\"a{at}\":0,\"a{at}\":1")).collect();
    assert_eq!(duplicates(format!("{{{}}}", many.join(",")).as_bytes()).len(), VIOLATIONS_MAX);
}
