//! Built-in kinds beside a real kube-apiserver: the same generated documents go to both, as dry runs, and the verdict, the
//! document with its defaults, and the causes of a refusal are compared.

use std::collections::{BTreeMap, BTreeSet};

use homeostat_testing::Dice;
use homeostat_tests::{HostProcess, ask_plain, shared_bare_cluster};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Documents of each kind.
const DOCUMENTS: usize = 40;
/// Documents of a hundred that may differ.
const DIFFERENCES_MAX: usize = 1;

/// What a server says of a document.
#[derive(Debug, PartialEq)]
enum Verdict {
    Stored(Value),
    /// The status code, and field and reason of each cause.
    Refused(u16, BTreeSet<(String, String)>),
}

/// Fields that differ between two creations.
const OF_EACH: [&str; 6] = ["uid", "creationTimestamp", "resourceVersion", "managedFields", "generation", "selfLink"];

/// Named differences: without a cluster nobody allocates addresses or protects volumes, and a null is absent.
fn comparable(mut document: Value) -> Value {
    let uid = document["metadata"]["uid"].as_str().unwrap_or("-").to_owned();
    let kind = document["kind"].as_str().unwrap_or_default().to_owned();
    if let Some(metadata) = document["metadata"].as_object_mut() {
        OF_EACH.iter().for_each(|name| drop(metadata.remove(*name)));
        if kind.starts_with("PersistentVolume") {
            metadata.remove("finalizers");
        }
    }
    // The server shows the labels that a job gets from its pods only when it has stored the job.
    if kind == "Job"
        && let Some(metadata) = document["metadata"].as_object_mut()
    {
        metadata.remove("labels");
    }
    if let Some(status) = document["status"].as_object_mut() {
        status.remove("lastPhaseTransitionTime");
    }
    if let Some(spec) = document["spec"].as_object_mut().filter(|_| kind == "Service") {
        for name in ["clusterIP", "clusterIPs"] {
            let is_allocated = spec.get(name).is_some_and(|value| value.to_string().contains("\"10."));
            if is_allocated {
                spec.remove(name);
            }
        }
    }
    without_nulls(&mut document);
    // The selector of a job contains its uid.
    serde_json::from_str(&document.to_string().replace(&uid, "UID")).unwrap()
}

fn without_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, field| !field.is_null());
            fields.values_mut().for_each(without_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(without_nulls),
        _ => {}
    }
}

fn verdict(code: u16, body: Value) -> Verdict {
    if matches!(code, 200 | 201) {
        return Verdict::Stored(comparable(body));
    }
    let causes = body["details"]["causes"].as_array().cloned().unwrap_or_default();
    let text = |cause: &Value, name: &str| cause[name].as_str().unwrap_or_default().to_owned();
    Verdict::Refused(code, causes.iter().map(|cause| (text(cause, "field"), text(cause, "reason"))).collect())
}

/// A step from a value to one inside it.
#[derive(Clone)]
enum Step {
    Field(String),
    Item(usize),
}

/// Returns the ways to all values inside of a document, except its kind.
fn ways(value: &Value, way: &[Step], found: &mut Vec<Vec<Step>>) {
    let mut add = |step: Step, inner: &Value| {
        let mut longer = way.to_vec();
        longer.push(step);
        found.push(longer.clone());
        ways(inner, &longer, found);
    };
    match value {
        Value::Object(fields) => {
            for (name, inner) in fields {
                if !way.is_empty() || !matches!(name.as_str(), "apiVersion" | "kind") {
                    add(Step::Field(name.clone()), inner);
                }
            }
        }
        Value::Array(items) => items.iter().enumerate().for_each(|(at, inner)| add(Step::Item(at), inner)),
        _ => {}
    }
}

/// Removes, replaces, repeats or adds a field somewhere in a document.
fn mutate(document: &mut Value, dice: &mut Dice) {
    let mut all = Vec::new();
    ways(document, &[], &mut all);
    let Some((last, way)) = dice.one(&all).and_then(|way| way.split_last()) else { return };
    let mut place = &mut *document;
    for step in way {
        place = match step {
            Step::Field(name) => &mut place[name.as_str()],
            Step::Item(at) => &mut place[*at],
        };
    }
    let values = [
        json!(-1),
        json!(0),
        json!(1),
        json!(100_000),
        json!(""),
        json!("UPPER_x"),
        json!("a".repeat(300)),
        json!("b"),
        Value::Null,
        json!([]),
        json!({}),
        json!(true),
        json!(false),
        json!(1.5),
        json!("10"),
        json!("500m"),
        json!(["x"]),
        json!({ "x": "y" }),
    ];
    let value = dice.one(&values).cloned().unwrap();
    let operation = dice.below(100);
    match (place, last) {
        (Value::Object(fields), Step::Field(name)) if operation < 35 => drop(fields.remove(name)),
        (Value::Array(items), Step::Item(at)) if operation < 35 => drop(items.remove(*at)),
        (Value::Object(fields), Step::Field(name)) if operation < 85 => drop(fields.insert(name.clone(), value)),
        (Value::Array(items), Step::Item(at)) if operation < 85 => items[*at] = value,
        (Value::Array(items), Step::Item(at)) => items.push(items[*at].clone()),
        (Value::Object(fields), Step::Field(_)) => drop(fields.insert("unknownField".to_owned(), json!(1))),
        _ => {}
    }
}

/// The server generates names for limit ranges without one, from no prefix; here each resource is named.
fn is_named_difference(document: &Value) -> bool {
    let has_name =
        document.pointer("/metadata/name").is_some_and(|name| name.as_str().is_some_and(|name| !name.is_empty()));
    document["kind"] == "LimitRange" && !has_name
}

#[test]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
fn generated_resources_are_decided_as_a_real_api_server_decides_them() {
    let bases: Vec<Value> = serde_saphyr::from_str(include_str!("built_in.yaml")).unwrap();
    let (folder, scratch) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let host = HostProcess::start_on_port("http", folder.path(), scratch.path(), &[], &[]);
    let port: u16 = host.server().rsplit_once(':').unwrap().1.parse().unwrap();
    let cluster = shared_bare_cluster();
    let (mut compared, mut different) = (0, BTreeMap::<String, Vec<String>>::new());
    // The path of each kind, and one valid resource of it.
    for base in bases {
        let (path, document) = (base["path"].as_str().unwrap(), &base["document"]);
        let path = format!("{path}?dryRun=All&fieldManager=test");
        let mut dice = Dice::new(path.bytes().fold(1, |seed, byte| seed.wrapping_mul(31).wrapping_add(byte.into())));
        for number in 0..DOCUMENTS {
            let mut document = document.clone();
            let mutations = if number == 0 { 0 } else { 1 + dice.below(2) };
            (0..mutations).for_each(|_| mutate(&mut document, &mut dice));
            if is_named_difference(&document) {
                continue;
            }
            let theirs = cluster.request("POST", &path, Some(&document));
            let ours = ask_plain(port, "POST", &path, Some(&document)).unwrap();
            let [theirs, ours] = [theirs, ours].map(|answer| verdict(answer.status, answer.json()));
            compared += 1;
            if theirs != ours {
                let line = format!("{document}\n  there: {theirs:?}\n  here:  {ours:?}");
                different.entry(path.clone()).or_default().push(line);
            }
        }
    }
    let count: usize = different.values().map(Vec::len).sum();
    let listed: String = different.values().flatten().map(|line| format!("{line}\n")).collect();
    assert!(count * 100 <= compared * DIFFERENCES_MAX, "{count} of {compared}:\n{listed}");
}
