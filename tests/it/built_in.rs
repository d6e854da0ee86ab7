//! Built-in kinds beside a real kube-apiserver: the same generated documents go to both, as dry runs, and the verdict, the
//! document with its defaults, and the causes of a refusal are compared. So are the descriptions of the kinds.

use std::collections::BTreeSet;
use std::process::Command;

use homeostat_builtin::kinds;
use homeostat_testing::eventually_blocking;
use homeostat_tests::{Answer, HostProcess, Request, kinds_writer, repository};
use serde_json::{Map, Value};
use tempfile::TempDir;

use crate::comparison::{Cases, Decision, Mutation, Pair, Verdict, dice_of, difference};

/// Valid resources, with how many documents are made of each: one of each kind with its everyday fields, and others with fields
/// that few people use.
const BASES: [(&str, usize); 2] = [(include_str!("built_in.yaml"), 300), (include_str!("built_in_details.yaml"), 100)];
/// Documents of a thousand that may differ. `docs/kubernetes.md` names how.
const DIFFERENCES_MAX: usize = 1;
/// Documents of a hundred that may differ of one valid resource.
const ONE_RESOURCE_MAX: usize = 2;

/// Bytes that an idle host may take for its built-in kinds.
const IDLE_BYTES_MAX: u64 = 2 << 20;
/// Readings in turn that have to show it.
const READINGS: usize = 20;

/// Returns what a server says of a new document. The server shows the labels that a job gets from its pods only when it
/// has stored the job, and no generation is compared.
fn without_job_labels(decision: Decision) -> Decision {
    let Decision::Stored(mut document) = decision else { return decision };
    let is_job = document["kind"] == "Job";
    if let Some(metadata) = document["metadata"].as_object_mut() {
        metadata.remove("generation");
        if is_job {
            metadata.remove("labels");
        }
    }
    Decision::Stored(document)
}

/// Kinds whose names no rule of an API server is about.
const FREELY_NAMED: [&str; 7] = [
    "CertificateSigningRequest",
    "ClusterRole",
    "ClusterRoleBinding",
    "Event",
    "PodDisruptionBudget",
    "Role",
    "RoleBinding",
];
/// Longest name of such a resource here, in bytes.
const NAME_BYTES_MAX: usize = 253;

/// Returns whether the name of a document makes a difference that `docs/kubernetes.md` names.
fn is_named_difference(document: &Value) -> bool {
    let (name, kind) = (document["metadata"]["name"].as_str().unwrap_or_default(), document["kind"].as_str().unwrap());
    match name {
        "" => ["LimitRange", "PodDisruptionBudget"].contains(&kind),
        // The refusal of such a device class counts bytes there, and characters here.
        _ => (FREELY_NAMED.contains(&kind) || kind == "DeviceClass") && name.len() > NAME_BYTES_MAX,
    }
}

/// Returns the valid resources of a file, each with its path and the number of its documents.
fn bases((file, documents): (&str, usize)) -> impl Iterator<Item = (Value, usize)> + use<> {
    let bases: Vec<Value> = serde_saphyr::from_str(file).unwrap();
    bases.into_iter().map(move |base| (base, documents))
}

#[test]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
fn generated_resources_are_decided_as_a_real_api_server_decides_them() {
    let pair = Pair::start();
    let mut cases = Cases::default();
    for (base, documents) in BASES.into_iter().flat_map(bases) {
        let (path, document) = (base["path"].as_str().unwrap(), &base["document"]);
        let mut dice = dice_of(&format!("{path}{}", document["metadata"]["name"]), 1);
        let path = format!("{path}?dryRun=All&fieldManager=test");
        let (wanted, known) = (cases.compared + documents, cases.different.len());
        // A document at which the API server panics is drawn again.
        for number in 0..2 * documents {
            if cases.compared == wanted {
                break;
            }
            let mut document = document.clone();
            let mutations = if number == 0 { 0 } else { 1 + dice.below(2) };
            Mutation::mutate(&mut document, mutations, &mut dice);
            let body = document.to_string();
            let request = Request {
                method: "POST",
                content_type: "application/json",
                body: body.as_bytes(),
                ..Request::get(&path)
            };
            let Some(answers) = pair.try_send(&request, &request) else { continue };
            let [theirs, ours] = answers.map(|answer| Verdict::of(&answer).map(without_job_labels));
            cases.compared += 1;
            assert!(
                number > 0 || matches!(theirs.decision, Decision::Stored(_)),
                "it is no valid resource: {document}: {theirs}"
            );
            if theirs != ours && is_named_difference(&document) {
                cases.named += 1;
            } else if theirs != ours {
                cases.different.push(format!("{document}\n{}", difference(&theirs.to_string(), &ours.to_string())));
            }
        }
        assert_eq!(cases.compared, wanted, "too few documents of {path} were compared");
        assert!(
            (cases.different.len() - known) * 100 <= documents * ONE_RESOURCE_MAX,
            "{path}:\n{}",
            cases.different[known..].join("\n")
        );
    }
    cases.assert_alike(DIFFERENCES_MAX);
}

/// Returns the types that a document in OpenAPI v3 has, by their names.
fn types(answer: &Answer) -> Map<String, Value> {
    answer.json().pointer_mut("/components/schemas").and_then(Value::as_object_mut).map(std::mem::take).unwrap()
}

/// Removes the defaults of a schema.
fn without_defaults(mut schema: Value) -> Value {
    let Some(fields) = schema.as_object_mut() else { return schema };
    fields.remove("default");
    for name in ["items", "additionalProperties"] {
        if let Some(inner) = fields.get_mut(name) {
            *inner = without_defaults(inner.take());
        }
    }
    if let Some(properties) = fields.get_mut("properties").and_then(Value::as_object_mut) {
        properties.values_mut().for_each(|property| *property = without_defaults(property.take()));
    }
    schema
}

#[test]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
fn every_built_in_kind_is_explained_as_by_a_real_api_server() {
    let pair = Pair::start();
    let groups: BTreeSet<String> = kinds().iter().map(|kind| kind.kind().api_version()).collect();
    let mut different = Vec::new();
    for group in groups {
        let path = if group.contains('/') { format!("apis/{group}") } else { format!("api/{group}") };
        let [theirs, ours] = pair.send(&Request::get(&format!("/openapi/v3/{path}"))).map(|answer| types(&answer));
        for kind in kinds().iter().filter(|kind| kind.kind().api_version() == group) {
            let is_there = [&theirs, &ours].map(|types| types.contains_key(&kind.definition));
            assert_eq!(is_there, [true, true], "{}", kind.definition);
        }
        different.extend(type_differences(&theirs, ours));
    }
    assert!(different.is_empty(), "{} types differ:\n{}", different.len(), different.join("\n"));
}

/// Returns how types differ from those of the same names there.
fn type_differences<'t>(theirs: &'t Map<String, Value>, ours: Map<String, Value>) -> impl Iterator<Item = String> + 't {
    ours.into_iter().filter_map(|(name, ours)| {
        let Some(theirs) = theirs.get(&name) else { return Some(format!("{name} is here alone")) };
        let [theirs, ours] = [theirs.clone(), ours].map(without_defaults);
        (theirs != ours).then(|| format!("{name}\n  there: {theirs}\n  here:  {ours}"))
    })
}

#[test]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
fn version_2_of_openapi_describes_built_in_kinds_as_a_real_api_server_does() {
    let pair = Pair::start();
    let [theirs, ours] = pair.send(&Request::get("/openapi/v2")).map(|answer| {
        let mut document = answer.json();
        document["definitions"].as_object_mut().map(std::mem::take).unwrap()
    });
    for kind in kinds() {
        assert!(ours.contains_key(&kind.definition), "{}", kind.definition);
    }
    let ours = ours.into_iter().filter(|(name, _)| !name.starts_with("dev.homeostat.")).collect();
    let different: Vec<String> = type_differences(&theirs, ours).collect();
    assert!(different.is_empty(), "{} types differ:\n{}", different.len(), different.join("\n"));
}

#[test]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
fn the_data_of_built_in_kinds_is_what_the_pinned_modules_give() {
    let folder = TempDir::new().unwrap();
    let mut command = Command::new(kinds_writer());
    let output = command.arg(folder.path()).current_dir(repository().join("tests/tools")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for name in ["kinds.json", "definitions.txt", "roles.json"] {
        let [kept, made] = [&repository().join("host/builtin/data"), folder.path()]
            .map(|folder| std::fs::read(folder.join(name)).unwrap());
        assert!(kept == made, "host/builtin/data/README.md says how {name} is written");
    }
}

/// Returns the anonymous resident memory of a process, in bytes: its heap and stacks.
fn memory(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() << 10
}

#[test]
fn built_in_kinds_take_little_memory_of_an_idle_host() {
    let folders: Vec<TempDir> = (0..3).map(|_| TempDir::new().unwrap()).collect();
    let start = |kinds: &str, scratch: &TempDir| {
        HostProcess::start_measurable(folders[0].path(), scratch.path(), &["--kinds", kinds])
    };
    let [all, none] = [start("all", &folders[1]), start("none", &folders[2])];
    // A process that has just started returns memory for a while.
    let mut in_turn = 0;
    let is_little = || {
        let excess = memory(all.id()).checked_sub(memory(none.id()));
        in_turn = if excess.is_some_and(|excess| excess < IDLE_BYTES_MAX) { in_turn + 1 } else { 0 };
        (in_turn >= READINGS).then_some(())
    };
    eventually_blocking("the memory of the built-in kinds", is_little);
}

#[test]
fn a_host_serves_its_own_kinds_and_the_groups_that_its_setting_names() {
    let folder = TempDir::new().unwrap();
    for (kinds, served) in [("all", [0, 0, 0]), ("apps,batch", [1, 0, 0]), ("none", [1, 1, 0])] {
        let scratch = TempDir::new().unwrap();
        let host = HostProcess::start_measurable(folder.path(), scratch.path(), &["--kinds", kinds]);
        let codes = ["pods", "deployments", "controllers"].map(|plural| host.ask(&["get", plural]).code.unwrap());
        assert_eq!(codes, served, "--kinds {kinds}");
    }
}
