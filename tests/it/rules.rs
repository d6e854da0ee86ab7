//! Rules in CEL beside a real kube-apiserver: which expressions compile, their verdict on a document, and what they say of updates.

mod costs;

use std::collections::BTreeSet;
use std::fmt::Write as _;

use homeostat_store::Change;
use homeostat_testing::eventually_blocking;
use homeostat_tests::{Cluster, HostProcess, ask_plain, shared_bare_cluster};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::comparison::{Mutation, Pair, comparable, dice_of, difference};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
/// Keywords that refuse documents, rules first, and defaults.
const CONSTRAINTS: [&str; 20] = [
    "x-kubernetes-validations",
    "allOf",
    "anyOf",
    "default",
    "enum",
    "format",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minLength",
    "minimum",
    "multipleOf",
    "not",
    "oneOf",
    "pattern",
    "required",
    "uniqueItems",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-list-type",
];
/// Rules of one part of a schema. Homeostat reports at most 20 violations of a document.
const RULES: usize = 10;

/// The two servers.
struct Servers {
    port: u16,
    cluster: &'static Cluster,
}

impl Servers {
    /// Sends the same request to both, and returns code and body of each: theirs, ours. A text has no body: in such words an
    /// API server says that it does not serve a group yet.
    fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> [(u16, Value); 2] {
        let theirs = self.cluster.request(method, path, body);
        let ours = ask_plain(self.port, method, path, body).unwrap();
        [theirs, ours].map(|answer| (answer.status, serde_json::from_str(&answer.text).unwrap_or_default()))
    }
}

/// A definition whose documents have this `spec`.
fn definition(plural: &str, spec: &Value) -> Value {
    let schema = json!({"type": "object", "properties": {"spec": spec, "status": {
        "type": "object", "x-kubernetes-preserve-unknown-fields": true,
    }}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.rules.dev")},
        "spec": {
            "group": "rules.dev", "scope": "Cluster",
            "names": {"kind": format!("Kind{plural}"), "plural": plural},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema},
                "subresources": {"status": {}},
            }],
        },
    })
}

fn with_rules(schema: &Value, expressions: &[&str]) -> Value {
    let rules: Vec<Value> =
        expressions.iter().map(|rule| json!({"rule": rule, "message": rule_message(rule)})).collect();
    let mut schema = schema.clone();
    schema["x-kubernetes-validations"] = json!(rules);
    schema
}

fn rule_message(rule: &str) -> String {
    rule.replace('\n', " ")
}

/// Returns field, reason and message of each cause of a refusal.
fn causes(body: &Value) -> BTreeSet<String> {
    let causes = body["details"]["causes"].as_array().cloned().unwrap_or_default();
    causes.iter().map(|cause| format!("{} {} {}", cause["field"], cause["reason"], cause["message"])).collect()
}

/// Returns the line of a compilation error that says what is wrong.
fn compile_error(body: &Value) -> String {
    let text = body["message"].as_str().unwrap_or_default();
    let line = text.split("ERROR: <input>:").nth(1).unwrap_or(text);
    line.split(" | ").next().unwrap_or(line).trim().to_owned()
}

#[test]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
fn expressions_of_rules_mean_what_they_mean_to_a_real_api_server() {
    let cases: Value = serde_saphyr::from_str(include_str!("rules.yaml")).unwrap();
    let (schema, document) = (&cases["schema"], &cases["document"]);
    let expressions: Vec<&str> =
        cases["expressions"].as_array().unwrap().iter().map(|rule| rule.as_str().unwrap()).collect();
    let (folder, scratch) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let host = HostProcess::start_on_port("http", folder.path(), scratch.path(), &[], &[]);
    let port: u16 = host.server().rsplit_once(':').unwrap().1.parse().unwrap();
    let servers = Servers { port, cluster: shared_bare_cluster() };
    let mut different = String::new();
    let mut compiled = Vec::new();
    for rule in &expressions {
        let definition = definition("tries", &with_rules(schema, &[rule]));
        let [theirs, ours] = servers.ask("POST", &format!("{DEFINITIONS}?dryRun=All"), Some(&definition));
        if theirs.0 != ours.0 {
            let (theirs, ours) = (compile_error(&theirs.1), compile_error(&ours.1));
            writeln!(different, "{rule}\n  there: {theirs}\n  here:  {ours}").unwrap();
        } else if theirs.0 == 201 {
            compiled.push(*rule);
        }
    }
    for (group, rules) in compiled.chunks(RULES).enumerate() {
        let plural = format!("group{group}");
        let definition = definition(&plural, &with_rules(schema, rules));
        let made = servers.ask("POST", DEFINITIONS, Some(&definition));
        assert_eq!(made.map(|(code, _)| code), [201, 201], "{rules:?}");
        let path = format!("/apis/rules.dev/v1/{plural}");
        let document = json!({
            "apiVersion": "rules.dev/v1", "kind": format!("Kind{plural}"), "metadata": {"name": "a"}, "spec": document,
        });
        let is_served = || servers.ask("GET", &path, None).iter().all(|(code, _)| *code == 200);
        eventually_blocking("both serve the kind", || is_served().then_some(()));
        let [theirs, ours] = servers.ask("POST", &path, Some(&document));
        let [theirs, ours] = [causes(&theirs.1), causes(&ours.1)];
        for (there, causes) in [("only there", theirs.difference(&ours)), ("only here", ours.difference(&theirs))] {
            causes.for_each(|cause| writeln!(different, "{there}: {cause}").unwrap());
        }
    }
    assert!(different.is_empty(), "{different}");
}

/// Mutations of each update.
const MUTATIONS: usize = 6;

#[test]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
fn updates_under_rules_are_refused_in_the_words_of_a_real_api_server() {
    let cases: Value = serde_saphyr::from_str(include_str!("rules.yaml")).unwrap();
    let pair = Pair::start();
    let mut different = Vec::new();
    for (at, transitions) in cases["transitions"].as_array().unwrap().iter().enumerate() {
        compare_transitions(&pair, &format!("transitions{at}"), transitions, &mut different);
    }
    assert!(different.is_empty(), "{} differ:\n{}", different.len(), different.join("\n"));
}

/// Stores a document before its definition has rules, or other constraints, and compares the answers to its updates, and to
/// creations.
fn compare_transitions(pair: &Pair, plural: &str, transitions: &Value, different: &mut Vec<String>) {
    let dropped = if transitions["constrains"] == true { &CONSTRAINTS[..] } else { &CONSTRAINTS[..1] };
    let free = definition(plural, &without(dropped, transitions["schema"].clone()));
    // A kube-apiserver warns of formats that do not fit their type.
    let made = pair.ask("POST", DEFINITIONS, &free);
    assert_eq!(made.each_ref().map(|answer| answer.status), [201, 201], "{made:?}");
    let (path, kind) = (format!("/apis/rules.dev/v1/{plural}"), format!("Kind{plural}"));
    let is_served = || pair.ask("GET", &path, &Value::Null).iter().all(|answer| answer.status == 200).then_some(());
    eventually_blocking("both serve the kind", is_served);
    let stored = json!({
        "apiVersion": "rules.dev/v1", "kind": kind, "metadata": { "name": "a" }, "spec": transitions["stored"],
    });
    pair.make(&path, &stored);
    let mut ruled = definition(plural, &transitions["schema"]);
    ruled.as_object_mut().unwrap().remove("metadata");
    let added = pair.ask("PATCH", &format!("{DEFINITIONS}/{plural}.rules.dev"), &ruled);
    assert_eq!(added.each_ref().map(|answer| answer.status), [200, 200], "{added:?}");
    let mut new = stored.clone();
    new["metadata"]["name"] = "probe".into();
    let refuses = || {
        pair.ask("POST", &format!("{path}?dryRun=All"), &new).iter().all(|answer| answer.status == 422).then_some(())
    };
    eventually_blocking("both know the rules", refuses);

    let mut compare = |method: &str, path: &str, body: &Value| {
        if method == "PATCH" && merged(&stored, body) == stored {
            // An API server may refuse a change of nothing.
            return;
        }
        let answers = pair.ask(method, &format!("{path}?dryRun=All"), body);
        // A kube-apiserver has the causes in the order of a map, which is none, and whole values.
        let [theirs, ours] = answers.map(|answer| match answer.status {
            200 | 201 => comparable(answer.json()).to_string(),
            status => format!("{status}\n{}", causes(&answer.json()).into_iter().collect::<Vec<_>>().join("\n")),
        });
        if theirs != ours {
            different.push(format!("{method} {body}\n{}", difference(&theirs, &ours)));
        }
    };
    let (one, mut dice) = (format!("{path}/a"), dice_of(plural, 1));
    for update in transitions["updates"].as_array().unwrap() {
        compare("PATCH", &one, &json!({ "spec": update }));
        let mut document = merged(&stored, &json!({ "spec": update }));
        for _ in 0..MUTATIONS {
            document["metadata"] = json!({ "name": "new" });
            compare("POST", &path, &document);
            let mut update = document["spec"].clone();
            Mutation::mutate(&mut update, 1, &mut dice);
            compare("PATCH", &one, &json!({ "spec": update }));
            document["spec"] = update;
        }
    }
}

/// Returns a schema without these keywords.
fn without(keywords: &[&str], mut schema: Value) -> Value {
    if let Value::Object(fields) = &mut schema {
        fields.retain(|name, _| !keywords.contains(&name.as_str()));
        fields.values_mut().for_each(|field| *field = without(keywords, field.take()));
    }
    schema
}

/// Returns a document after a merge patch.
fn merged(document: &Value, patch: &Value) -> Value {
    Change::Merge(patch.clone()).apply(document).unwrap()
}
