use std::sync::Arc;
use std::time::SystemTime;

use serde_json::{Value, json};

use super::*;
use crate::Write;
use crate::schema::Schema;
use crate::semantics::plan_write;
use crate::{Change, Error, Kind, Precondition, Request, Resource, Revision, SystemClockAndIds};

fn kind() -> Kind {
    Kind::new("demo.dev", "v1", "Widget")
}

/// `spec.color` is required, and `spec.size` has a default.
fn schemas() -> Schemas {
    let spec = json!({
        "type": "object", "required": ["color"],
        "properties": { "color": { "type": "string" }, "size": { "type": "integer", "default": 5 } },
    });
    let status = json!({ "type": "object", "properties": { "lit": { "type": "boolean" } } });
    let schema = json!({ "type": "object", "properties": { "spec": spec, "status": status } });
    let schemas = Schemas::default();
    schemas.set(&kind(), [("v1".to_owned(), Some(Schema::parse(&schema).expect("well formed")))]);
    schemas
}

fn draft(write: Write, current: Option<&Arc<Resource>>) -> Result<WritePlan> {
    let request = Request { manager: "me".to_owned(), ..write.into() };
    let lookup = |_: &Key| Ok(current.cloned());
    plan_write(&SystemClockAndIds, &schemas(), request, Revision(9), Validation::Deferred, lookup)
}

fn widget(spec: &Value) -> Value {
    json!({ "apiVersion": "demo.dev/v1", "kind": "Widget", "metadata": { "name": "a" }, "spec": spec })
}

fn complete(draft: &WritePlan, write: &Write, change: impl FnOnce(&mut Value)) -> Result<WritePlan> {
    let mut document = draft_document(draft);
    change(&mut document);
    let part = write.is_of_status().then_some(Subresource::Status);
    plan_draft(SystemTime::now(), &schemas(), draft, part, document)
}

fn created() -> Arc<Resource> {
    let write = Write::Create { document: widget(&json!({})) };
    let draft = draft(write.clone(), None).expect("nothing is validated");
    let plan = complete(&draft, &write, |document| document["spec"]["color"] = "red".into());
    Arc::clone(plan.expect("it is complete").decision.resource())
}

#[test]
fn a_draft_need_not_be_valid_and_has_its_defaults() {
    let write = Write::Create { document: widget(&json!({})) };
    let draft = draft(write.clone(), None).expect("nothing is validated");
    assert_eq!(draft_document(&draft)["spec"], json!({ "size": 5 }));
    let refused = complete(&draft, &write, |_| {}).unwrap_err();
    assert!(
        matches!(&refused, Error::InvalidFields { violations, .. } if violations[0].path == "spec.color"),
        "{refused}"
    );
}

#[test]
fn a_completed_draft_keeps_what_the_host_owns() {
    let resource = created();
    let document = resource.document();
    assert_eq!(document["spec"], json!({ "color": "red", "size": 5 }));
    assert_eq!((resource.generation(), resource.uid().is_empty()), (1, false));
    // Nobody owns what the webhooks changed.
    assert!(document["metadata"]["managedFields"].to_string().contains("f:size"), "{document}");
    assert!(!document["metadata"]["managedFields"].to_string().contains("f:color"), "{document}");
    let change = Change::Merge(json!({ "spec": { "size": 7 } }));
    let write = Write::Patch { key: resource.key().clone(), change, precondition: Precondition::default() };
    let draft = draft(write.clone(), Some(&resource)).expect("nothing is validated");
    let plan = complete(&draft, &write, |document| {
        document["metadata"]["uid"] = "other".into();
        document["metadata"]["generation"] = json!(9);
        document["metadata"]["labels"] = json!({ "a": "b" });
        document["status"] = json!({ "lit": true });
        document["spec"]["unknown"] = json!(1);
    });
    let changed = Arc::clone(plan.expect("it is valid").decision.resource());
    assert_eq!((changed.uid(), changed.generation()), (resource.uid(), 2));
    assert_eq!(changed.document()["spec"], json!({ "color": "red", "size": 7 }));
    assert_eq!((changed.label("a"), changed.document().get("status")), (Some("b"), None));
}

#[test]
fn the_draft_of_a_status_changes_nothing_else() {
    let resource = created();
    let change = Change::Merge(json!({ "status": { "lit": true } }));
    let write = Write::PatchStatus { key: resource.key().clone(), change };
    let draft = draft(write.clone(), Some(&resource)).expect("nothing is validated");
    let plan = complete(&draft, &write, |document| {
        document["status"]["lit"] = false.into();
        document["spec"]["color"] = "blue".into();
    });
    let changed = Arc::clone(plan.expect("it is valid").decision.resource());
    assert_eq!(changed.status(), &json!({ "lit": false }));
    assert_eq!(changed.document()["spec"], resource.document()["spec"]);
    let refused = complete(&draft, &write, |document| document["status"]["lit"] = "yes".into());
    assert!(matches!(refused, Err(Error::InvalidFields { .. })), "{refused:?}");
}

#[test]
fn a_draft_keeps_its_kind_and_an_existing_resource_its_name() {
    let write = Write::Create { document: widget(&json!({ "color": "red" })) };
    let new = draft(write.clone(), None).expect("nothing is validated");
    let renamed = complete(&new, &write, |document| document["metadata"]["name"] = "b".into());
    assert_eq!(renamed.expect("it is new").key.name(), "b");
    let resource = created();
    let update = Write::Update { document: widget(&json!({ "color": "red" })), precondition: Precondition::default() };
    let old = draft(update.clone(), Some(&resource)).expect("nothing is validated");
    let renamed = complete(&old, &update, |document| document["metadata"]["name"] = "b".into());
    assert!(matches!(renamed, Err(Error::InvalidFields { violations, .. }) if violations[0].path == "metadata.name"));
    for (write, draft) in [(&write, &new), (&update, &old)] {
        let other = complete(draft, write, |document| document["kind"] = "Other".into());
        assert!(matches!(other, Err(Error::Invalid { path, .. }) if path == "kind"));
        let broken = complete(draft, write, |document| *document = json!("text"));
        assert!(matches!(broken, Err(Error::Invalid { .. } | Error::InvalidFields { .. })), "{broken:?}");
    }
}

#[test]
fn a_draft_that_is_left_alone_changes_as_much_as_its_write() {
    let resource = created();
    let same = Write::Patch {
        key: resource.key().clone(),
        change: Change::Merge(json!({ "spec": { "size": 5 } })),
        precondition: Precondition::default(),
    };
    let unchanged = draft(same.clone(), Some(&resource)).expect("nothing is validated");
    let plan = complete(&unchanged, &same, |_| {}).expect("it is valid");
    assert!(matches!(plan.decision, Decision::Unchanged(_)));
}
