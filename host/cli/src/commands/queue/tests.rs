use super::*;

fn entry() -> Value {
    json!({
        "key": { "kind": { "group": "apps", "version": "v1", "name": "Deployment" }, "namespace": "default", "name": "web" },
        "state": "waiting", "failures": 3, "dueInMs": 1234, "priority": "low", "lastError": "no such image",
    })
}

#[test]
fn a_key_tells_when_it_is_due_and_why_it_failed() {
    let mut table = table(false);
    table.row(row("deployments", &entry(), false));
    let expected = "CONTROLLER    KEY           STATE     FAILURES   DUE    LAST ERROR\n\
                    deployments   default/web   waiting   3          1.2s   no such image\n";
    assert_eq!(table.to_string(), expected);
}

#[test]
fn the_wide_table_has_as_many_cells_as_columns() {
    let mut table = table(true);
    table.row(row("deployments", &entry(), true));
    let text = table.to_string();
    assert!(text.lines().next().unwrap().contains("PRIORITY   RUNNING FOR   LAST ERROR"), "{text}");
    assert!(text.contains("low        -             no such image"), "{text}");
}
