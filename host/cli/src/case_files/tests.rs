use super::*;

#[test]
fn a_case_is_read_from_yaml() {
    let text = "kinds:\n- {apiVersion: v1, kind: ConfigMap}\ncases:\n- name: a\n  given: []\n  steps:\n  - settle: true\n    advance: 1m30s\n    expect: {outcome: settled, reconciles: 1}\n";
    let file = parse(text.as_bytes()).expect("it is read");
    assert_eq!((file.cases.len(), file.cases[0].name.as_str()), (1, "a"));
    assert_eq!(file.kinds[0].declaration().expect("it is a kind").plural, "configmaps");
}

#[test]
fn an_unknown_field_of_a_case_is_refused_with_its_name() {
    let text = "cases:\n- name: a\n  steps:\n  - expect: {outcomes: settled}\n";
    let error = parse(text.as_bytes()).expect_err("it is refused");
    assert!(format!("{error:#}").contains("outcomes"), "{error:#}");
}
