//! The desired state of a controller, parsed and checked from its resource. Writes by people pass the same
//! check.

use std::sync::Arc;

use homeostat_component::Digest;
use homeostat_store::schema::{Reason, Violation};
use homeostat_store::{EventType, Request, Resource, Store, WriteResponse};
use serde_json::Value;

use super::SUSPENDED;
use super::spec_error::locate_spec_error;
use crate::manifest::{Spec, ValidSpec};
use crate::{CodeSource, Error, Suspend};

/// The field that names the hosts on which all versions of a controller run.
const PLACEMENT: &str = "placement";

/// Fields about placement, rollout and suspension rather than the version. Revisions do not contain them.
pub(super) const FIELDS_NOT_IN_REVISIONS: [&str; 5] =
    ["paused", PLACEMENT, "revisionHistoryLimit", "rollout", "suspend"];

/// The desired state of one controller.
pub(crate) struct DesiredController {
    pub(crate) spec: Spec,
    pub(crate) checked: ValidSpec,
    /// The definition for the history, without the digest.
    pub(crate) document: Value,
}

impl DesiredController {
    /// Parses the `spec` of a controller or of a revision.
    ///
    /// # Errors
    /// All violations, by field.
    pub(crate) fn read(document: &Value) -> Result<Self, Vec<Violation>> {
        let spec: Spec =
            serde_json::from_value(document.clone()).map_err(|error| vec![locate_spec_error(document, &error)])?;
        let checked = spec.check().map_err(|problems| {
            let violation = |problem: crate::manifest::OutOfBounds| Violation {
                path: format!("{}{}", problem.field, problem.item),
                reason: Reason::Invalid,
                detail: problem.reason,
            };
            problems.into_iter().map(violation).collect::<Vec<_>>()
        })?;
        let mut document = document.clone();
        if let Some(fields) = document.as_object_mut() {
            FIELDS_NOT_IN_REVISIONS.iter().for_each(|field| drop(fields.remove(*field)));
        }
        Ok(Self { spec, checked, document })
    }

    /// Parses the `spec` of a revision, for the placement that the resource has now.
    ///
    /// # Errors
    /// All violations, by field.
    pub(crate) fn of_revision(recorded: &Value, resource: &Resource) -> Result<Self, Vec<Violation>> {
        Self::read(&with_fields_of(recorded, resource, &[PLACEMENT]))
    }
}

impl DesiredController {
    /// Pins an unresolved tag to the digest of the last revision, if nothing else differs.
    pub(crate) fn pin(&mut self, recorded: &Value) {
        let mut same = recorded.clone();
        let digest = same.pointer_mut("/component").and_then(Value::as_object_mut).and_then(|it| it.remove("digest"));
        let digest = digest.as_ref().and_then(Value::as_str).and_then(Digest::parse);
        if self.is_to_be_resolved() && same == self.document {
            self.spec.component.digest = digest.as_ref().map(|digest| digest.as_str().to_owned());
            self.checked.digest = digest;
        }
    }

    /// Checks the source of the code without fetching it.
    fn has_sound_source(&self, code: &dyn CodeSource) -> Result<(), Vec<Violation>> {
        let source = &self.spec.component;
        let field = if source.oci.is_some() { "oci" } else { "file" };
        let path = format!("spec.component.{field}");
        code.check(source).map_err(|detail| vec![Violation { path, reason: Reason::Invalid, detail }])
    }

    /// Returns whether the definition differs from a recorded one, as far as that is known before loading the
    /// code.
    pub(crate) fn differs_from(&self, recorded: &Value) -> bool {
        let (mut wanted, known) = (self.document.clone(), &recorded["component"]["digest"]);
        wanted["component"]["digest"] =
            self.checked.digest.as_ref().map_or(known.clone(), |digest| digest.as_str().into());
        wanted != *recorded
    }

    /// Returns whether the code is named by a tag without a digest, which a registry may move.
    pub(super) fn is_to_be_resolved(&self) -> bool {
        self.spec.component.oci.is_some() && self.checked.digest.is_none()
    }
}

/// Returns the `spec` of a revision with these fields as the resource has them now.
pub(super) fn with_fields_of(recorded: &Value, resource: &Resource, names: &[&str]) -> Value {
    let mut spec = recorded.clone();
    if let Some(fields) = spec.as_object_mut() {
        for name in names {
            fields.remove(*name);
            let now = resource.document()["spec"].get(*name);
            fields.extend(now.map(|value| ((*name).to_owned(), value.clone())));
        }
    }
    spec
}

/// Returns the suspension: the stricter of the operator's annotation and the spec. It applies at once, even
/// if the rest of the spec is refused.
pub(crate) fn suspension(resource: &Resource) -> Suspend {
    let of_person = if resource.annotation(SUSPENDED) == Some("true") { Suspend::Yes } else { Suspend::No };
    let of_spec = resource.document()["spec"].get("suspend").cloned();
    of_person.and(of_spec.and_then(|word| serde_json::from_value(word).ok()).unwrap_or_default())
}

/// Validates a write of a `Controller` with a dry run, then stores it.
///
/// A concurrent write may make the stored document differ from the validated one; the status then reports its
/// errors.
///
/// # Errors
/// [`homeostat_store::Error::InvalidFields`] with the fields, and those of the store.
pub(crate) async fn write(
    store: &dyn Store,
    code: Option<&Arc<dyn CodeSource>>,
    request: Request,
) -> Result<WriteResponse, Error> {
    let planned = store.submit(Request { dry_run: true, ..request.clone() }).await?;
    let resource = &planned.resource;
    let is_going = resource.is_deleting() || planned.change == Some(EventType::Deleted);
    if planned.change.is_some() && !is_going {
        let read = DesiredController::read(&resource.document()["spec"]).and_then(|wanted| match code {
            Some(code) => wanted.has_sound_source(&**code),
            None => Ok(()),
        });
        let what = || format!("Controller.homeostat.dev {:?}", resource.key().name());
        read.map_err(|violations| homeostat_store::Error::invalid_fields(what(), violations))?;
    }
    if request.dry_run {
        return Ok(planned);
    }
    Ok(store.submit(request).await?)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn schema_violations_of_a_controller_name_their_field() {
        let wrong = |more: Value| {
            let mut spec = json!({ "component": { "file": "a.wasm" } });
            spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            let violations = DesiredController::read(&spec).err().unwrap_or_default();
            violations.into_iter().map(|violation| violation.path).collect::<Vec<_>>()
        };
        assert_eq!(wrong(json!({ "limit": {} })), ["spec.limit"]);
        assert_eq!(wrong(json!({ "concurrency": "many" })), ["spec.concurrency"]);
        assert_eq!(wrong(json!({ "concurrency": 0, "resync": "1ms" })), ["spec.concurrency", "spec.resync"]);
        assert_eq!(wrong(json!({ "component": {} })), ["spec.component"]);
        assert_eq!(wrong(json!({ "component": { "digest": "sha256:1" } })), ["spec.component.digest"]);
        assert_eq!(wrong(json!({ "component": { "oci": "" } })), ["spec.component.oci"]);
        assert_eq!(wrong(json!({ "component": { "oci": "example.com/a:1", "file": "a.wasm" } })), ["spec.component"]);
        let rollout = |more: Value| wrong(json!({ "rollout": more }));
        assert_eq!(rollout(json!({ "strategy": "canary", "steps": ["1%", "2%", "110%"] })), ["spec.rollout.steps[2]"]);
        assert_eq!(
            rollout(json!({ "strategy": "canary", "gate": { "for": 3, "traps": 1 } })),
            ["spec.rollout.gate.for"]
        );
        assert_eq!(
            rollout(json!({ "strategy": "canary", "selector": { "a/b": 1, "matchLabels": {} } })),
            ["spec.rollout.selector.a/b"]
        );
        assert_eq!(rollout(json!({ "strategy": "canary", "selector": {} })), ["spec.rollout.selector"]);
        assert_eq!(rollout(json!({ "strategy": "shadow", "gate": { "traps": 1 } })), ["spec.rollout.gate"]);
        assert_eq!(rollout(json!({ "strategy": "shadow", "share": "1%", "gate": { "traps": 1 } })), [""; 0]);
        let hidden = json!([{ "urls": ["https://a.example/*"], "headers": { "x-key": { "value": "***" } } }]);
        assert_eq!(wrong(json!({ "grants": { "http": hidden } })), ["spec.grants.http[0].headers.x-key.value"]);
        let placed = |shards: Value| wrong(json!({ "placement": { "sharded": shards } }));
        assert_eq!(placed(json!({ "shards": 0 })), ["spec.placement.sharded.shards"]);
        assert_eq!(
            placed(json!({ "shards": 257, "by": "hash" })),
            ["spec.placement.sharded.shards", "spec.placement.sharded.by"]
        );
        assert_eq!(placed(json!({ "shards": 256, "by": "namespace" })), [""; 0]);
        assert_eq!(wrong(json!({ "placement": "every-host" })), [""; 0]);
        assert_eq!(wrong(json!({ "placement": "everywhere" })), ["spec.placement"]);
        assert_eq!(DesiredController::read(&Value::Null).err().unwrap()[0].path, "spec");
    }

    #[test]
    fn a_tag_stays_resolved_until_the_definition_changes() {
        let digest = Digest::of(b"code");
        let recorded = json!({ "component": { "oci": "ghcr.io/a:1", "digest": digest.as_str() }, "concurrency": 2 });
        let pinned = |spec: Value| {
            let mut wanted = DesiredController::read(&spec).unwrap_or_else(|_| panic!("it is fine"));
            wanted.pin(&recorded);
            (wanted.checked.digest, wanted.spec.component.digest)
        };
        let same = json!({ "component": { "oci": "ghcr.io/a:1" }, "concurrency": 2, "paused": false });
        assert_eq!(pinned(same), (Some(digest.clone()), Some(digest.to_string())));
        for other in [
            json!({ "component": { "oci": "ghcr.io/a:2" }, "concurrency": 2 }),
            json!({ "component": { "oci": "ghcr.io/a:1" }, "concurrency": 3 }),
            json!({ "component": { "file": "a.wasm" }, "concurrency": 2 }),
        ] {
            assert_eq!(pinned(other), (None, None));
        }
    }

    #[test]
    fn rollout_settings_are_not_part_of_the_history() {
        let spec = json!({ "component": { "file": "a.wasm" }, "paused": true, "revisionHistoryLimit": 2, "concurrency": 2, "rollout": {} });
        let wanted = DesiredController::read(&spec).unwrap_or_else(|_| panic!("it is fine"));
        assert_eq!(wanted.document, json!({ "component": { "file": "a.wasm" }, "concurrency": 2 }));
        assert!(wanted.spec.paused && wanted.checked.old_revisions == 2);
    }
}
