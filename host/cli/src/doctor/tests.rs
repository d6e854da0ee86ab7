use super::*;

fn result(subject: &str, is_vital: bool, ok: bool) -> CheckResult {
    let check = if ok { Check::Found("1.2".into()) } else { Check::Missing("install it".into()) };
    CheckResult { subject: subject.into(), check, is_vital }
}

#[test]
fn a_machine_is_healthy_with_one_language_and_every_limit() {
    let machine =
        |go, python, files| [result("Go", false, go), result("Python", false, python), result("files", true, files)];
    assert!(is_healthy(&machine(true, false, true)));
    assert!(!is_healthy(&machine(false, false, true)), "no language can be built");
    assert!(!is_healthy(&machine(true, true, false)), "a host cannot run");
}

#[test]
fn a_low_limit_has_the_advice_and_no_limit_is_enough() {
    assert_eq!(check_limit(None, 10, "raise it"), Check::Found("unlimited".into()));
    assert_eq!(check_limit(Some(10), 10, "raise it"), Check::Found("10".into()));
    let low = Check::Missing("the limit is 9, and a host needs 10: raise it".into());
    assert_eq!(check_limit(Some(9), 10, "raise it"), low);
}

#[test]
fn the_report_has_a_line_for_each_check() {
    let results = [result("Go", false, true), result("Python", false, false)];
    assert_eq!(report(&results), "ok       Go      1.2\nmissing  Python  install it\n");
    let document = document(&results);
    assert_eq!((&document["ok"], &document["checks"][1]["advice"]), (&json!(true), &json!("install it")));
}
