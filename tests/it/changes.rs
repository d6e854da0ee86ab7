//! Changes of built-in kinds beside a real kube-apiserver: generated updates, patches and applies of the same resources go to
//! both, and the verdict, the changed document, the owners of its fields, and the causes of a refusal are compared.

mod patches;
mod stored_document;

use homeostat_tests::Answer;
use serde_json::{Value, json};

use crate::comparison::{Cases, Pair, Verdict, dice_of, difference, owners};
use stored_document::{Change, StoredDocument};

/// Changes of each kind.
const CHANGES: usize = 300;
/// Changes of one resource that are stored, one after the other.
const STEPS: usize = 15;
/// Changes of a thousand that may differ. `docs/kubernetes.md` names how.
const DIFFERENCES_MAX: usize = 3;
/// Stored changes of a thousand after which the owners may differ.
const OWNER_DIFFERENCES_MAX: usize = 10;

/// Groups whose resources are not changed here. A kube-apiserver writes the status of their kinds by itself, which makes their
/// revisions differ.
const GROUPS_LEFT_OUT: [&str; 2] = ["apiregistration.k8s.io", "flowcontrol.apiserver.k8s.io"];

/// Returns one resource of each kind that is changed.
fn bases() -> Vec<Value> {
    let mut bases: Vec<Value> = serde_saphyr::from_str(include_str!("built_in.yaml")).unwrap();
    bases.retain(|base| !GROUPS_LEFT_OUT.contains(&base["path"].as_str().unwrap().split('/').nth(2).unwrap()));
    bases
}

#[test]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
fn changes_of_built_in_kinds_are_decided_as_a_real_api_server_decides_them() {
    let bases = bases();
    let pair = Pair::start();
    let mut cases = Cases::default();
    for base in bases {
        let stored = StoredDocument::make(&pair, &base, "changed");
        let path = &stored.path;
        let mut dice = dice_of(path, 7);
        for _ in 0..CHANGES {
            let change = stored.change(&mut dice);
            let Change { method, content_type, query, bodies } = &change;
            let path = format!("{path}?dryRun=All&fieldManager=second{query}");
            let Some(answers) = change.send(&pair, &path) else { continue };
            let verdicts = answers.each_ref().map(Verdict::of);
            cases.compared += 1;
            if verdicts[0] != verdicts[1] && change.is_named(&verdicts) {
                cases.named += 1;
            } else if verdicts[0] != verdicts[1] {
                let [theirs, ours] = verdicts.map(|verdict| verdict.to_string());
                let change = format!("{method} {content_type}{query} {path}");
                cases.different.push(format!("{change}\n{}\n{}", bodies[1], difference(&theirs, &ours)));
            }
        }
        // It would stand in the way of other tests.
        pair.ask("DELETE", path, &json!({}));
    }
    cases.assert_alike(DIFFERENCES_MAX);
}

#[test]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
fn fields_of_built_in_kinds_have_the_owners_that_a_real_api_server_gives_them() {
    let bases = bases();
    let pair = Pair::start();
    let mut cases = Cases::default();
    for base in bases {
        let mut stored = StoredDocument::make(&pair, &base, "owned");
        let mut dice = dice_of(&stored.path, 11);
        let mut steps = Vec::new();
        for _ in 0..STEPS {
            cases.compared += 1;
            let [theirs, ours] = stored.stored.each_ref().map(owners);
            if theirs != ours {
                cases.different.push(format!("{steps:#?}\n  there: {theirs}\n  here:  {ours}"));
                break;
            }
            let change = stored.change(&mut dice);
            let manager = dice.one(&["first", "second", "third"]).unwrap();
            let Change { method, content_type, query, bodies } = &change;
            let path = format!("{}?fieldManager={manager}{query}", stored.path);
            steps.push(format!("{method} {content_type} {path} {}", bodies[1]));
            let Some(answers) = change.send(&pair, &path) else { continue };
            match answers.each_ref().map(|answer| answer.status) {
                [200, 200] => stored.stored = answers.each_ref().map(Answer::json),
                [there, here] if (there == 200) != (here == 200) => {
                    let verdicts = answers.each_ref().map(Verdict::of);
                    if change.is_named(&verdicts) {
                        cases.named += 1;
                    } else {
                        let [theirs, ours] = verdicts.map(|verdict| verdict.to_string());
                        cases.different.push(format!("{steps:#?}\n{}", difference(&theirs, &ours)));
                    }
                    break;
                }
                _ => {}
            }
        }
        pair.ask("DELETE", &stored.path, &json!({}));
    }
    cases.assert_alike(OWNER_DIFFERENCES_MAX);
}
