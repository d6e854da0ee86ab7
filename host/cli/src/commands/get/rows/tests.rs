use serde_json::json;

use super::*;
use crate::client::tests_kinds;

const PLAIN: Layout<'static> = Layout { is_wide: false, has_namespace: false, kind: None };

/// Returns a host's table of two crontabs, with a printer column and a wide one.
fn crontabs() -> Value {
    let metadata = |name: &str| json!({ "metadata": { "name": name, "namespace": "red" } });
    json!({
        "kind": "Table", "apiVersion": "meta.k8s.io/v1",
        "columnDefinitions": [
            { "name": "Name", "type": "string", "format": "name", "priority": 0 },
            { "name": "Schedule", "type": "string", "priority": 0 },
            { "name": "Replicas", "type": "integer", "priority": 1 },
            { "name": "Age", "type": "date", "priority": 0 },
        ],
        "rows": [
            { "cells": ["nightly", "0 3 * * *", 2, "5m"], "object": metadata("nightly") },
            { "cells": ["never", null, 0, "2d3h"], "object": metadata("never") },
        ],
    })
}

fn shown(layout: Layout<'_>, table: &Value) -> String {
    let mut rows = Rows::new(layout, columns(table).unwrap().unwrap());
    table["rows"].as_array().unwrap().iter().for_each(|row| rows.add(row));
    rows.take()
}

#[test]
fn the_table_has_the_columns_of_the_host() {
    let expected = "NAME      SCHEDULE    AGE\nnightly   0 3 * * *   5m\nnever     <none>      2d3h\n";
    assert_eq!(shown(PLAIN, &crontabs()), expected);
}

#[test]
fn columns_of_lower_priority_are_in_the_wide_table_only() {
    let wide = shown(Layout { is_wide: true, ..PLAIN }, &crontabs());
    assert!(wide.starts_with("NAME      SCHEDULE    REPLICAS   AGE\nnightly   0 3 * * *   2          5m\n"), "{wide}");
}

#[test]
fn rows_of_several_namespaces_and_kinds_say_which() {
    let kinds = tests_kinds();
    let kind = Some(kinds.find("deploy").unwrap());
    let all = shown(Layout { has_namespace: true, kind, ..PLAIN }, &crontabs());
    let expected =
        "NAMESPACE   NAME                      SCHEDULE    AGE\nred         deployment.apps/nightly   0 3 * * *   5m\n";
    assert!(all.starts_with(expected), "{all}");
}

#[test]
fn a_name_of_lower_priority_is_shown_with_its_kind_among_several_kinds() {
    let kinds = tests_kinds();
    let table = json!({
        "kind": "Table",
        "columnDefinitions": [{ "name": "Reason" }, { "name": "Name", "format": "name", "priority": 1 }],
        "rows": [{ "cells": ["Scaled", "web.18c"] }],
    });
    assert_eq!(shown(PLAIN, &table), "REASON\nScaled\n");
    let kind = Some(kinds.find("pods").unwrap());
    assert_eq!(shown(Layout { kind, ..PLAIN }, &table), "REASON   NAME\nScaled   pod/web.18c\n");
}

#[test]
fn later_rows_have_the_columns_of_the_first_table() {
    let table = crontabs();
    let mut rows = Rows::new(PLAIN, columns(&table).unwrap().unwrap());
    rows.add(&table["rows"][0]);
    assert!(rows.take().starts_with("NAME"));
    let later = json!({ "kind": "Table", "columnDefinitions": null, "rows": [] });
    assert!(columns(&later).unwrap().is_none());
    rows.add(&json!({ "cells": ["weekly"] }));
    assert_eq!(rows.take(), "weekly    <none>      <none>\n");
}

#[test]
fn an_answer_that_is_no_table_is_an_error() {
    let document = json!({ "kind": "Pod", "metadata": { "name": "web" } });
    assert!(columns(&document).unwrap_err().to_string().contains("not a table"));
}
