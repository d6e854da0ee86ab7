//! The schemas of derived kinds, as the store reads them: they are structural, and accept what the types serialize.

use std::collections::{BTreeMap, BTreeSet};

use homeostat_sdk::prelude::*;
use homeostat_sdk::{LabelSelector, OwnerReference};
use homeostat_sdk_testing::World;
use homeostat_store::definition::Presentation;
use homeostat_store::schema::Schema;
use serde_json::{Value, json};

/// A type with one field for each rule.
#[derive(Debug, Clone, PartialEq, Resource, Serialize, Deserialize, JsonSchema)]
#[resource(group = "demo.dev", version = "v1", shortname = "eth", status = EverythingStatus)]
#[resource(printcolumn(name = "Port", type = "integer", json_path = ".spec.port"))]
#[serde(rename_all = "camelCase")]
struct Everything {
    #[schemars(length(min = 1), regex(pattern = "^[a-z]+$"))]
    name: String,
    port: u16,
    #[schemars(range(min = 1, max = 10))]
    replicas: u32,
    bytes: u64,
    offset: i64,
    ratio: f64,
    letter: char,
    #[serde(default)]
    is_paused: bool,
    #[serde(default = "half_a_minute")]
    every: Span,
    maybe: Option<String>,
    phase: Phase,
    maybe_phase: Option<Phase>,
    source: Source,
    rule: Rule,
    share: Share,
    labels: BTreeMap<String, String>,
    numbers: BTreeMap<u8, Vec<u8>>,
    tags: BTreeSet<String>,
    pair: (u8, String),
    anything: Value,
    selector: LabelSelector,
    owners: Vec<OwnerReference>,
    tree: Tree,
    #[serde(flatten)]
    transport: Transport,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
enum Phase {
    /// It waits.
    Pending,
    Running,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
enum Source {
    File { path: String },
    Registry { reference: String, digest: Option<String> },
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "camelCase")]
enum Rule {
    Number { value: u32, unit: Option<String> },
    Text { value: String },
    Never,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
enum Share {
    Number(u32),
    Percent(String),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
struct Tree {
    name: String,
    children: Vec<Tree>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
enum Transport {
    Tcp { socket: u16 },
    Unix { path: String },
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct EverythingStatus {
    since: Option<Time>,
    #[serde(default)]
    conditions: Conditions,
}

fn half_a_minute() -> Span {
    Span(Duration::from_secs(30))
}

fn everything(number: usize) -> Everything {
    Everything {
        name: "a".into(),
        port: u16::MAX,
        replicas: 10,
        bytes: i64::MAX.unsigned_abs(),
        offset: i64::MIN,
        ratio: 0.5,
        letter: 'ß',
        is_paused: true,
        every: Span(Duration::from_millis(90_500)),
        maybe: (number > 0).then(|| "b".into()),
        phase: Phase::Running,
        maybe_phase: (number > 0).then_some(Phase::Pending),
        source: match number {
            0 => Source::File { path: "/".into() },
            _ => Source::Registry { reference: "r".into(), digest: None },
        },
        rule: match number {
            0 => Rule::Number { value: 1, unit: Some("s".into()) },
            1 => Rule::Text { value: "v".into() },
            _ => Rule::Never,
        },
        share: if number == 0 { Share::Number(1) } else { Share::Percent("25%".into()) },
        labels: [("a".to_owned(), "b".to_owned())].into(),
        numbers: [(1, vec![1, 2])].into(),
        tags: ["a".to_owned(), "b".to_owned()].into(),
        pair: (1, "b".into()),
        anything: json!({"any": [1, "b", {"deep": null}]}),
        selector: LabelSelector { match_labels: [("a".to_owned(), "b".to_owned())].into(), ..LabelSelector::default() },
        owners: vec![OwnerReference { uid: "u".into(), ..OwnerReference::default() }],
        tree: Tree { name: "a".into(), children: vec![Tree { name: "b".into(), children: Vec::new() }] },
        transport: if number == 0 { Transport::Tcp { socket: 1 } } else { Transport::Unix { path: "/".into() } },
    }
}

fn status() -> EverythingStatus {
    let mut conditions = Conditions::default();
    let at = Time::from_unix_milliseconds(1_700_000_000_123);
    conditions.set_at(Condition::new("Ready", true).because("All", "of them").observed(3), || at);
    EverythingStatus { since: Some(at), conditions }
}

fn schema() -> Schema {
    let text = Everything::schema().expect("it has a schema");
    Schema::parse(&serde_json::from_str(&text).expect("it is JSON")).expect("it is structural")
}

fn document(number: usize) -> Value {
    let metadata = json!({"name": "a", "namespace": "default"});
    json!({
        "apiVersion": Everything::API_VERSION, "kind": Everything::NAME, "metadata": metadata,
        "spec": serde_json::to_value(everything(number)).expect("it is JSON"),
        "status": serde_json::to_value(status()).expect("it is JSON"),
    })
}

/// Returns the fields that the schema drops and the violations that it finds.
fn complaints(mut document: Value) -> Vec<String> {
    let schema = schema();
    let mut found = schema.prune(&mut document);
    schema.set_defaults(&mut document).expect("the defaults are small");
    found
        .extend(schema.check(&document).iter().map(|violation| format!("{}: {}", violation.path, violation.message())));
    found
}

#[test]
fn what_a_type_serializes_its_schema_accepts_unchanged() {
    for number in 0..3 {
        assert_eq!(complaints(document(number)), [""; 0], "variant {number}");
    }
}

#[test]
fn what_a_type_refuses_its_schema_refuses() {
    let cases = [
        ("/spec/port", json!(65_536), "spec.port"),
        ("/spec/port", json!("80"), "spec.port"),
        ("/spec/replicas", json!(11), "spec.replicas"),
        ("/spec/replicas", json!(0), "spec.replicas"),
        ("/spec/name", json!("A"), "spec.name"),
        ("/spec/every", json!("soon"), "spec.every"),
        ("/spec/phase", json!("Lost"), "spec.phase"),
        ("/spec/letter", json!("ab"), "spec.letter"),
        ("/spec/source", json!({}), "spec.source"),
        ("/spec/source", json!({"file": {"path": "/"}, "registry": {"reference": "r"}}), "spec.source"),
        ("/spec/rule", json!({"type": "number"}), "spec.rule"),
        ("/spec/rule", json!({"type": "other"}), "spec.rule"),
        ("/spec/share", json!(true), "spec.share"),
        ("/status/since", json!("yesterday"), "status.since"),
        ("/status/conditions/0/status", json!("Maybe"), "status.conditions[0].status"),
    ];
    for (pointer, value, expected) in cases {
        let mut document = document(0);
        *document.pointer_mut(pointer).expect("it is there") = value.clone();
        let found = complaints(document);
        assert!(found.iter().any(|complaint| complaint.contains(expected)), "{pointer} {value}: {found:?}");
    }
}

#[test]
fn a_field_that_no_type_names_is_dropped() {
    let mut document = document(0);
    document["spec"]["source"]["file"]["mode"] = 7.into();
    assert_eq!(complaints(document), ["spec.source.file.mode"]);
}

#[test]
fn missing_fields_get_the_defaults_of_serde() {
    let mut document = document(0);
    for name in ["every", "isPaused", "maybe"] {
        document["spec"].as_object_mut().expect("it is an object").remove(name);
    }
    schema().set_defaults(&mut document).expect("the defaults are small");
    assert_eq!((&document["spec"]["every"], &document["spec"]["isPaused"]), (&json!("30s"), &json!(false)));
    assert!(document["spec"].get("maybe").is_none());
}

#[test]
fn the_store_reads_the_names_and_columns_of_a_derived_kind() {
    let text = Everything::schema().expect("it has a schema");
    let found = Presentation::of_schema(&serde_json::from_str(&text).expect("it is JSON")).expect("it is well formed");
    assert_eq!((found.short_names, found.columns.len()), (vec!["eth".to_owned()], 1));
}

/// Reads a resource of the derived kind, and writes its status.
struct Reader;

impl Reconciler for Reader {
    fn describe() -> Spec {
        Spec::manages::<Everything>().ignore_status()
    }

    fn reconcile(key: Key) -> Result<Outcome, Failure> {
        let Some(mut found) = Everything::get_opt(&key)? else { return Ok(Outcome::settled()) };
        found.set_status(status())?;
        Ok(Outcome::settled())
    }
}

#[test]
fn a_derived_kind_goes_through_the_store_unchanged() {
    for number in 0..3 {
        let mut world = World::<Reader>::of();
        world.put(&Resource::new("default", "a", everything(number)));
        world.settle();
        let found = world.get::<Everything>(&Everything::key("default", "a")).expect("it is there");
        assert_eq!(
            (found.spec, found.status),
            (Everything { anything: found_anything(), ..everything(number) }, Some(status()))
        );
    }
}

/// The SDK drops fields that are `null`.
fn found_anything() -> Value {
    json!({"any": [1, "b", {}]})
}

/// Writes a status that its schema refuses.
struct Careless;

#[derive(Resource, Serialize, Deserialize, JsonSchema)]
#[resource(group = "demo.dev", version = "v1", status = CountStatus)]
struct Count {}

#[derive(Serialize, Deserialize, JsonSchema)]
struct CountStatus {
    #[schemars(range(max = 3))]
    count: u32,
}

impl Reconciler for Careless {
    fn describe() -> Spec {
        Spec::manages::<Count>()
    }

    fn reconcile(key: Key) -> Result<Outcome, Failure> {
        let written = Count::get(&key)?.set_status(CountStatus { count: 4 });
        match written {
            Err(Error::Invalid(reason)) => Err(Failure::never(reason)),
            other => Err(Failure::never(format!("the store accepted it: {other:?}"))),
        }
    }
}

#[test]
fn a_status_that_breaks_the_schema_is_refused() {
    let mut world = World::<Careless>::of();
    world.put(&Resource::new("default", "a", Count {}));
    let failure = world.reconcile(&Count::key("default", "a")).expect_err("it is invalid");
    assert!(failure.message().contains("status.count"), "{}", failure.message());
}
