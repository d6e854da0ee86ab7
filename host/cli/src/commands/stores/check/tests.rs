use super::*;

#[test]
fn a_report_has_a_line_for_the_store_and_one_for_each_finding() {
    let report = StoreReport {
        name: "bus".into(),
        storage: "nats",
        refusal: Some("there is no bucket \"x\"".to_owned()),
        findings: vec![("warned", "replicas: one\u{1b}[2J".to_owned())],
    };
    let text = lines(&report);
    let found: Vec<&str> = text.lines().collect();
    assert_eq!(found[0], "store/bus (nats): it cannot be used: there is no bucket \"x\"");
    assert!(found[1].starts_with("  warned: replicas: one") && !found[1].contains('\u{1b}'), "{text}");
    assert_eq!(item(&report)["usable"], false);
    let fine = StoreReport { refusal: None, findings: vec![], ..report };
    assert_eq!(lines(&fine), "store/bus (nats): it can be used\n");
    assert_eq!(item(&fine)["findings"], json!([]));
}
