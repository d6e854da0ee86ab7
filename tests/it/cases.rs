//! `homeostat test` and `homeostat crd`, with real components.

use homeostat_tests::{guest, repository, run};

fn greeter() -> String {
    guest("greeter").display().to_string()
}

#[test]
fn the_cases_of_the_greeter_pass_in_the_sandbox() {
    let cases = repository().join("examples/greeter/cases.yaml").display().to_string();
    let output = run(&["test", &greeter(), &cases]);
    assert_eq!(output.code, Some(0), "{}{}", output.stdout, output.stderr);
    assert!(output.stdout.contains("2 passed, 0 failed"), "{}", output.stdout);
    let output = run(&["test", &greeter(), &cases, "--filter", "lost"]);
    assert!(output.stdout.contains("1 passed, 0 failed"), "{}", output.stdout);
    let none = run(&["test", &greeter(), &cases, "--filter", "no such case"]);
    assert_eq!(none.code, Some(1), "a filter without a match is no success: {}", none.stderr);
}

#[test]
fn a_failed_case_names_each_difference_and_ends_with_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let cases = folder.path().join("cases.yaml");
    let text = std::fs::read_to_string(repository().join("examples/greeter/cases.yaml")).unwrap();
    std::fs::write(&cases, text.replace("Hello, World!", "Good bye")).unwrap();
    let output = run(&["test", &greeter(), &cases.display().to_string()]);
    assert_eq!(output.code, Some(1), "{}{}", output.stdout, output.stderr);
    let line = "status.message: expected \"Good bye\", got \"Hello, World!\"";
    assert!(output.stdout.contains(line), "{}", output.stdout);
    assert!(output.stdout.contains("1 passed, 1 failed"), "{}", output.stdout);
}

/// The component of each case describes itself with the settings of the case.
#[test]
fn a_component_is_tested_with_the_kinds_that_the_settings_of_each_case_name() {
    let folder = tempfile::tempdir().unwrap();
    let case = |kind: &str| {
        serde_json::json!({
            "name": kind, "config": {"kind": kind},
            "given": [{
                "apiVersion": "demo.homeostat.dev/v1", "kind": kind, "metadata": {"name": "a", "namespace": "default"},
            }],
            "steps": [{"settle": true, "expect": {"outcome": "settled", "reconciles": 1}}],
        })
    };
    let cases = folder.path().join("cases.yaml");
    let text = serde_json::json!({"cases": [case("Apple"), case("Pear")]}).to_string();
    std::fs::write(&cases, text).unwrap();
    let component = guest("guest-configured").display().to_string();
    let output = run(&["test", &component, &cases.display().to_string()]);
    assert_eq!(output.code, Some(0), "{}{}", output.stdout, output.stderr);
    assert!(output.stdout.contains("2 passed, 0 failed"), "{}", output.stdout);
}

#[test]
fn a_component_is_inspected_with_the_settings_that_it_needs() {
    let component = guest("guest-configured").display().to_string();
    let refused = run(&["inspect", &component]);
    assert_eq!(refused.code, Some(3), "{}", refused.stdout);
    assert!(refused.stderr.contains("the setting \"kind\" is missing"), "{}", refused.stderr);
    let output = run(&["inspect", &component, "--config", "kind=Apple", "--config", "parts=Seed", "-o", "json"]);
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    let inspection: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(inspection["describe"]["manages"]["kind"]["name"], "Apple");
    assert_eq!(inspection["describe"]["watches"][0]["mapping"], serde_json::json!({"field": "/spec/for"}));
    let output = run(&["crd", &component, "--config", "kind=Apple", "-o", "json"]);
    let definition: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(definition["metadata"]["name"], "apples.demo.homeostat.dev");
    let malformed = run(&["inspect", &component, "--config", "=Apple"]);
    assert!(malformed.stderr.contains("expected NAME=VALUE"), "{}", malformed.stderr);
}

#[test]
fn the_definition_of_a_component_has_its_names_schema_and_columns() {
    let output = run(&["crd", &greeter(), "-o", "json"]);
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    let definition: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(definition["metadata"]["name"], "greetings.demo.homeostat.dev");
    assert_eq!(definition["spec"]["names"]["kind"], "Greeting");
    let version = &definition["spec"]["versions"][0];
    let schema = &version["schema"]["openAPIV3Schema"];
    assert_eq!(schema["description"], "Asks for a greeting.");
    assert_eq!(schema["properties"]["spec"]["required"], serde_json::json!(["name"]));
    assert_eq!(version["additionalPrinterColumns"][0]["jsonPath"], ".status.message");
}
