//! The versions of a kind: names, schemas, columns, subresources and selectable fields.
//!
//! What all versions have alike stands at the root of the specification for Kubernetes, which names it there.

use homeostat_cel::names::DNS_1035_LABEL;
use homeostat_store::schema::{Reason, Violation};
use serde_json::Value;

use super::{form, invalid, schema, text, violation};

/// The formats of a printer column.
const COLUMN_FORMATS: [&str; 8] = ["int32", "int64", "float", "double", "byte", "date", "date-time", "password"];
const COLUMN_TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
/// In bytes.
const DEPRECATION_BYTES_MAX: usize = 256;
const SELECTABLE_FIELDS_MAX: usize = 8;

/// The versions of a definition, and which of their parts they have alike.
pub(super) struct Versions<'s> {
    versions: &'s [Value],
    shares_schema: bool,
    shares_subresources: bool,
    shares_columns: bool,
    shares_selectable_fields: bool,
}

impl<'s> Versions<'s> {
    pub(super) fn of(spec: &'s Value) -> Self {
        let versions = list(&spec["versions"]);
        let is_shared = |part: &str| versions.iter().all(|version| version[part] == versions[0][part]);
        Self {
            versions,
            shares_schema: is_shared("schema"),
            shares_subresources: is_shared("subresources"),
            shares_columns: is_shared("additionalPrinterColumns"),
            shares_selectable_fields: is_shared("selectableFields"),
        }
    }

    /// Checks the versions one by one, and then together.
    pub(super) fn check_each(&self, violations: &mut Vec<Violation>) {
        for (at, version) in self.versions.iter().enumerate() {
            if version["schema"]["openAPIV3Schema"].is_null() {
                let path = format!("spec.versions[{at}].schema.openAPIV3Schema");
                violations.push(violation(path, Reason::Required, ""));
            }
        }
        for (at, version) in self.versions.iter().enumerate() {
            let path = format!("spec.versions[{at}]");
            form(format!("{path}.name"), &version["name"], &DNS_1035_LABEL, violations);
            check_deprecation(version, &path, violations);
            if !self.shares_schema {
                check_schema(version, &format!("{path}.schema"), has_status(version), violations);
            }
            if !self.shares_subresources {
                check_scale(&version["subresources"]["scale"], &format!("{path}.subresources"), violations);
            }
            if !self.shares_columns {
                check_columns(version, &path, violations);
            }
            if !self.shares_selectable_fields {
                let schema = if self.shares_schema { &Value::Null } else { &version["schema"]["openAPIV3Schema"] };
                check_selectable_fields(version, schema, &path, violations);
            }
        }
        let names: Vec<&str> = self.versions.iter().map(|version| text(&version["name"])).collect();
        if (1..names.len()).any(|at| names[..at].contains(&names[at])) {
            violations.push(invalid("spec.versions", format!("{names:?}: must contain unique version names")));
        }
        if self.versions.iter().filter(|version| version["storage"] == true).count() != 1 {
            let detail = format!("{names:?}: must have exactly one version marked as storage version");
            violations.push(invalid("spec.versions", detail));
        }
        if let Some(first) = self.versions.first().filter(|version| !text(&version["name"]).is_empty()) {
            form("spec.version".to_owned(), &first["name"], &DNS_1035_LABEL, violations);
        }
    }

    /// Checks what all versions have alike.
    pub(super) fn check_shared(&self, violations: &mut Vec<Violation>) {
        let Some(first) = self.versions.first() else { return };
        if self.shares_schema {
            let has_status = self.versions.iter().any(has_status);
            check_schema(first, "spec.validation", has_status, violations);
        }
        if self.shares_subresources {
            check_scale(&first["subresources"]["scale"], "spec.subresources", violations);
        }
        if self.shares_columns {
            check_columns(first, "spec", violations);
        }
        if self.shares_selectable_fields {
            let schema = if self.shares_schema { &first["schema"]["openAPIV3Schema"] } else { &Value::Null };
            check_selectable_fields(first, schema, "spec", violations);
        }
    }

    /// Checks that the first version to store is the only one. Kubernetes takes each version off the list once it has seen it.
    pub(super) fn check_stored(&self, violations: &mut Vec<Violation>) {
        let is_stored = |version: &&Value| version["storage"] == true;
        let path = "status.storedVersions";
        let Some(first) = self.versions.iter().find(is_stored).map(|version| &version["name"]) else {
            return violations.push(invalid(path, "null: must have at least one stored version"));
        };
        let mut is_listed = true;
        for version in self.versions {
            let name = &version["name"];
            let is_first = is_listed && name == first;
            if version["storage"] == true && !is_first {
                violations.push(invalid(path, format!("[{first}]: must have the storage version {}", text(name))));
            }
            is_listed &= !is_first;
        }
    }

    /// Returns the versions that a status names, and that are not there any more.
    pub(super) fn missing<'v>(&'v self, status: &'v Value) -> impl Iterator<Item = Violation> + 'v {
        let is_missing = |name: &Value| self.versions.iter().all(|version| version["name"] != *name);
        let stored = list(&status["storedVersions"]).iter().enumerate().filter(move |(_, name)| is_missing(name));
        stored.map(|(at, name)| {
            let words = "missing from spec.versions; it was a storage version, and must remain there until no resource is \
                         stored in it, and status.storedVersions does not name it";
            invalid(format!("status.storedVersions[{at}]"), format!("{name}: {words}"))
        })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.versions.is_empty()
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn has_status(version: &Value) -> bool {
    version["subresources"]["status"].is_object()
}

fn check_deprecation(version: &Value, path: &str, violations: &mut Vec<Violation>) {
    let warning = &version["deprecationWarning"];
    let Some(given) = warning.as_str() else { return };
    let faults = [
        (version["deprecated"] != true, "can only be set for deprecated versions".to_owned()),
        (given.len() > DEPRECATION_BYTES_MAX, format!("must be <= {DEPRECATION_BYTES_MAX} characters long")),
        (given.is_empty(), "must not be an empty string".to_owned()),
        (given.contains(char::is_control), "must only contain printable UTF-8 characters".to_owned()),
    ];
    for (_, fault) in faults.into_iter().filter(|(is_faulty, _)| *is_faulty) {
        violations.push(invalid(format!("{path}.deprecationWarning"), format!("{warning}: {fault}")));
    }
}

fn check_schema(version: &Value, path: &str, has_status: bool, violations: &mut Vec<Violation>) {
    let source = &version["schema"]["openAPIV3Schema"];
    if source.is_object() {
        violations.extend(schema::violations(source, &format!("{path}.openAPIV3Schema"), has_status));
    }
}

/// Checks where the numbers of replicas are.
fn check_scale(scale: &Value, path: &str, violations: &mut Vec<Violation>) {
    if !scale.is_object() {
        return;
    }
    for (name, roots, is_needed) in [
        ("specReplicasPath", &[".spec."][..], true),
        ("statusReplicasPath", &[".status."], true),
        ("labelSelectorPath", &[".spec.", ".status."], false),
    ] {
        let (path, given) = (format!("{path}.scale.{name}"), text(&scale[name]));
        if given.is_empty() {
            violations.extend(is_needed.then(|| violation(path, Reason::Required, "")));
        } else if !given.starts_with('.') {
            violations.push(invalid(path, format!("{given:?}: must be a simple json path starting with .")));
        } else if !roots.iter().any(|root| given.starts_with(root)) {
            let roots = roots.iter().map(|root| root.trim_end_matches('.')).collect::<Vec<_>>();
            let either = if roots.len() > 1 { "either " } else { "" };
            let detail = format!("{given:?}: should be a json path under {either}{}", roots.join(" or "));
            violations.push(invalid(path, detail));
        }
    }
}

fn check_columns(version: &Value, path: &str, violations: &mut Vec<Violation>) {
    for (at, column) in list(&version["additionalPrinterColumns"]).iter().enumerate() {
        let path = format!("{path}.additionalPrinterColumns[{at}]");
        if text(&column["name"]).is_empty() {
            violations.push(violation(format!("{path}.name"), Reason::Required, ""));
        }
        for (name, known) in [("type", &COLUMN_TYPES[..]), ("format", &COLUMN_FORMATS)] {
            let (path, given) = (format!("{path}.{name}"), text(&column[name]));
            let words = format!("must be one of {}", known.join(","));
            if given.is_empty() {
                violations.extend((name == "type").then(|| violation(path, Reason::Required, words)));
            } else if !known.contains(&given) {
                violations.push(invalid(path, format!("{given:?}: {words}")));
            }
        }
        // Kubernetes writes the name so.
        let (path, given) = (format!("{path}.JSONPath"), text(&column["jsonPath"]));
        if given.is_empty() {
            violations.push(violation(path, Reason::Required, ""));
        } else if !given.starts_with('.') {
            violations.push(invalid(path, format!("{given:?}: must be a simple json path starting with .")));
        }
    }
}

/// Checks that a schema has the fields by which a kind is selected, and that their values are scalars. The schema is null if
/// it does not stand where the fields do.
fn check_selectable_fields(version: &Value, schema: &Value, path: &str, violations: &mut Vec<Violation>) {
    let fields = list(&version["selectableFields"]);
    let path = format!("{path}.selectableFields");
    if fields.is_empty() {
        return;
    }
    if schema.is_null() {
        let detail = "\"\": may only be set where the schema stands";
        return violations.push(invalid(path, detail));
    }
    let mut known = Vec::new();
    for (at, field) in fields.iter().enumerate() {
        let (path, given) = (format!("{path}[{at}].jsonPath"), text(&field["jsonPath"]));
        if given.is_empty() {
            violations.push(violation(path, Reason::Required, ""));
            continue;
        }
        let names: Vec<&str> = given.split('.').skip(1).collect();
        let Some(part) = part_of(schema, &names).filter(|_| given.starts_with('.') && !given.contains('[')) else {
            violations.push(invalid(path, format!("{given:?}: is an invalid path: does not refer to a valid field")));
            continue;
        };
        if names.first() == Some(&"metadata") {
            violations.push(invalid(path.clone(), format!("{given:?}: must not point to fields in metadata")));
        }
        if !["string", "boolean", "integer"].iter().any(|scalar| part["type"] == *scalar) {
            let words = "must point to a field of type string, boolean or integer. Enum string fields and strings with \
                         formats are allowed.";
            violations.push(invalid(path.clone(), format!("{given:?}: {words}")));
        }
        if known.contains(&given) {
            violations.push(violation(path, Reason::Duplicate, format!("{given:?}")));
        } else {
            known.push(given);
        }
    }
    if known.len() > SELECTABLE_FIELDS_MAX {
        let detail = format!("{}: must have at most {SELECTABLE_FIELDS_MAX} items", known.len());
        violations.push(violation(path, Reason::TooMany, detail));
    }
}

/// Returns the part of a schema that names lead to.
fn part_of<'s>(schema: &'s Value, names: &[&str]) -> Option<&'s Value> {
    names.iter().try_fold(schema, |part, name| match part.get("properties") {
        Some(properties) => properties.get(name),
        None => part.get("additionalProperties").filter(|part| part.is_object()),
    })
}
