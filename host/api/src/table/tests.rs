use homeostat_component::KindDeclaration;
use homeostat_store::Kind;

use super::*;

fn deployments() -> KindInfo {
    let kind = Kind::new("apps", "v1", "Deployment");
    let declaration =
        KindDeclaration { kind, plural: "deployments".into(), namespaced: true, keys_only: false, schema: None };
    KindInfo::declared(&declaration, "controller web")
}

fn table() -> Table {
    Table {
        now: || "2026-01-02T00:00:00Z".parse().unwrap(),
        ..Table::of(&deployments(), IncludeObjectPolicy::Metadata)
    }
}

#[test]
fn a_row_has_a_cell_for_each_column_and_the_metadata_of_its_resource() {
    let document = json!({
        "metadata": {"name": "web", "creationTimestamp": "2026-01-01T23:57:55Z"},
        "spec": {"replicas": 3}, "status": {"readyReplicas": 2},
    });
    let shown = json!(table().document(&json!({"resourceVersion": "7"}), [&document]));
    let names: Vec<&Value> =
        shown["columnDefinitions"].as_array().unwrap().iter().map(|column| &column["name"]).collect();
    assert_eq!(names, ["Name", "Ready", "Up-to-date", "Available", "Age"]);
    assert_eq!(shown["rows"][0]["cells"], json!(["web", "2/3", 0, 0, "2m5s"]));
    assert_eq!(shown["rows"][0]["object"]["metadata"], document["metadata"]);
}

/// Like a Deployment, which has one replica by default.
#[test]
fn a_replica_set_that_says_nothing_wants_one_replica() {
    let kind = Kind::new("apps", "v1", "ReplicaSet");
    let declaration =
        KindDeclaration { kind, plural: "replicasets".into(), namespaced: true, keys_only: false, schema: None };
    let table = Table::of(&KindInfo::declared(&declaration, "controller web"), IncludeObjectPolicy::None);
    let document = json!({"metadata": {"name": "web"}, "spec": {}, "status": {"replicas": 1}});
    let shown = json!(table.document(&json!({}), [&document]));
    assert_eq!(shown["rows"][0]["cells"], json!(["web", 1, 1, 0, null]));
}

#[test]
fn ages_are_told_as_people_read_them() {
    let table = table();
    let cases = [
        ("2026-01-01T23:58:30Z", "90s"),
        ("2026-01-01T21:30:00Z", "150m"),
        ("2026-01-01T20:30:00Z", "3h30m"),
        ("2026-01-01T00:00:00Z", "24h"),
        ("2025-12-29T22:00:00Z", "3d2h"),
        ("2025-06-01T00:00:00Z", "215d"),
        ("2027-01-01T00:00:00Z", "0s"),
    ];
    for (moment, age) in cases {
        assert_eq!(table.age(&json!(moment)), age, "{moment}");
    }
    assert_eq!(table.age(&json!("yesterday")), Value::Null);
}

#[test]
fn a_cell_is_the_part_of_the_document_that_its_column_names_and_no_copy() {
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "sites.example.com" },
        "spec": {
            "group": "example.com", "scope": "Cluster", "names": { "kind": "Site", "plural": "sites" },
            "versions": [{ "name": "v1", "served": true, "storage": true, "additionalPrinterColumns": [
                { "name": "All", "type": "string", "jsonPath": ".spec" },
            ] }],
        },
    });
    let table = Table::of(&KindInfo::from_definition(&definition).unwrap(), IncludeObjectPolicy::Object);
    let document = json!({ "metadata": { "name": "one" }, "spec": { "text": "x".repeat(1000) } });
    let row = table.row(&document);
    assert!(matches!(&row.cells[1], Cow::Borrowed(cell) if std::ptr::eq(*cell, &document["spec"])));
    assert!(matches!(&row.object, Some(RowObject::Whole(whole)) if std::ptr::eq(*whole, &document)));
}
