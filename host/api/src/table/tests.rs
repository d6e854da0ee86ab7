use homeostat_component::KindDeclaration;
use homeostat_store::Kind;

use super::*;

const NOW: &str = "2026-01-02T00:00:00Z";

/// Returns the table of a kind that a component declares with this schema.
fn table(group: &str, name: &str, schema: Option<Value>) -> Table {
    let kind = Kind::new(group, "v1", name);
    let plural = format!("{}s", name.to_lowercase());
    let declaration = KindDeclaration { kind, plural, namespaced: true, keys_only: false, schema };
    let info = KindInfo::declared(&declaration, "controller web");
    Table { now: || NOW.parse().unwrap(), ..Table::of(&info, IncludeObjectPolicy::Metadata) }
}

/// Returns the name and the cell of each column, in the narrow or in the wide table.
fn cells(table: &Table, document: &Value, is_wide: bool) -> Vec<(String, Value)> {
    let shown = json!(table.document(&json!({}), [document]));
    let columns = shown["columnDefinitions"].as_array().unwrap().iter();
    let cells = columns.zip(shown["rows"][0]["cells"].as_array().unwrap());
    let cells = cells.filter(|(column, _)| is_wide || column["priority"] == 0);
    cells.map(|(column, cell)| (column["name"].as_str().unwrap().to_owned(), cell.clone())).collect()
}

fn owned(cells: &[(&str, Value)]) -> Vec<(String, Value)> {
    cells.iter().map(|(name, cell)| ((*name).to_owned(), cell.clone())).collect()
}

fn cell(table: &Table, document: &Value, name: &str) -> Value {
    let cells = cells(table, document, true);
    cells.into_iter().find(|(column, _)| column == name).unwrap().1
}

fn text(value: &str) -> Value {
    value.into()
}

#[test]
fn a_row_has_a_cell_for_each_column_and_the_metadata_of_its_resource() {
    let document = json!({
        "metadata": {"name": "web", "creationTimestamp": "2026-01-01T23:57:55Z"},
        "spec": {"replicas": 3}, "status": {"readyReplicas": 2},
    });
    let shown = json!(table("apps", "Deployment", None).document(&json!({"resourceVersion": "7"}), [&document]));
    let columns = shown["columnDefinitions"].as_array().unwrap();
    let names: Vec<&Value> = columns.iter().map(|column| &column["name"]).collect();
    assert_eq!(names, ["Name", "Ready", "Up-to-date", "Available", "Age", "Containers", "Images", "Selector"]);
    let priorities: Vec<&Value> = columns.iter().map(|column| &column["priority"]).collect();
    assert_eq!(priorities, [0, 0, 0, 0, 0, 1, 1, 1]);
    assert_eq!(shown["rows"][0]["cells"], json!(["web", "2/3", 0, 0, "2m5s", "", "", "<none>"]));
    assert_eq!(shown["rows"][0]["object"]["metadata"], document["metadata"]);
}

#[test]
fn a_wide_deployment_shows_its_containers_images_and_selector() {
    let document = json!({ "metadata": { "name": "web" }, "spec": {
        "selector": { "matchLabels": { "app": "web" } },
        "template": { "spec": { "containers": [{ "name": "main", "image": "web:1" }, { "name": "side", "image": "side:2" }] } },
    } });
    let wide = [("Containers", text("main,side")), ("Images", text("web:1,side:2")), ("Selector", text("app=web"))];
    for kind in ["Deployment", "ReplicaSet"] {
        assert_eq!(cells(&table("apps", kind, None), &document, true)[5..], owned(&wide), "{kind}");
    }
}

#[test]
fn a_replica_set_without_a_stated_number_wants_one_replica() {
    let document = json!({"metadata": {"name": "web"}, "spec": {}, "status": {"replicas": 1}});
    let expected = [("Name", text("web")), ("Desired", 1.into()), ("Current", 1.into()), ("Ready", 0.into())];
    let shown = cells(&table("apps", "ReplicaSet", None), &document, false);
    assert_eq!(shown[..4], owned(&expected));
    assert_eq!(shown[4], ("Age".to_owned(), Value::Null));
}

#[test]
fn a_pod_shows_its_containers_its_restarts_and_its_termination() {
    let table = table("", "Pod", None);
    let mut document = json!({
        "metadata": { "name": "web", "creationTimestamp": "2026-01-01T23:59:50Z" },
        "spec": { "containers": [{ "image": "web:1" }, {}], "nodeName": "one" },
        "status": { "phase": "Running", "containerStatuses": [
            { "ready": true, "restartCount": 2, "state": { "running": {} } }, { "restartCount": 1 },
        ] },
    });
    let mut expected = owned(&[
        ("Name", text("web")),
        ("Ready", text("1/2")),
        ("Status", text("Running")),
        ("Restarts", text("3")),
        ("Age", text("10s")),
    ]);
    assert_eq!(cells(&table, &document, false), expected);
    expected.extend(owned(&[
        ("IP", text("<none>")),
        ("Node", text("one")),
        ("Nominated Node", text("<none>")),
        ("Readiness Gates", text("<none>")),
    ]));
    assert_eq!(cells(&table, &document, true), expected);
    document["status"]["containerStatuses"][1]["state"]["waiting"]["reason"] = "ImagePullBackOff".into();
    assert_eq!(cell(&table, &document, "Status"), "ImagePullBackOff");
    document["metadata"]["deletionTimestamp"] = NOW.into();
    assert_eq!(cell(&table, &document, "Status"), "Terminating");
}

#[test]
fn a_pod_without_container_statuses_has_no_ready_containers() {
    let document = json!({
        "spec": { "containers": [{}, {}] },
        "status": { "conditions": [{ "type": "Ready", "status": "True" }] },
    });
    let table = table("", "Pod", None);
    assert_eq!(cell(&table, &document, "Ready"), "0/2");
    assert_eq!(cell(&table, &json!({}), "Status"), "Pending");
}

#[test]
fn a_controller_shows_its_queue() {
    let document = json!({ "metadata": { "name": "web", "creationTimestamp": "2026-01-01T23:57:00Z" }, "status": {
        "state": "ready", "manages": { "group": "apps", "version": "v1", "name": "Deployment" }, "revision": 4,
        "reconciles": 12, "failures": 1, "counts": { "waiting": 2, "ready": 3, "running": 1, "parked": 0 },
        "generation": 2, "concurrency": 8, "digest": "sha256:0123456789abcdef",
        "leases": [{ "shard": 0, "isHeld": true }, { "shard": 1, "isHeld": false }],
    } });
    let table = table("homeostat.dev", "Controller", None);
    let mut expected = owned(&[
        ("Name", text("web")),
        ("State", text("Ready")),
        ("Manages", text("deployment.apps")),
        ("Revision", 4.into()),
        ("Reconciles", 12.into()),
        ("Failures", 1.into()),
        ("Running", 1.into()),
        ("Queued", 5.into()),
        ("Parked", 0.into()),
        ("Generation", 2.into()),
        ("Age", text("3m")),
    ]);
    assert_eq!(cells(&table, &document, false), expected);
    expected.extend(owned(&[
        ("Concurrency", 8.into()),
        ("Digest", text("sha256:0123456789ab")),
        ("Leases", text("1/2")),
        ("Message", text("<none>")),
    ]));
    assert_eq!(cells(&table, &document, true), expected);
}

#[test]
fn a_compiling_controller_shows_the_duration() {
    let table = table("homeostat.dev", "Controller", None);
    let state = |status: Value| cell(&table, &json!({ "status": status }), "State");
    assert_eq!(state(json!({ "state": "ready" })), "Ready");
    assert_eq!(state(json!({ "state": "compiling", "compilingForMs": 12_345 })), "Compiling 12s");
    assert_eq!(state(json!({ "state": "ready", "compilingForMs": 2_000 })), "Ready, compiling 2.0s");
    assert_eq!(state(json!({})), "<none>");
}

#[test]
fn a_controller_without_a_running_version_shows_the_reason() {
    let refused = json!({ "type": "Loaded", "status": "False", "reason": "Refused", "message": "no watch" });
    let document =
        json!({ "status": { "conditions": [{ "type": "Ready", "status": "False", "reason": "Other" }, refused] } });
    let table = table("homeostat.dev", "Controller", None);
    let shown = ["State", "Message", "Manages"].map(|name| cell(&table, &document, name));
    assert_eq!(shown, ["Refused", "no watch", "<none>"]);
}

#[test]
fn an_event_has_its_generated_name_in_the_wide_table_only() {
    let document = json!({
        "metadata": { "name": "web.18c" }, "type": "Normal", "reason": "Scaled", "message": "to 2", "count": 3,
        "lastTimestamp": "2026-01-01T23:59:50Z", "firstTimestamp": "2026-01-01T23:57:00Z",
        "involvedObject": { "kind": "Deployment", "name": "web" }, "source": { "component": "deployments" },
    });
    let mut expected = owned(&[
        ("Last Seen", text("10s")),
        ("Type", text("Normal")),
        ("Reason", text("Scaled")),
        ("Object", text("deployment/web")),
        ("Message", text("to 2")),
    ]);
    let table = table("", "Event", None);
    assert_eq!(cells(&table, &document, false), expected);
    expected.splice(4..4, owned(&[("Subobject", text("")), ("Source", text("deployments"))]));
    expected.extend(owned(&[("First Seen", text("3m")), ("Count", 3.into()), ("Name", text("web.18c"))]));
    assert_eq!(cells(&table, &document, true), expected);
}

#[test]
fn a_definition_shows_its_kind_and_the_time_of_its_creation() {
    let document = json!({
        "metadata": { "name": "sites.example.com", "creationTimestamp": NOW }, "spec": { "names": { "kind": "Site" } },
    });
    let expected = [("Name", text("sites.example.com")), ("Created At", text(NOW))];
    let table = table("apiextensions.k8s.io", "CustomResourceDefinition", None);
    assert_eq!(cells(&table, &document, false), owned(&expected));
}

#[test]
fn a_deleted_namespace_is_terminating() {
    let table = table("", "Namespace", None);
    assert_eq!(cell(&table, &json!({}), "Status"), "Active");
    assert_eq!(cell(&table, &json!({ "metadata": { "deletionTimestamp": NOW } }), "Status"), "Terminating");
}

#[test]
fn other_kinds_show_their_readiness_unless_their_schema_has_no_conditions() {
    let ready = json!({ "status": { "conditions": [{ "type": "Ready", "status": "True" }] } });
    let names = |schema: Option<Value>| {
        let cells = cells(&table("example.com", "Site", schema), &ready, false);
        cells.into_iter().map(|(name, _)| name).collect::<Vec<_>>()
    };
    let status = |status: Value| Some(json!({ "type": "object", "properties": { "status": status } }));
    assert_eq!(names(None), ["Name", "Ready", "Age"]);
    assert_eq!(names(status(json!({ "type": "object" }))), ["Name", "Ready", "Age"]);
    assert_eq!(names(status(json!({ "properties": { "conditions": {} } }))), ["Name", "Ready", "Age"]);
    assert_eq!(names(status(json!({ "properties": { "copies": {} } }))), ["Name", "Age"]);
    assert_eq!(names(Some(json!({ "type": "object", "properties": { "spec": {} } }))), ["Name", "Age"]);
    let table = table("example.com", "Site", None);
    assert_eq!((cell(&table, &ready, "Ready"), cell(&table, &json!({}), "Ready")), (text("True"), text("<none>")));
}

#[test]
fn a_time_has_its_age_or_the_word_of_kubernetes() {
    let table = table("apps", "Deployment", None);
    assert_eq!(table.age(&json!("2027-01-01T00:00:00Z")), "0s");
    assert_eq!(table.age(&json!("2023-12-01T00:00:00Z")), "2y33d");
    assert_eq!(table.age(&json!("yesterday")), "<invalid>");
    assert_eq!(table.age(&Value::Null), Value::Null);
}

#[test]
fn a_cell_borrows_the_field_that_its_column_names() {
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "sites.example.com" },
        "spec": {
            "group": "example.com", "scope": "Cluster", "names": { "kind": "Site", "plural": "sites" },
            "versions": [{ "name": "v1", "served": true, "storage": true, "additionalPrinterColumns": [
                { "name": "All", "type": "string", "jsonPath": ".spec.text" },
            ] }],
        },
    });
    let table = Table::of(&KindInfo::from_definition(&definition).unwrap(), IncludeObjectPolicy::Object);
    let document = json!({ "metadata": { "name": "one" }, "spec": { "text": "x".repeat(1000) } });
    let row = table.row(&document);
    assert!(matches!(&row.cells[1], Cow::Borrowed(cell) if std::ptr::eq(*cell, &document["spec"]["text"])));
    assert!(matches!(&row.object, Some(RowObject::Whole(whole)) if std::ptr::eq(*whole, &document)));
}

#[test]
fn a_row_of_a_host_has_its_leases_and_what_it_tells() {
    let table = table("homeostat.dev", "Host", None);
    let names = [json!({"name": "web/0-of-2", "epoch": 7}), json!({"name": "web/1-of-2"})];
    let host = json!({"metadata": {"name": "a"}, "status": {
        "identity": "a_1", "isThis": true, "state": "Active", "version": "0.1.0", "address": "10.0.0.1:8081",
        "processors": 8, "load": "1.35", "leases": names, "leaseCount": 2,
    }});
    let narrow = [("Name", "a"), ("This", "yes"), ("State", "Active"), ("Version", "0.1.0")];
    let narrow = narrow.map(|(name, cell)| (name, text(cell)));
    let leases = ("Leases", text("web/0-of-2,web/1-of-2"));
    assert_eq!(cells(&table, &host, false), owned(&[&narrow[..], &[leases]].concat()));
    let wide = [("Address", "10.0.0.1:8081"), ("Processors", "8"), ("Load", "1.35"), ("Identity", "a_1")];
    assert_eq!(cells(&table, &host, true)[5..], owned(&wide.map(|(name, cell)| (name, text(cell)))));
    let silent = json!({"metadata": {"name": "b"}, "status": {"state": "Gone", "leases": [], "isThis": false}});
    let shown: Vec<Value> = cells(&table, &silent, true).into_iter().map(|(_, cell)| cell).collect();
    assert_eq!(shown, ["b", "-", "Gone", "-", "-", "-", "-", "-", "-"].map(text));
}

#[test]
fn a_row_of_a_host_says_how_many_leases_are_not_listed() {
    let leases: Vec<Value> = (0..256).map(|number| json!({"name": format!("web/{number}-of-300")})).collect();
    let host = json!({"metadata": {"name": "a"}, "status": {"leases": leases, "leaseCount": 300}});
    let shown = cell(&table("homeostat.dev", "Host", None), &host, "Leases");
    assert!(shown.as_str().unwrap().ends_with("web/255-of-300,+44"), "{shown}");
}
