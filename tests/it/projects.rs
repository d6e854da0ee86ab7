//! Definitions of well-known projects beside a real kube-apiserver: both declare them, and decide generated resources of each.
//! The verdicts, the documents with their defaults, and the causes of refusals are compared. So are the definitions, and the
//! states that the servers give them.

mod sample;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use homeostat_testing::{BOUND, Dice, eventually_blocking, until};
use homeostat_tests::{Answer, project_definitions};
use serde_json::{Value, json};

use crate::comparison::{Cases, Decision, Mutation, Pair, Verdict, dice_of};
use sample::sample;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
/// Definitions of one run of the tests.
const SAMPLE: usize = 100;
/// The sample of each run is the same.
const SEED: u64 = 36;
/// Generated resources of each definition.
const RESOURCES: usize = 8;
/// Cases of a thousand that may differ. `docs/kubernetes.md` names how.
const DIFFERENCES_MAX: usize = 5;

/// Definitions of a thousand that may be refused for other causes.
const FAULTS_DIFFERENT_MAX: usize = 10;

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found.sort();
    found
}

/// Returns whether a webhook converts the resources of a kind between its versions.
fn converts(definition: &Value) -> bool {
    definition["spec"]["conversion"]["strategy"] == "Webhook"
}

/// Returns up to so many definitions, by their names, drawn from all projects: those with a webhook for conversions, or those
/// without.
fn definitions(count_max: usize, with_webhook: bool) -> BTreeMap<String, Value> {
    let (mut files, mut dice) = (files(&project_definitions()), Dice::new(SEED));
    let mut found = BTreeMap::new();
    while !files.is_empty() && found.len() < count_max {
        let text = std::fs::read_to_string(files.swap_remove(dice.index(files.len()))).unwrap();
        for part in text.split("\n---").filter(|part| part.contains("kind: CustomResourceDefinition")) {
            // A template is no document.
            let Ok(mut definition) = serde_saphyr::from_str::<Value>(part.trim_start_matches("---")) else { continue };
            let is_wanted = converts(&definition) == with_webhook && found.len() < count_max;
            if definition["apiVersion"] == "apiextensions.k8s.io/v1" && is_wanted {
                definition.as_object_mut().unwrap().remove("status");
                found.insert(definition["metadata"]["name"].as_str().unwrap().to_owned(), definition);
            }
        }
    }
    found
}

/// Returns the versions of a kind whose resources are compared: those that are served. No program answers the webhook of a kind
/// here, so that only its stored version works.
fn compared_versions(definition: &Value) -> impl Iterator<Item = &Value> {
    let all = !converts(definition);
    let versions = definition["spec"]["versions"].as_array().unwrap().iter();
    versions.filter(move |version| version["served"] == true && (all || version["storage"] == true))
}

fn text<'d>(value: &'d Value, pointer: &str) -> &'d str {
    value.pointer(pointer).and_then(Value::as_str).unwrap()
}

/// Returns the verdict on a definition, of whose document the specification with its defaults is compared, and of the metadata
/// what the client has written. `docs/kubernetes.md` names no difference of these.
fn on_definition(verdict: Verdict) -> Verdict {
    verdict.map(|decision| match decision {
        Decision::Stored(document) => {
            let written = ["name", "labels", "annotations"].map(|name| document["metadata"][name].clone());
            Decision::Stored(json!({ "metadata": written, "spec": document["spec"] }))
        }
        refused @ Decision::Refused(..) => refused.with_sorted_causes(),
    })
}

/// Returns the verdict on the read of a definition that is served: the names that it got, the versions that may be stored, and
/// types and statuses of its conditions, which have any order. `docs/kubernetes.md` names no difference of these.
fn on_state(verdict: Verdict) -> Verdict {
    verdict.map(|decision| match decision {
        Decision::Stored(document) => {
            let status = &document["status"];
            let conditions: BTreeMap<&str, &Value> =
                conditions(status).map(|condition| (text(condition, "/type"), &condition["status"])).collect();
            Decision::Stored(json!({
                "acceptedNames": status["acceptedNames"], "storedVersions": status["storedVersions"],
                "conditions": conditions,
            }))
        }
        refused @ Decision::Refused(..) => refused,
    })
}

fn conditions(status: &Value) -> impl Iterator<Item = &Value> {
    status["conditions"].as_array().into_iter().flatten()
}

/// Returns how many conditions an API server gives a definition: that its names are accepted, that it is served, and in a group
/// of Kubernetes that it is approved.
fn conditions_count(definition: &Value) -> usize {
    let group = text(definition, "/spec/group");
    let is_of_kubernetes = ["k8s.io", "kubernetes.io"]
        .into_iter()
        .any(|domain| group.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.')));
    2 + usize::from(is_of_kubernetes)
}

/// Compares the states of definitions that both serve. A server writes the state of a definition some time after it has stored
/// the definition.
fn compare_states(pair: &Pair, served: &[&Value], cases: &mut Cases) {
    let states = |definition: &Value| {
        let path = format!("{DEFINITIONS}/{}", text(definition, "/metadata/name"));
        let answers = pair.ask("GET", &path, &Value::Null);
        let is_whole = conditions(&answers[0].json()["status"]).count() >= conditions_count(definition);
        (is_whole, answers.map(|answer| on_state(Verdict::of(&answer))))
    };
    let mut left = served.to_vec();
    until(BOUND, || {
        left.retain(|definition| {
            let (is_whole, [theirs, ours]) = states(definition);
            !is_whole || theirs != ours
        });
        left.is_empty().then_some(())
    });
    cases.compared += served.len() - left.len();
    for definition in left {
        let (_, [theirs, ours]) = states(definition);
        cases.add(&format!("the state of {}", text(definition, "/metadata/name")), &theirs, &ours);
    }
}

fn compare(count_max: usize) {
    let pair = Pair::start();
    pair.make_namespace("projects");
    let (mut definitions, with_webhooks) = (definitions(count_max, false), definitions(usize::MAX, true));
    assert!(definitions.len() >= SAMPLE.min(count_max), "only {} definitions", definitions.len());
    assert!(!with_webhooks.is_empty(), "no definition has a webhook for conversions");
    definitions.extend(with_webhooks);
    let mut cases = Cases::default();
    let mut served = Vec::new();
    for (name, definition) in &definitions {
        let [theirs, ours] =
            pair.ask("POST", DEFINITIONS, definition).map(|answer| on_definition(Verdict::of(&answer)));
        cases.add(name, &theirs, &ours);
        if matches!((&theirs.decision, &ours.decision), (Decision::Stored(_), Decision::Stored(_))) {
            served.push(definition);
        }
    }
    let versions_of = |definition| compared_versions(definition).map(move |version| (definition, version));
    for (definition, version) in served.iter().copied().flat_map(versions_of) {
        let plural = text(definition, "/spec/names/plural");
        let group_version = format!("{}/{}", text(definition, "/spec/group"), text(version, "/name"));
        let namespace = if definition["spec"]["scope"] == "Namespaced" { "namespaces/projects/" } else { "" };
        let path = format!("/apis/{group_version}/{namespace}{plural}");
        eventually_blocking(&format!("both serve {path}"), || {
            pair.ask("GET", &path, &Value::Null).iter().all(|answer| answer.status == 200).then_some(())
        });
        let mut dice = dice_of(&path, 5);
        for number in 0..RESOURCES {
            let mut document = sample(&version["schema"]["openAPIV3Schema"], 0, &mut dice);
            let mutations = dice.below(3);
            Mutation::mutate(&mut document, mutations, &mut dice);
            if !document.is_object() {
                document = json!({});
            }
            document["apiVersion"] = group_version.clone().into();
            document["kind"] = definition["spec"]["names"]["kind"].clone();
            document["metadata"] = json!({ "name": format!("a{number}") });
            if version.pointer("/subresources/status").is_none() {
                // Here every kind has a status of its own.
                document.as_object_mut().unwrap().remove("status");
            }
            let answers = pair.ask("POST", &format!("{path}?dryRun=All"), &document);
            // An API server checks the fields of a definition's kind in any order.
            let [theirs, ours] = answers.map(|answer| Verdict::of(&answer).map(Decision::with_sorted_causes));
            cases.add(&format!("{path} {document}"), &theirs, &ours);
        }
    }
    compare_states(&pair, &served, &mut cases);
    cases.assert_alike(DIFFERENCES_MAX);
}

/// Keywords that are set in a part of a schema, most of which are faults there.
fn keywords() -> Vec<(&'static str, Value)> {
    vec![
        ("$ref", json!("#/definitions/x")),
        ("additionalProperties", json!({ "type": "string" })),
        ("anyOf", json!([{ "type": "string" }])),
        ("default", json!("x")),
        ("default", json!(1)),
        ("description", json!("a change without a fault")),
        ("enum", json!([1])),
        ("id", json!("x")),
        ("items", json!({ "type": "string" })),
        ("items", json!([])),
        ("maximum", json!(0)),
        ("not", json!({ "default": {} })),
        ("nullable", json!(true)),
        ("pattern", json!("(")),
        ("properties", json!({ "x": {} })),
        ("type", json!("text")),
        ("type", Value::Null),
        ("type", json!("array")),
        ("uniqueItems", json!(true)),
        ("x-kubernetes-embedded-resource", json!(true)),
        ("x-kubernetes-int-or-string", json!(true)),
        ("x-kubernetes-list-type", json!("map")),
        ("x-kubernetes-list-type", json!("set")),
        ("x-kubernetes-map-type", json!("loose")),
        ("x-kubernetes-preserve-unknown-fields", json!(false)),
        ("x-kubernetes-validations", json!([{ "rule": "self.none == 1" }, { "rule": "" }])),
        ("x-kubernetes-validations", json!([{ "rule": "true", "reason": "None", "fieldPath": ".none" }])),
    ]
}

/// Returns a random part of a schema, which is below its root.
fn part_of<'s>(schema: &'s mut Value, dice: &mut Dice) -> &'s mut Value {
    let mut part = schema;
    loop {
        let names: Vec<String> = part["properties"].as_object().map_or(Vec::new(), |all| all.keys().cloned().collect());
        let is_end = dice.below(4) == 0;
        part = match (names.is_empty(), part.get("items").is_some()) {
            (false, _) => &mut part["properties"][&names[dice.index(names.len())]],
            (true, true) => &mut part["items"],
            (true, false) => return part,
        };
        if is_end {
            return part;
        }
    }
}

/// Returns the status code of an answer, with the field and the reason of each cause.
fn causes(answer: &Answer) -> (u16, BTreeSet<(String, String)>) {
    let body = answer.json();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let found = body["details"]["causes"].as_array().into_iter().flatten();
    (answer.status, found.map(|cause| (text(&cause["field"]), text(&cause["reason"]))).collect())
}

#[test]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
fn definitions_with_faults_are_refused_for_the_causes_of_a_real_api_server() {
    let (pair, keywords) = (Pair::start(), keywords());
    let definitions = definitions(SAMPLE, false);
    let mut cases = Cases { compared: definitions.len(), ..Cases::default() };
    for (name, definition) in &definitions {
        let mut dice = dice_of(name, 9);
        let mut faulty = definition.clone();
        // Another test stores the definition itself.
        let group = format!("faulty.{}", text(definition, "/spec/group"));
        faulty["metadata"]["name"] = format!("{}.{group}", text(definition, "/spec/names/plural")).into();
        faulty["spec"]["group"] = group.into();
        let versions = faulty["spec"]["versions"].as_array_mut().unwrap();
        let at = dice.index(versions.len());
        let (keyword, value) = &keywords[dice.index(keywords.len())];
        part_of(&mut versions[at]["schema"]["openAPIV3Schema"], &mut dice)[*keyword] = value.clone();
        let answers = pair.ask("POST", &format!("{DEFINITIONS}?dryRun=All"), &faulty);
        let [theirs, ours] = answers.each_ref().map(causes);
        if theirs != ours {
            cases.different.push(format!("{name}: {keyword} {value}\n  there: {theirs:?}\n  here:  {ours:?}"));
        }
    }
    cases.assert_alike(FAULTS_DIFFERENT_MAX);
}

#[test]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
fn definitions_of_projects_mean_what_they_mean_to_a_real_api_server() {
    compare(SAMPLE);
}

#[test]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
#[cfg_attr(not(missing_go), ignore = "takes minutes: the other test has a sample of the definitions")]
fn all_definitions_of_projects_mean_what_they_mean_to_a_real_api_server() {
    compare(usize::MAX);
}
