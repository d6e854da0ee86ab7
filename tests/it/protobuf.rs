//! Built-in kinds in protobuf, beside the types of client-go: generated resources with any of their fields.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::process::{Command, Output, Stdio};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use homeostat_builtin::{kinds, protobuf};
use homeostat_store::Kind;
use homeostat_tests::typed_documents;
use serde_json::{Value, json};

use crate::comparison::without_nulls;

/// Resources of each kind.
const COUNT: usize = 100;
/// Differences that a failed test prints.
const SHOWN_MAX: usize = 20;

/// A resource in both encodings of client-go.
struct TypedDocument {
    document: Value,
    body: Vec<u8>,
}

/// Runs the program with the types of client-go. Returns what it prints.
fn typed(arguments: &[&str], input: &[u8]) -> Vec<TypedDocument> {
    let mut command = Command::new(typed_documents());
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut process = command.spawn().unwrap();
    let mut stdin = process.stdin.take().unwrap();
    let Output { status, stdout, stderr } = std::thread::scope(|scope| {
        // A program that has failed reads no further: its words say why.
        scope.spawn(move || drop(stdin.write_all(input)));
        process.wait_with_output().unwrap()
    });
    assert!(status.success(), "{}", String::from_utf8_lossy(&stderr));
    let lines = serde_json::Deserializer::from_slice(&stdout).into_iter::<Value>();
    let typed = lines.map(|line| {
        let mut line = line.unwrap();
        let body = STANDARD.decode(line["protobuf"].as_str().unwrap()).unwrap();
        TypedDocument { document: line["json"].take(), body }
    });
    typed.collect()
}

/// Returns the documents that the types of client-go find in protobuf.
fn read_there(bodies: impl Iterator<Item = Vec<u8>>) -> Vec<Value> {
    let lines: Vec<String> =
        bodies.map(|body| json!({ "json": null, "protobuf": STANDARD.encode(body) }).to_string()).collect();
    let read = typed(&[], lines.join("\n").as_bytes());
    assert_eq!(read.len(), lines.len());
    read.into_iter().map(|typed| typed.document).collect()
}

/// Returns where two documents differ.
fn difference(path: &str, theirs: &Value, ours: &Value) -> Option<String> {
    match (theirs, ours) {
        (Value::Object(left), Value::Object(right)) => {
            let names: BTreeSet<&String> = left.keys().chain(right.keys()).collect();
            names.into_iter().find_map(|name| {
                let [one, other] = [left, right].map(|fields| fields.get(name).unwrap_or(&Value::Null));
                difference(&format!("{path}.{name}"), one, other)
            })
        }
        (Value::Array(left), Value::Array(right)) if left.len() == right.len() => {
            let mut items = left.iter().zip(right).enumerate();
            items.find_map(|(at, (one, other))| difference(&format!("{path}[{at}]"), one, other))
        }
        (one, other) => (one != other).then(|| format!("{path}: there {one}, here {other}")),
    }
}

/// Fails if documents differ.
fn assert_same(what: &str, pairs: impl Iterator<Item = (Value, Value)>) {
    let (mut compared, mut different) = (0, Vec::new());
    for (mut theirs, mut ours) in pairs {
        without_nulls(&mut theirs);
        without_nulls(&mut ours);
        compared += 1;
        let name = format!("{} {}", theirs["apiVersion"], theirs["kind"]);
        different.extend(difference(&name, &theirs, &ours));
    }
    let shown = different[..different.len().min(SHOWN_MAX)].join("\n");
    assert!(different.is_empty(), "{what}: {} of {compared}:\n{shown}", different.len());
}

#[test]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
fn generated_resources_mean_the_same_in_protobuf_to_the_types_of_client_go() {
    let mut groups: BTreeSet<String> = kinds().iter().map(|kind| kind.kind().api_version()).collect();
    groups.insert("apiextensions.k8s.io/v1".to_owned());
    let groups = groups.into_iter().collect::<Vec<_>>().join(",");
    let generated = typed(&["-groups", &groups, "-count", &COUNT.to_string()], &[]);
    let kind_of = |typed: &TypedDocument| {
        let text = |name: &str| typed.document[name].as_str().unwrap().to_owned();
        Kind::parse(&text("apiVersion"), &text("kind")).unwrap()
    };
    let known: Vec<TypedDocument> = generated.into_iter().filter(|typed| protobuf::supports(&kind_of(typed))).collect();
    let mut counts = BTreeMap::<Kind, usize>::new();
    known.iter().for_each(|typed| *counts.entry(kind_of(typed)).or_default() += 1);
    for kind in kinds() {
        assert_eq!(counts.get(&kind.kind()), Some(&COUNT), "{}", kind.kind());
    }

    // An empty list has no protobuf form, so that their own decoder does not find it either.
    let bodies = known.iter().map(|typed| typed.body.clone());
    let theirs = read_there(bodies);
    let ours = known.iter().map(|typed| protobuf::decode(&typed.body).unwrap());
    assert_same("their bytes, read here", theirs.iter().cloned().zip(ours));

    let bodies = known.iter().map(|typed| protobuf::encode(&typed.document).unwrap());
    assert_same("our bytes, read there", theirs.iter().cloned().zip(read_there(bodies)));
}
