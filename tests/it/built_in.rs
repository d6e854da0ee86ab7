//! Built-in kinds beside a real kube-apiserver: the same generated documents go to both, as dry runs, and the verdict, the
//! document with its defaults, and the causes of a refusal are compared.

use serde_json::Value;

use crate::comparison::{Mutation, Pair, Verdict, assert_alike, dice_of};

/// Documents of each kind.
const DOCUMENTS: usize = 300;
/// Documents of a thousand that may differ. `docs/kubernetes.md` names how.
const DIFFERENCES_MAX: usize = 1;

/// Returns what a server says of a new document. The server shows the labels that a job gets from its pods only when it
/// has stored the job, and no generation is compared.
fn without_job_labels(verdict: Verdict) -> Verdict {
    let Verdict::Stored(mut document) = verdict else { return verdict };
    let is_job = document["kind"] == "Job";
    if let Some(metadata) = document["metadata"].as_object_mut() {
        metadata.remove("generation");
        if is_job {
            metadata.remove("labels");
        }
    }
    Verdict::Stored(document)
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
    let pair = Pair::start();
    let (mut compared, mut different) = (0, Vec::new());
    // The path of each kind, and one valid resource of it.
    for base in bases {
        let (path, document) = (base["path"].as_str().unwrap(), &base["document"]);
        let path = format!("{path}?dryRun=All&fieldManager=test");
        let mut dice = dice_of(&path, 1);
        for number in 0..DOCUMENTS {
            let mut document = document.clone();
            let mutations = if number == 0 { 0 } else { 1 + dice.below(2) };
            for _ in 0..mutations {
                if let Some(mutation) = Mutation::draw(&document, &mut dice) {
                    mutation.apply(&mut document);
                }
            }
            if is_named_difference(&document) {
                continue;
            }
            let [theirs, ours] =
                pair.ask("POST", &path, &document).map(|answer| without_job_labels(Verdict::of(&answer)));
            compared += 1;
            if theirs != ours {
                different.push(format!("{document}\n  there: {theirs:?}\n  here:  {ours:?}"));
            }
        }
    }
    assert_alike(compared, &different, DIFFERENCES_MAX);
}
