//! Checks the specs of reviews of rights.
//!
//! Source: `pkg/apis/authorization/validation` of Kubernetes.

use homeostat_store::schema::Reason;
use homeostat_store::{LABEL_VALUE, qualified_faults};
use serde_json::Value;

use super::AUTHORIZATION;
use crate::request::RequestContext;
use crate::status::Failure;

const ATTRIBUTES: &str = "spec.resourceAttributes";

/// The faults of a review, with their fields and reasons.
#[derive(Default)]
struct Faults(Vec<(String, Reason, String)>);

impl Faults {
    fn invalid(&mut self, field: impl Into<String>, detail: impl Into<String>) {
        self.0.push((field.into(), Reason::Invalid, detail.into()));
    }

    fn required(&mut self, field: impl Into<String>, detail: impl Into<String>) {
        self.0.push((field.into(), Reason::Required, detail.into()));
    }

    /// Checks a selector of a review. Operators that are not known pass.
    fn check_selector(&mut self, selector: &Value, path: &str, is_of_labels: bool) {
        if !selector.is_object() {
            return;
        }
        let (raw, requirements) = (text(&selector["rawSelector"]), list(&selector["requirements"]));
        if !raw.is_empty() && !requirements.is_empty() {
            let detail = format!("{raw:?}: may not specified at the same time as requirements");
            self.invalid(format!("{path}.rawSelector"), detail);
        }
        if raw.is_empty() && requirements.is_empty() {
            let detail = format!("when {path} is specified, requirements or rawSelector is required");
            self.required(format!("{path}.requirements"), detail);
        }
        for (at, requirement) in requirements.iter().enumerate() {
            self.check_requirement(requirement, &format!("{path}.requirements[{at}]"), is_of_labels);
        }
    }

    fn check_requirement(&mut self, requirement: &Value, path: &str, is_of_labels: bool) {
        let (key, values) = (text(&requirement["key"]), list(&requirement["values"]));
        match text(&requirement["operator"]) {
            "In" | "NotIn" if values.is_empty() => {
                let detail = "must be specified when `operator` is 'In' or 'NotIn'";
                self.required(format!("{path}.values"), detail);
            }
            "Exists" | "DoesNotExist" if !values.is_empty() => {
                let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                self.0.push((format!("{path}.values"), Reason::Forbidden, detail.to_owned()));
            }
            _ => {}
        }
        if !is_of_labels {
            if key.is_empty() {
                self.required(format!("{path}.key"), "must be specified");
            }
            return;
        }
        qualified_faults(key).iter().for_each(|fault| self.invalid(format!("{path}.key"), format!("{key:?}: {fault}")));
        for (at, value) in values.iter().enumerate() {
            for fault in LABEL_VALUE.faults(text(value)) {
                self.invalid(format!("{path}.values[{at}]"), format!("{value}: {fault}"));
            }
        }
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// Refuses a review of rights that is invalid.
pub(super) fn check(http: &RequestContext<'_>, kind: &str, review: &Value) -> Result<(), Failure> {
    let spec = &review["spec"];
    if kind == "SelfSubjectRulesReview" && text(&spec["namespace"]).is_empty() {
        return Err(Failure::bad_request("no namespace on request"));
    }
    if !kind.ends_with("SubjectAccessReview") {
        return Ok(());
    }
    let is_local = kind == "LocalSubjectAccessReview";
    let (resource, other) = (&spec["resourceAttributes"], &spec["nonResourceAttributes"]);
    let mut faults = Faults::default();
    match (resource.is_null(), other.is_null()) {
        (true, true) => {
            let words = "null: exactly one of nonResourceAttributes or resourceAttributes must be specified";
            faults.invalid(ATTRIBUTES, words);
        }
        (false, false) => {
            let words = "cannot be specified in combination with resourceAttributes";
            faults.invalid("spec.nonResourceAttributes", format!("{other}: {words}"));
        }
        _ => {}
    }
    if kind != "SelfSubjectAccessReview" && text(&spec["user"]).is_empty() && list(&spec["groups"]).is_empty() {
        faults.invalid("spec.user", "\"\": at least one of user or group must be specified");
    }
    faults.check_selector(&resource["fieldSelector"], &format!("{ATTRIBUTES}.fieldSelector"), false);
    faults.check_selector(&resource["labelSelector"], &format!("{ATTRIBUTES}.labelSelector"), true);
    let is_kept = |name: &str| name == "managedFields" || (is_local && name == "namespace");
    let given = review["metadata"].as_object().into_iter().flatten();
    if given.into_iter().any(|(name, value)| !is_kept(name) && !value.is_null() && *value != "") {
        let except = if is_local { " except for namespace" } else { "" };
        faults.invalid("metadata", format!("{}: must be empty{except}", review["metadata"]));
    }
    if is_local {
        let asked = text(&resource["namespace"]);
        if !resource.is_null() && http.target.namespace != Some(asked) {
            faults.invalid(format!("{ATTRIBUTES}.namespace"), format!("{asked:?}: must match metadata.namespace"));
        }
        if !other.is_null() {
            faults.invalid("spec.nonResourceAttributes", format!("{other}: disallowed on this kind of request"));
        }
    }
    Failure::check_faults((AUTHORIZATION, kind), "", &faults.0)
}
