//! The JSON types of the fields of built-in kinds: whether a document can be decoded into the types of Kubernetes.
//!
//! Pure. The words are those of Go's JSON decoder, in which clients and people know them.

use homeostat_store::Kind;
use homeostat_store::schema::quantity_in_nanos;
use serde_json::{Map, Value};

use crate::kind::definition_of;
use crate::message::{self, FieldType, Message};

/// Messages inside of messages.
const DEPTH_MAX: usize = 100;

/// Checks the JSON types of a document of a built-in kind. Unknown fields have any type.
///
/// # Errors
/// The first field of a wrong type, in words for people.
pub fn check(kind: &Kind, document: &Value) -> Result<(), String> {
    let Some(name) = definition_of(kind) else { return Ok(()) };
    let Some(message) = message::find(name) else { return Ok(()) };
    let Value::Object(fields) = document else {
        let (found, name) = (type_name(document), &kind.name);
        return Err(format!("json: cannot unmarshal {found} into Go value of type v1.{name}"));
    };
    Place { holder: short(name), path: Vec::new(), has_forms: true }.fields(&message, fields)?;
    check_template_generation(kind, document)?;
    check_kind(kind, fields)
}

/// Checks the annotation of a daemon set that has become a field.
fn check_template_generation(kind: &Kind, document: &Value) -> Result<(), String> {
    const ANNOTATION: &str = "deprecated.daemonset.template.generation";
    let annotation = document["metadata"]["annotations"][ANNOTATION].as_str().filter(|_| kind.name == "DaemonSet");
    match annotation.map(str::parse::<i64>) {
        Some(Err(_)) => {
            let text = annotation.unwrap_or_default();
            Err(format!("strconv.ParseInt: parsing {text:?}: invalid syntax"))
        }
        _ => Ok(()),
    }
}

/// Checks the same, except for the forms of texts and numbers: of quantities, times, bytes and the like.
///
/// # Errors
/// As [`check`].
pub fn check_shape(kind: &Kind, document: &Value) -> Result<(), String> {
    let Some(message) = definition_of(kind).and_then(message::find) else { return check(kind, document) };
    let (Some(name), Value::Object(fields)) = (definition_of(kind), document) else { return check(kind, document) };
    Place { holder: short(name), path: Vec::new(), has_forms: false }.fields(&message, fields)?;
    check_kind(kind, fields)
}

/// Checks the JSON types of the metadata of a document of any kind.
///
/// # Errors
/// The first field of a wrong type, in words for people.
pub fn check_metadata(document: &Value) -> Result<(), String> {
    const NAME: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
    let Some(Value::Object(fields)) = document.get("metadata") else { return Ok(()) };
    let Some(message) = message::find(NAME) else { return Ok(()) };
    Place { holder: short(NAME), path: Vec::new(), has_forms: true }.fields(&message, fields)
}

/// Checks that a document has no other kind and no other version.
fn check_kind(kind: &Kind, fields: &Map<String, Value>) -> Result<(), String> {
    let text = |name: &str| fields.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    let (version, name) = (text("apiVersion"), text("kind"));
    if let Some(version) = version.filter(|version| *version != kind.api_version()) {
        let name = name.unwrap_or(&kind.name);
        return Err(format!("no kind {name:?} is registered for version {version:?}"));
    }
    match name.filter(|name| *name != kind.name) {
        Some(name) => Err(format!("converting ({name}) to ({}): unknown conversion", kind.name)),
        None => Ok(()),
    }
}

/// Returns the words of Kubernetes for a document that is no resource of its kind.
pub fn undecodable(kind: &Kind, document: &Value, reason: &str) -> String {
    let text = |name: &str| document.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    let name = text("kind").unwrap_or(&kind.name);
    let version = text("apiVersion").map_or(kind.version.as_str(), |whole| whole.rsplit('/').next().unwrap_or(whole));
    format!("{name} in version {version:?} cannot be handled as a {}: {reason}", kind.name)
}

/// A field, as Go names it: the struct that has it, and its path.
struct Place<'h, 'd> {
    holder: &'h str,
    path: Vec<&'d str>,
    /// Whether the forms of texts and numbers count.
    has_forms: bool,
}

impl<'d> Place<'_, 'd> {
    fn fields(&mut self, message: &Message, fields: &'d Map<String, Value>) -> Result<(), String> {
        if self.path.len() > DEPTH_MAX {
            return Ok(());
        }
        for (name, value) in fields.iter().filter(|(_, value)| !value.is_null()) {
            self.path.push(name);
            self.field(message, name, value)?;
            self.path.pop();
        }
        Ok(())
    }

    /// Checks the field of a message, or of one that is inlined into it, at any depth.
    fn field(&mut self, message: &Message, name: &str, value: &'d Value) -> Result<(), String> {
        if let Some(field) = message.fields.iter().find(|field| field.name == *name) {
            self.value(&field.value, value)?;
        }
        let inlined = message.inlined.iter().filter_map(|(_, inlined)| message::find(inlined));
        for inlined in inlined.collect::<Vec<_>>() {
            self.field(&inlined, name, value)?;
        }
        Ok(())
    }

    fn value(&mut self, of: &FieldType, value: &'d Value) -> Result<(), String> {
        let is_scalar = !value.is_object() && !value.is_array();
        let has_form = matches!(
            of,
            FieldType::Bytes
                | FieldType::Time
                | FieldType::MicroTime
                | FieldType::Quantity
                | FieldType::IntegerOrText
                | FieldType::Integer(_)
        );
        let is_shaped = match of {
            FieldType::Integer(_) => value.is_number(),
            FieldType::Bytes => value.is_string(),
            _ => true,
        };
        if !self.has_forms && has_form && is_scalar && is_shaped {
            return Ok(());
        }
        match (of, value) {
            (_, Value::Null)
            | (FieldType::Raw | FieldType::SchemaOr(_), _)
            | (FieldType::Boolean, Value::Bool(_))
            | (FieldType::Double, Value::Number(_))
            | (FieldType::Text, Value::String(_)) => Ok(()),
            (FieldType::Integer(bits), Value::Number(number)) => {
                let fits = |number: i64| *bits == 64 || i32::try_from(number).is_ok();
                if number.as_i64().is_some_and(fits) {
                    return Ok(());
                }
                Err(self.wrong(&format!("number {number}"), of))
            }
            (FieldType::Bytes, Value::String(text)) => base64(text),
            (FieldType::Time, Value::String(text)) => time(text),
            (FieldType::MicroTime, Value::String(text)) => micro_time(text),
            (FieldType::Quantity, Value::String(_) | Value::Number(_)) => {
                if quantity_in_nanos(value).is_some() {
                    return Ok(());
                }
                Err("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
                    .to_owned())
            }
            (FieldType::IntegerOrText, Value::String(_)) => Ok(()),
            (FieldType::IntegerOrText, Value::Number(number)) => {
                if number.as_i64().is_some_and(|number| i32::try_from(number).is_ok()) {
                    return Ok(());
                }
                Err(format!("json: cannot unmarshal number {number} into Go value of type int32"))
            }
            (FieldType::Message(name), Value::Object(fields)) => {
                let Some(message) = message::find(name) else { return Ok(()) };
                let (holder, path) = (short(name), self.path.clone());
                Place { holder, path, has_forms: self.has_forms }.fields(&message, fields)
            }
            (FieldType::List(item), Value::Array(items)) => items.iter().try_for_each(|value| self.value(item, value)),
            (FieldType::Map(entry), Value::Object(entries)) => {
                entries.values().try_for_each(|value| self.value(entry, value))
            }
            _ => Err(self.wrong(type_name(value), of)),
        }
    }

    fn wrong(&self, found: &str, wanted: &FieldType) -> String {
        let (holder, path) = (self.holder, self.path.join("."));
        format!("json: cannot unmarshal {found} into Go struct field {holder}.{path} of type {}", go_type(wanted))
    }
}

/// Returns the last part of the name of a definition.
fn short(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}

/// Returns the words for a reason of [`check`], if the document was a patch by merge keys: Go converts it field by field.
///
/// Source: `fromUnstructured` in `k8s.io/apimachinery/pkg/runtime`.
pub fn words_of_merge(reason: &str) -> String {
    let found = reason.split_once("cannot unmarshal ").and_then(|(_, rest)| rest.split(' ').next());
    let (Some(found), Some((_, wanted))) = (found, reason.rsplit_once(" of type ")) else { return reason.to_owned() };
    let found = match found {
        "number" => "int64",
        "object" => "map[string]interface {}",
        "array" => "[]interface {}",
        other => other,
    };
    let kind = found.split_once(['[', ']']).map_or(found, |(kind, _)| if kind.is_empty() { "slice" } else { kind });
    match wanted {
        "string" if found == "int64" => "cannot convert int64 to string".to_owned(),
        "string" | "bool" | "int32" | "int64" | "float64" => format!("unrecognized type: {wanted}"),
        _ if wanted.starts_with("[]") => format!("cannot restore slice from {kind}"),
        _ if wanted.starts_with("map[") => format!("cannot restore map from {kind}"),
        _ => format!("cannot restore struct from: {kind}"),
    }
}

/// Returns a value as Go prints it: `map[spec:map[replicas:3]]`.
pub fn go_text(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) => format!("[{}]", items.iter().map(go_text).collect::<Vec<_>>().join(" ")),
        Value::Object(fields) => {
            let mut fields: Vec<(&String, &Value)> = fields.iter().collect();
            fields.sort_unstable_by_key(|(name, _)| *name);
            let fields: Vec<String> = fields.iter().map(|(name, value)| format!("{name}:{}", go_text(value))).collect();
            format!("map[{}]", fields.join(" "))
        }
        other => other.to_string(),
    }
}

/// Returns the type of a value, as Go names it.
pub fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Returns the type of Go. Named types of texts are not known here, and are plain texts.
fn go_type(of: &FieldType) -> String {
    match of {
        FieldType::Boolean => "bool".to_owned(),
        FieldType::Integer(bits) => format!("int{bits}"),
        FieldType::Double => "float64".to_owned(),
        FieldType::Text | FieldType::Quantity | FieldType::IntegerOrText => "string".to_owned(),
        FieldType::Bytes => "[]uint8".to_owned(),
        FieldType::Time => "v1.Time".to_owned(),
        FieldType::MicroTime => "v1.MicroTime".to_owned(),
        FieldType::Raw => "runtime.RawExtension".to_owned(),
        FieldType::SchemaOr(_) => "v1.JSONSchemaProps".to_owned(),
        FieldType::Message(name) => format!("v1.{}", short(name)),
        FieldType::List(item) => format!("[]{}", go_type(item)),
        FieldType::Map(entry) => format!("map[string]{}", go_type(entry)),
    }
}

fn base64(text: &str) -> Result<(), String> {
    use base64::Engine;
    let plain: Vec<u8> = text.bytes().filter(|byte| !matches!(byte, b'\r' | b'\n')).collect();
    let decoded = base64::engine::general_purpose::STANDARD.decode(&plain);
    decoded.map(drop).map_err(|error| {
        let at = if let base64::DecodeError::InvalidByte(at, _) = error { at } else { plain.len() };
        format!("illegal base64 data at input byte {at}")
    })
}

/// Checks a time with exactly six digits of its second.
fn micro_time(text: &str) -> Result<(), String> {
    let digits = text.split_once('.').map_or(0, |(_, rest)| rest.bytes().take_while(u8::is_ascii_digit).count());
    if digits == 6 && time(text).is_ok() {
        return Ok(());
    }
    Err(format!("parsing time {text:?} as \"2006-01-02T15:04:05.000000Z07:00\""))
}

fn time(text: &str) -> Result<(), String> {
    let is_time = text.parse::<jiff::Timestamp>().is_ok();
    if is_time { Ok(()) } else { Err(format!("parsing time {text:?} as \"2006-01-02T15:04:05Z07:00\"")) }
}

#[cfg(test)]
mod tests {
    use homeostat_store::Kind;
    use serde_json::{Value, json};

    use super::{check, go_text, words_of_merge};

    fn error(document: &Value) -> String {
        check(&Kind::new("apps", "v1", "Deployment"), document).expect_err("it has a wrong type")
    }

    #[test]
    fn a_time_in_microseconds_has_six_digits() {
        let lease = |time: &str| {
            check(&Kind::new("coordination.k8s.io", "v1", "Lease"), &json!({ "spec": { "renewTime": time } }))
        };
        assert_eq!(lease("2026-01-01T00:00:00.000001Z"), Ok(()));
        for wrong in ["2026-01-01T00:00:00Z", "2026-01-01T00:00:00.1Z", "2026-01-01T00:00:00.1234567Z", "x.123456"] {
            assert!(lease(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn wrong_types_are_named_as_go_names_them() {
        assert_eq!(
            error(&json!({ "spec": { "replicas": "3" } })),
            "json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32"
        );
        let container = |field: Value| json!({ "spec": { "template": { "spec": { "containers": [field] } } } });
        assert!(
            error(&container(json!({ "name": 1 })))
                .ends_with("Container.spec.template.spec.containers.name of type string")
        );
        assert!(
            error(&container(json!({ "resources": { "limits": { "cpu": "x" } } }))).contains("quantities must match")
        );
        assert!(
            error(&json!({ "metadata": { "labels": { "a": 1 } } }))
                .contains("ObjectMeta.metadata.labels of type string")
        );
        assert!(error(&json!({ "spec": { "replicas": 3_000_000_000_u64 } })).contains("number 3000000000"));
        assert_eq!(check(&Kind::new("", "v1", "ConfigMap"), &json!({ "data": null, "unknown": 1 })), Ok(()));
    }

    #[test]
    fn fields_of_messages_inside_of_inlined_ones_have_types() {
        let kind = Kind::new("admissionregistration.k8s.io", "v1", "ValidatingAdmissionPolicy");
        let rules = |rule: Value| json!({ "spec": { "matchConstraints": { "resourceRules": [rule] } } });
        let wrong = check(&kind, &rules(json!({ "apiGroups": [1] }))).expect_err("it has a wrong type");
        assert!(wrong.starts_with("json: cannot unmarshal number into Go struct field"), "{wrong}");
        assert_eq!(check(&kind, &rules(json!({ "apiGroups": ["apps"], "operations": ["CREATE"] }))), Ok(()));
    }

    #[test]
    fn a_patch_by_merge_keys_has_words_of_its_own() {
        for (spec, words) in [
            (json!({ "replicas": "3" }), "unrecognized type: int32"),
            (json!({ "paused": [] }), "unrecognized type: bool"),
            (json!({ "selector": "x" }), "cannot restore struct from: string"),
            (json!({ "selector": { "matchLabels": 1 } }), "cannot restore map from int64"),
            (json!({ "selector": { "matchLabels": { "a": 1 } } }), "cannot convert int64 to string"),
            (json!({ "template": { "spec": { "containers": {} } } }), "cannot restore slice from map"),
        ] {
            let patch = json!({ "spec": spec });
            assert_eq!(words_of_merge(&error(&patch)), words, "{patch}");
        }
        assert_eq!(go_text(&json!({ "b": [1, null, "x"], "a": { "c": true } })), "map[a:map[c:true] b:[1 <nil> x]]");
    }
}
