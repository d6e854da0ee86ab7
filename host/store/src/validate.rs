//! Validation of documents: names, labels, sizes. Every error names the path of the field.

#[cfg(test)]
mod tests;

use std::io;

use homeostat_cel::names::{
    ANNOTATIONS_BYTES_MAX, DNS_1035_LABEL, DNS_1123_LABEL, DNS_1123_SUBDOMAIN, IP_ADDRESS, LABEL_VALUE, NameForm,
    PATH_SEGMENT, qualified_faults,
};
use serde_json::{Map, Value, json};

use crate::violation::VIOLATIONS_MAX;
use crate::{
    DOCUMENT_BYTES_MAX, DOCUMENT_DEPTH_MAX, Error, FINALIZER_FOREGROUND, FINALIZER_ORPHAN, Key, Kind, Result, Target,
};

const LABEL_BYTES_MAX: usize = DNS_1123_LABEL.length_max;
const FINALIZERS_MAX: usize = 64;
/// Longest JSON text of a number, with a separator: a float has 17 digits, a sign, a point and an exponent.
const NUMBER_BYTES_MAX: u64 = 32;
const OWNERS_MAX: usize = 64;

/// Checks size and nesting of a value, without recursion deeper than the limit.
pub(crate) fn size(what: &str, value: &Value) -> Result<()> {
    nesting(what, value)?;
    // Most documents are far below the limit, and exact counting costs as much as serialising.
    if bytes_at_most(value) <= DOCUMENT_BYTES_MAX { Ok(()) } else { length(what, bytes(value)) }
}

/// Returns an upper bound for the length of a value's JSON text. The value must not be nested deeper than the
/// limit.
fn bytes_at_most(value: &Value) -> u64 {
    // Each byte can become an escape of six bytes; quotes and a separator are added.
    let text = |text: &str| 6 * text.len() as u64 + 3;
    match value {
        Value::Null | Value::Bool(_) => 6,
        Value::Number(_) => NUMBER_BYTES_MAX,
        Value::String(string) => text(string),
        Value::Array(items) => 3 + items.iter().map(bytes_at_most).sum::<u64>(),
        Value::Object(fields) => {
            3 + fields.iter().map(|(name, value)| text(name) + 1 + bytes_at_most(value)).sum::<u64>()
        }
    }
}

/// Returns the JSON text of a value. The value must not be nested deeper than the limit.
pub(crate) fn text(value: &Value) -> String {
    let mut text = Vec::with_capacity(2048);
    serde_json::to_writer(&mut text, value).expect("memory takes everything, and a JSON value has string keys");
    String::from_utf8(text).expect("JSON is UTF-8")
}

/// Checks the nesting of a value, without recursion deeper than the limit.
pub(crate) fn nesting(what: &str, value: &Value) -> Result<()> {
    let is_shallow = depth(value, DOCUMENT_DEPTH_MAX).is_some();
    if is_shallow { Ok(()) } else { Err(too_deep(what)) }
}

/// Returns the error of a value that is nested too deeply.
pub(crate) fn too_deep(what: &str) -> Error {
    Error::invalid(what, format!("is nested too deeply, the limit is {DOCUMENT_DEPTH_MAX} levels"))
}

/// Checks the length of the JSON text of a value.
pub(crate) fn length(what: &str, bytes: u64) -> Result<()> {
    let bytes_max = DOCUMENT_BYTES_MAX;
    if bytes > bytes_max { Err(Error::TooLarge { what: what.to_owned(), bytes, bytes_max }) } else { Ok(()) }
}

/// Returns the nesting of a value: 0 for a scalar. `None` when it is deeper than `depth_max`.
pub(crate) fn depth(value: &Value, depth_max: usize) -> Option<usize> {
    match value {
        Value::Array(items) => depth_of_all(items.iter(), depth_max),
        Value::Object(fields) => depth_of_all(fields.values(), depth_max),
        _ => Some(0),
    }
}

fn depth_of_all<'a>(mut values: impl Iterator<Item = &'a Value>, depth_max: usize) -> Option<usize> {
    let below_max = depth_max.checked_sub(1)?;
    let deepest = values.try_fold(0, |deepest, value| Some(depth(value, below_max)?.max(deepest)))?;
    Some(deepest + 1)
}

/// Returns the length of a value's JSON text. The value must not be nested deeper than the limit.
pub(crate) fn bytes(value: &Value) -> u64 {
    struct Count(u64);
    impl io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len() as u64;
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    serde_json::to_writer(&mut count, value).expect("counting does not fail, and a JSON value has string keys");
    count.0
}

/// Checks the namespace and the name of a key. It cannot check the scope of the kind.
///
/// # Errors
/// [`Error::Invalid`], which names the field.
pub fn key(key: &Key) -> Result<()> {
    if !key.namespace().is_empty() {
        dns_label("metadata.namespace", key.namespace())?;
    }
    name_of(key.kind(), key.name())
}

/// Checks the name of a resource.
fn name_of(kind: &Kind, name: &str) -> Result<()> {
    fits("metadata.name", name, form_of(kind))
}

/// Returns the form of the names of a kind.
fn form_of(kind: &Kind) -> &'static NameForm {
    match (kind.group.as_str(), kind.name.as_str()) {
        // Their names are parts of DNS names.
        ("", "Namespace" | "Service") | ("apps", "StatefulSet") => &DNS_1123_LABEL,
        // As `system:auth-delegator`. No rule of Kubernetes is about the names of the others.
        ("rbac.authorization.k8s.io", _)
        | ("certificates.k8s.io", "CertificateSigningRequest")
        | ("" | "events.k8s.io", "Event")
        | ("policy", "PodDisruptionBudget") => &PATH_SEGMENT,
        ("networking.k8s.io", "IPAddress") => &IP_ADDRESS,
        _ => &DNS_1123_SUBDOMAIN,
    }
}

/// Parses kind, namespace and name of a document. With `generate`, `metadata.generateName` can replace the
/// name.
pub(crate) fn target(document: &Value, generate: bool) -> Result<Target> {
    let Value::Object(fields) = document else {
        return Err(Error::invalid("document", "must be a JSON object"));
    };
    let kind = Kind::parse(required(fields, "", "apiVersion")?, required(fields, "", "kind")?)?;
    let Some(Value::Object(metadata)) = fields.get("metadata") else {
        return Err(Error::invalid("metadata", "must be an object"));
    };
    let namespace = optional(metadata, "metadata.", "namespace")?.unwrap_or("");
    if !namespace.is_empty() {
        dns_label("metadata.namespace", namespace)?;
    }
    let name = match optional(metadata, "metadata.", "name")?.filter(|name| !name.is_empty()) {
        Some(given) => {
            name_of(&kind, given)?;
            Some(given.to_owned())
        }
        None if generate => {
            let stem = optional(metadata, "metadata.", "generateName")?.unwrap_or("");
            if stem.is_empty() {
                return Err(Error::invalid("metadata.name", "must not be empty, unless metadata.generateName is set"));
            }
            let generated = generated(stem, "xxxxx");
            fits("metadata.generateName", &generated, form_of(&kind))?;
            None
        }
        None => return Err(Error::invalid("metadata.name", "must not be empty")),
    };
    Ok(Target { kind, namespace: namespace.to_owned(), name })
}

/// Returns the name of a stem and a random suffix. Truncates a long stem, so that the name has at most 63
/// bytes, the length of a DNS label.
pub(crate) fn generated(stem: &str, suffix: &str) -> String {
    let mut end = stem.len().min(LABEL_BYTES_MAX - suffix.len());
    while !stem.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}{suffix}", &stem[..end])
}

/// Checks a whole document before it is stored: its size, its name, and its metadata.
///
/// # Errors
/// `Invalid` with the path of the field, `TooLarge`.
///
/// # Panics
/// Never: the metadata of a document with a name is an object.
pub fn document(document: &Value) -> Result<()> {
    size("document", document)?;
    target(document, false)?;
    let metadata = document.get("metadata").and_then(Value::as_object).expect("target() has found an object");
    match metadata_faults(metadata).into_iter().next() {
        None => Ok(()),
        Some(fault) => Err(fault),
    }
}

/// Returns the faults of the metadata of a document, but for those of its name, in the order of Kubernetes.
pub(crate) fn metadata_faults(metadata: &Map<String, Value>) -> Vec<Error> {
    let mut faults = Vec::new();
    faults.extend(optional(metadata, "metadata.", "generateName").err());
    labels(metadata, &mut faults);
    annotations(metadata, &mut faults);
    owners(metadata, &mut faults);
    finalizers(metadata, &mut faults);
    faults.truncate(VIOLATIONS_MAX);
    faults
}

/// Checks an `apiVersion` and its two parts.
pub(crate) fn api_version(whole: &str, group: &str, version: &str) -> Result<()> {
    let path = "apiVersion";
    if whole.is_empty() {
        return Err(Error::invalid(path, "must not be empty"));
    }
    if whole.contains('/') {
        subdomain(path, group)?;
    }
    dns_label(path, version)
}

/// Checks the `kind` of a document.
pub(crate) fn kind_name(name: &str) -> Result<()> {
    let faults = DNS_1035_LABEL.faults(&name.to_ascii_lowercase());
    match faults.into_iter().next() {
        None => Ok(()),
        Some(fault) => Err(Error::invalid("kind", format!("may have mixed case, but should otherwise match: {fault}"))),
    }
}

/// Checks the name of a label or finalizer: `name` or `prefix/name`.
pub(crate) fn label_name(path: &str, text: &str) -> Result<()> {
    has_none(path, text, &qualified_faults(text))
}

/// Checks the name of an annotation. The case of its letters does not matter, as in Kubernetes.
fn annotation_name(text: &str) -> Result<()> {
    has_none("metadata.annotations", text, &qualified_faults(&text.to_lowercase()))
}

/// Checks the value of a label; may be empty.
pub(crate) fn label_value(path: &str, text: &str) -> Result<()> {
    fits(path, text, &LABEL_VALUE)
}

/// Checks that a text has a form.
fn fits(path: &str, text: &str, form: &NameForm) -> Result<()> {
    has_none(path, text, &form.faults(text))
}

/// Checks that a text has no faults.
fn has_none(path: &str, text: &str, faults: &[String]) -> Result<()> {
    match faults.first() {
        None => Ok(()),
        Some(fault) => Err(Error::invalid(path, format!("Invalid value: {text:?}: {fault}"))),
    }
}

/// Checks a DNS label.
pub(crate) fn dns_label(path: &str, text: &str) -> Result<()> {
    fits(path, text, &DNS_1123_LABEL)
}

/// Checks a DNS subdomain name.
pub(crate) fn subdomain(path: &str, text: &str) -> Result<()> {
    fits(path, text, &DNS_1123_SUBDOMAIN)
}

fn labels(metadata: &Map<String, Value>, faults: &mut Vec<Error>) {
    match strings(metadata, "labels") {
        Ok(labels) => {
            for (name, value) in labels {
                faults.extend(label_name("metadata.labels", name).err());
                faults.extend(label_value(&format!("metadata.labels[{name}]"), value).err());
            }
        }
        Err(fault) => faults.push(fault),
    }
}

fn annotations(metadata: &Map<String, Value>, faults: &mut Vec<Error>) {
    match strings(metadata, "annotations") {
        Ok(annotations) => {
            faults.extend(annotations.iter().filter_map(|(name, _)| annotation_name(name).err()));
            let bytes: usize = annotations.iter().map(|(name, value)| name.len() + value.len()).sum();
            if bytes > ANNOTATIONS_BYTES_MAX {
                let (bytes, bytes_max) = (bytes as u64, ANNOTATIONS_BYTES_MAX as u64);
                faults.push(Error::TooLarge { what: "metadata.annotations".to_owned(), bytes, bytes_max });
            }
        }
        Err(fault) => faults.push(fault),
    }
}

fn finalizers(metadata: &Map<String, Value>, faults: &mut Vec<Error>) {
    let finalizers = match list(metadata, "finalizers", FINALIZERS_MAX) {
        Ok(finalizers) => finalizers,
        Err(fault) => return faults.push(fault),
    };
    for (at, finalizer) in finalizers.iter().enumerate() {
        faults.extend(match finalizer.as_str() {
            // Kubernetes names the list.
            Some(name) => label_name("metadata.finalizers", name).err(),
            None => Some(Error::invalid(format!("metadata.finalizers[{at}]"), "must be a string")),
        });
    }
    if [FINALIZER_FOREGROUND, FINALIZER_ORPHAN].iter().all(|name| finalizers.iter().any(|given| given == name)) {
        let names = Value::from(finalizers);
        let words = format!("finalizer {FINALIZER_ORPHAN} and {FINALIZER_FOREGROUND} cannot be both set");
        faults.push(Error::invalid("metadata.finalizers", format!("Invalid value: {names}: {words}")));
    }
}

fn owners(metadata: &Map<String, Value>, faults: &mut Vec<Error>) {
    let path = "metadata.ownerReferences";
    let owners = match list(metadata, "ownerReferences", OWNERS_MAX) {
        Ok(owners) => owners,
        Err(fault) => return faults.push(fault),
    };
    let mut controller: Option<&str> = None;
    for owner in owners {
        let Some(owner) = owner.as_object() else {
            faults.push(Error::invalid(path, "must be an object"));
            continue;
        };
        faults.extend(owner_faults(owner));
        if owner.get("controller") != Some(&Value::Bool(true)) {
            continue;
        }
        let name = owner.get("name").and_then(Value::as_str).unwrap_or_default();
        if let Some(first) = controller {
            let words = format!(
                "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {name}"
            );
            faults.push(Error::invalid(path, format!("Invalid value: {}: {words}", json!(owners))));
        }
        controller = Some(name);
    }
}

/// Returns the faults of one owner. Kubernetes does not say which owner it is.
fn owner_faults(owner: &Map<String, Value>) -> Vec<Error> {
    let path = "metadata.ownerReferences.";
    let mut faults = Vec::new();
    for (field, reason) in [
        ("apiVersion", "version must not be empty"),
        ("kind", "must not be empty"),
        ("name", "must not be empty"),
        ("uid", "must not be empty"),
    ] {
        match optional(owner, path, field) {
            Ok(text) if text.is_none_or(str::is_empty) => {
                faults.push(Error::invalid(format!("{path}{field}"), format!("Invalid value: \"\": {reason}")));
            }
            Ok(_) => {}
            Err(fault) => faults.push(fault),
        }
    }
    let text = |name: &str| owner.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    if let (Some(api_version), Some(kind)) = (text("apiVersion"), text("kind")) {
        match Kind::parse(api_version, kind) {
            Err(Error::Invalid { path: field, reason }) => {
                faults.push(Error::invalid(format!("{path}{field}"), reason));
            }
            Err(other) => faults.push(other),
            Ok(_) if (api_version, kind) == ("v1", "Event") => {
                let words =
                    format!("Invalid value: {}: /v1, Kind=Event is disallowed from being an owner", json!(owner));
                faults.push(Error::invalid(path.trim_end_matches('.'), words));
            }
            Ok(_) => {}
        }
    }
    for flag in ["controller", "blockOwnerDeletion"] {
        if !matches!(owner.get(flag), None | Some(Value::Null | Value::Bool(_))) {
            faults.push(Error::invalid(format!("{path}{flag}"), "must be true or false"));
        }
    }
    faults
}

/// Parses a field that is an object of strings, or absent.
fn strings<'a>(metadata: &'a Map<String, Value>, field: &str) -> Result<Vec<(&'a str, &'a str)>> {
    let entries = match metadata.get(field) {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Object(entries)) => entries,
        Some(_) => return Err(Error::invalid(format!("metadata.{field}"), "must be an object of strings")),
    };
    let string = |(name, value): (&'a String, &'a Value)| match value.as_str() {
        Some(value) => Ok((name.as_str(), value)),
        None => Err(Error::invalid(format!("metadata.{field}[{name}]"), "must be a string")),
    };
    entries.iter().map(string).collect()
}

/// Parses a field that is a list, or absent.
fn list<'a>(metadata: &'a Map<String, Value>, field: &str, count_max: usize) -> Result<&'a [Value]> {
    match metadata.get(field) {
        None | Some(Value::Null) => Ok(&[]),
        Some(Value::Array(items)) if items.len() > count_max => Err(Error::invalid(
            format!("metadata.{field}"),
            format!("has {} entries, the limit is {count_max}", items.len()),
        )),
        Some(Value::Array(items)) => Ok(items),
        Some(_) => Err(Error::invalid(format!("metadata.{field}"), "must be a list")),
    }
}

fn optional<'a>(fields: &'a Map<String, Value>, path: &str, field: &str) -> Result<Option<&'a str>> {
    match fields.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(Error::invalid(format!("{path}{field}"), "must be a string")),
    }
}

fn required<'a>(fields: &'a Map<String, Value>, path: &str, field: &str) -> Result<&'a str> {
    match optional(fields, path, field)? {
        Some(text) if !text.is_empty() => Ok(text),
        _ => Err(Error::invalid(format!("{path}{field}"), "must not be empty")),
    }
}
