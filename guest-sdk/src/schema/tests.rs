use std::collections::{BTreeMap, HashSet};

use serde_json::json;

use super::*;
use crate::prelude::*;

/// Returns the structural schema of a type.
fn structural<T: JsonSchema>() -> Value {
    structural::of(&of::<T>()).into()
}

fn property<T: JsonSchema>(name: &str) -> Value {
    structural::<T>()["properties"][name].clone()
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[allow(dead_code, reason = "only their schemas matter")]
struct Scalars {
    text: String,
    small: u8,
    port: u16,
    count: u32,
    bytes: u64,
    offset: i32,
    ratio: f64,
    maybe: Option<i64>,
    #[serde(default = "three")]
    retries: u32,
    #[serde(default)]
    nothing: Option<String>,
    /// The delay.
    every: Span,
    since: Time,
    tags: HashSet<String>,
    labels: BTreeMap<String, String>,
    ports: BTreeMap<u16, String>,
    anything: Value,
    pair: (u8, u8),
    conditions: Conditions,
}

fn three() -> u32 {
    3
}

#[test]
fn numbers_have_a_format_of_kubernetes_and_the_bounds_of_their_type() {
    assert_eq!(
        property::<Scalars>("small"),
        json!({"type": "integer", "format": "int32", "minimum": 0, "maximum": 255})
    );
    let port = json!({"type": "integer", "format": "int32", "minimum": 0, "maximum": 65535});
    assert_eq!(property::<Scalars>("port"), port);
    let count = json!({"type": "integer", "format": "int64", "minimum": 0, "maximum": u32::MAX});
    assert_eq!(property::<Scalars>("count"), count);
    assert_eq!(property::<Scalars>("bytes"), json!({"type": "integer", "format": "int64", "minimum": 0}));
    assert_eq!(property::<Scalars>("offset"), json!({"type": "integer", "format": "int32"}));
    assert_eq!(property::<Scalars>("ratio"), json!({"type": "number", "format": "double"}));
}

#[test]
fn an_option_may_be_null_or_missing() {
    assert_eq!(property::<Scalars>("maybe"), json!({"type": "integer", "format": "int64", "nullable": true}));
    assert_eq!(property::<Scalars>("nothing"), json!({"type": "string", "nullable": true}), "its default is no value");
    let required = structural::<Scalars>()["required"].clone();
    assert!(!required.as_array().expect("it is a list").contains(&json!("maybe")), "{required}");
}

#[test]
fn a_default_of_serde_is_the_default_of_the_field() {
    assert_eq!(property::<Scalars>("retries")["default"], 3);
    let required = structural::<Scalars>()["required"].clone();
    assert!(!required.as_array().expect("it is a list").contains(&json!("retries")), "{required}");
}

#[test]
fn times_and_conditions_have_the_forms_of_kubernetes() {
    assert_eq!(property::<Scalars>("since"), json!({"type": "string", "format": "date-time"}));
    let every = property::<Scalars>("every");
    assert_eq!((&every["type"], &every["description"]), (&json!("string"), &json!("The delay.")));
    let conditions = property::<Scalars>("conditions");
    assert_eq!(conditions["x-kubernetes-list-map-keys"], json!(["type"]));
    assert_eq!(conditions["items"]["properties"]["status"]["enum"], json!(["True", "False", "Unknown"]));
}

#[test]
fn collections_keep_the_type_of_their_items() {
    let tags = json!({"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"});
    assert_eq!(property::<Scalars>("tags"), tags);
    let text = json!({"type": "object", "additionalProperties": {"type": "string"}});
    assert_eq!(property::<Scalars>("labels"), text);
    assert_eq!(property::<Scalars>("ports"), text, "a document has no keys but texts");
    assert_eq!(
        property::<Scalars>("anything"),
        json!({"x-kubernetes-preserve-unknown-fields": true, "nullable": true})
    );
    assert_eq!(property::<Scalars>("pair")["items"]["type"], "integer");
}

/// An outer enum, as `kubectl` shows it.
#[derive(Serialize, Deserialize, JsonSchema)]
#[allow(dead_code, reason = "only their schemas matter")]
enum Phase {
    /// It waits.
    Pending,
    Running,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[allow(dead_code, reason = "only their schemas matter")]
enum Source {
    File { path: String },
    Registry { reference: String, digest: Option<String> },
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type")]
#[allow(dead_code, reason = "only their schemas matter")]
enum TaggedChoice {
    Number { value: u32, unit: String },
    Text { value: String },
    Empty,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
#[allow(dead_code, reason = "only their schemas matter")]
enum Share {
    Number(u32),
    Percent(String),
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[allow(dead_code, reason = "only their schemas matter")]
struct Enums {
    phase: Phase,
    maybe_phase: Option<Phase>,
    source: Source,
    maybe_source: Option<Source>,
    tagged: TaggedChoice,
    share: Share,
    maybe_share: Option<Share>,
}

#[test]
fn variants_without_fields_are_the_values_of_a_text() {
    let phase = property::<Enums>("phase");
    let mut values: Vec<&str> =
        phase["enum"].as_array().expect("it has values").iter().filter_map(Value::as_str).collect();
    values.sort_unstable();
    assert_eq!((&phase["type"], values), (&json!("string"), vec!["Pending", "Running"]));
    assert!(phase.get("oneOf").is_none(), "{phase}");
    let maybe = property::<Enums>("maybe_phase");
    assert_eq!((&maybe["type"], &maybe["nullable"]), (&json!("string"), &json!(true)));
    assert!(!maybe["enum"].as_array().expect("it has values").contains(&Value::Null), "{maybe}");
}

#[test]
fn variants_with_fields_are_one_object_with_one_of_them() {
    for name in ["source", "maybe_source"] {
        let source = property::<Enums>(name);
        assert_eq!(source["type"], "object");
        assert_eq!(source["properties"]["file"]["properties"]["path"], json!({"type": "string"}));
        assert_eq!(source["properties"]["registry"]["required"], json!(["reference"]));
        assert_eq!(source["oneOf"], json!([{"required": ["file"]}, {"required": ["registry"]}]));
    }
    assert_eq!(property::<Enums>("maybe_source")["nullable"], true);
}

#[test]
fn a_tag_decides_which_fields_a_variant_requires() {
    let tagged = property::<Enums>("tagged");
    assert_eq!(tagged["properties"]["type"]["enum"], json!(["Number", "Text", "Empty"]));
    assert_eq!(tagged["properties"]["value"]["x-kubernetes-int-or-string"], true);
    assert_eq!(tagged["properties"]["unit"], json!({"type": "string"}));
    assert_eq!(tagged["required"], json!(["type"]));
    let text = &tagged["oneOf"][1];
    assert_eq!(text["properties"]["type"]["enum"], json!(["Text"]));
}

#[test]
fn a_number_or_a_text_is_int_or_string() {
    assert_eq!(property::<Enums>("share")["x-kubernetes-int-or-string"], true);
    let maybe = property::<Enums>("maybe_share");
    assert_eq!((&maybe["x-kubernetes-int-or-string"], &maybe["nullable"]), (&json!(true), &json!(true)));
    assert!(maybe.get("type").is_none() && maybe.get("anyOf").is_none(), "{maybe}");
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[allow(dead_code, reason = "only their schemas matter")]
struct Node {
    name: String,
    children: Vec<Node>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[allow(dead_code, reason = "only their schemas matter")]
struct Flat {
    name: String,
    #[serde(flatten)]
    source: Source,
    #[serde(flatten)]
    rest: BTreeMap<String, Value>,
}

#[test]
fn a_type_that_contains_itself_accepts_any_value_there() {
    let text = structural::<Node>().to_string();
    assert!(!text.contains("$ref") && !text.contains("$defs"), "{text}");
    assert_eq!(property::<Node>("name"), json!({"type": "string"}));
}

#[test]
fn flattened_parts_are_fields_of_the_type() {
    let flat = structural::<Flat>();
    assert_eq!(flat["properties"]["name"], json!({"type": "string"}));
    assert_eq!(flat["properties"]["file"]["type"], "object");
    assert_eq!(flat["x-kubernetes-preserve-unknown-fields"], true);
    assert!(flat.get("additionalProperties").is_none(), "{flat}");
}

/// A widget to make.
#[derive(Resource, Serialize, Deserialize, JsonSchema)]
#[resource(group = "demo.dev", version = "v1", status = WidgetStatus, shortname = "wd", category = "all")]
#[resource(printcolumn(name = "Size", type = "integer", json_path = ".spec.size", priority = 1))]
struct Widget {
    size: u8,
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct WidgetStatus {
    made: Option<u8>,
}

#[derive(Resource, Serialize, Deserialize, JsonSchema)]
#[resource(group = "", version = "v1", kind = "ConfigMap", field = "data")]
struct Settings(BTreeMap<String, String>);

fn schema<K: Kind>() -> Value {
    serde_json::from_str(&K::schema().expect("it has a schema")).expect("it is JSON")
}

#[test]
fn a_derived_kind_has_a_schema_of_its_documents() {
    let schema = schema::<Widget>();
    assert_eq!(schema["description"], "A widget to make.");
    assert_eq!((&schema["type"], &schema["required"]), (&json!("object"), &json!(["spec"])));
    assert_eq!(schema["properties"]["spec"]["properties"]["size"]["maximum"], 255);
    assert_eq!(schema["properties"]["status"]["properties"]["made"]["nullable"], true);
}

#[test]
fn the_names_and_columns_of_a_derived_kind_travel_with_its_schema() {
    let definition = &schema::<Widget>()["x-homeostat-definition"];
    assert_eq!(definition["names"], json!({"shortNames": ["wd"], "categories": ["all"]}));
    let column = json!({"name": "Size", "type": "integer", "jsonPath": ".spec.size", "priority": 1});
    assert_eq!(definition["additionalPrinterColumns"], json!([column]));
}

#[test]
fn a_type_of_another_field_has_its_schema_there() {
    let schema = schema::<Settings>();
    assert_eq!(schema["properties"]["data"], json!({"type": "object", "additionalProperties": {"type": "string"}}));
    assert!(schema["properties"].get("status").is_none() && schema.get("required").is_none(), "{schema}");
    assert_eq!((Settings::API_VERSION, Settings::NAME, Settings::PLURAL), ("v1", "ConfigMap", "configmaps"));
}
