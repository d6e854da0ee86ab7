//! Definitions of well-known projects beside a real kube-apiserver: both declare them, and decide generated resources of each.
//! The verdicts, the documents with their defaults, and the causes of refusals are compared.

mod sample;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use homeostat_testing::{Dice, eventually_blocking};
use homeostat_tests::{Answer, project_definitions};
use serde_json::{Value, json};

use crate::comparison::{Decision, Mutation, Pair, Verdict, assert_alike, dice_of, difference};
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

/// Returns up to so many definitions, by their names, drawn from all projects. Those with a webhook for conversions are left
/// out.
fn definitions(count_max: usize) -> BTreeMap<String, Value> {
    let (mut files, mut dice) = (files(&project_definitions()), Dice::new(SEED));
    let mut found = BTreeMap::new();
    while !files.is_empty() && found.len() < count_max {
        let text = std::fs::read_to_string(files.swap_remove(dice.index(files.len()))).unwrap();
        for part in text.split("\n---").filter(|part| part.contains("kind: CustomResourceDefinition")) {
            // A template is no document.
            let Ok(mut definition) = serde_saphyr::from_str::<Value>(part.trim_start_matches("---")) else { continue };
            let converts = definition["spec"]["conversion"]["strategy"] == "Webhook";
            if definition["apiVersion"] == "apiextensions.k8s.io/v1" && !converts && found.len() < count_max {
                definition.as_object_mut().unwrap().remove("status");
                found.insert(definition["metadata"]["name"].as_str().unwrap().to_owned(), definition);
            }
        }
    }
    found
}

/// Returns the versions of a kind that are served.
fn served_versions(definition: &Value) -> impl Iterator<Item = &Value> {
    definition["spec"]["versions"].as_array().unwrap().iter().filter(|version| version["served"] == true)
}

fn text<'d>(value: &'d Value, pointer: &str) -> &'d str {
    value.pointer(pointer).and_then(Value::as_str).unwrap()
}

/// The cases of a comparison.
#[derive(Default)]
struct Cases {
    compared: usize,
    different: Vec<String>,
}

impl Cases {
    fn add(&mut self, what: &str, theirs: &Verdict, ours: &Verdict) {
        self.compared += 1;
        if theirs != ours {
            let [theirs, ours] = [theirs, ours].map(Verdict::to_string);
            self.different.push(format!("{what}\n{}", difference(&theirs, &ours)));
        }
    }
}

/// Returns the verdict on a definition, of whose document only the name is compared.
fn on_definition(verdict: Verdict) -> Verdict {
    verdict.map(|decision| match decision {
        Decision::Stored(document) => Decision::Stored(document["metadata"]["name"].clone()),
        refused @ Decision::Refused(..) => refused.with_sorted_causes(),
    })
}

fn compare(count_max: usize) {
    let pair = Pair::start();
    pair.make_namespace("projects");
    let definitions = definitions(count_max);
    assert!(definitions.len() >= SAMPLE.min(count_max), "only {} definitions", definitions.len());
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
    let versions_of = |definition| served_versions(definition).map(move |version| (definition, version));
    for (definition, version) in served.into_iter().flat_map(versions_of) {
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
    assert_alike(cases.compared, &cases.different, DIFFERENCES_MAX);
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
    let mut different = Vec::new();
    let definitions = definitions(SAMPLE);
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
            different.push(format!("{name}: {keyword} {value}\n  there: {theirs:?}\n  here:  {ours:?}"));
        }
    }
    assert_alike(definitions.len(), &different, FAULTS_DIFFERENT_MAX);
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
