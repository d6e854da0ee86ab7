//! The status of built-in kinds beside a real kube-apiserver: generated changes of a status go to both, as dry runs, and the
//! verdict, the changed document, and the causes of a refusal are compared.

use serde_json::{Value, json};

use crate::comparison::{Cases, Mutation, Pair, Verdict, dice_of};

/// Changes of the status of each resource.
const CHANGES: usize = 60;
/// Changes of a thousand that may differ. `docs/kubernetes.md` names how.
const DIFFERENCES_MAX: usize = 10;

/// Returns the resources that have a status.
fn bases() -> Vec<Value> {
    let mut bases: Vec<Value> = serde_saphyr::from_str(include_str!("tables.yaml")).unwrap();
    bases.retain(|base| {
        base["status"].as_object().is_some_and(|status| !status.is_empty()) && base["isDeleted"] != true
    });
    // In v1, the conversion of an autoscaler is a named difference.
    bases.retain(|base| !base["path"].as_str().unwrap().starts_with("/apis/autoscaling/v1/"));
    bases
}

#[test]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
fn a_status_of_a_built_in_kind_is_decided_as_a_real_api_server_decides_it() {
    let pair = Pair::start();
    pair.make_namespace("statuses");
    let mut cases = Cases::default();
    for base in bases() {
        let path = base["path"].as_str().unwrap().replace("/namespaces/tables/", "/namespaces/statuses/");
        let name = base["document"]["metadata"]["name"].as_str().unwrap().replace("tables", "statuses");
        let mut document = base["document"].clone();
        document["metadata"]["name"] = name.as_str().into();
        let made = pair.ask("POST", &path, &document);
        assert!(made.iter().all(|answer| answer.status == 201), "{document}: {made:?}");
        let path = format!("{path}/{name}");
        let mut dice = dice_of(&path, 3);
        let status = json!({ "status": base["status"] });
        for number in 0..CHANGES {
            let mut change = status.clone();
            let mutations = if number == 0 { 0 } else { 1 + dice.below(2) };
            Mutation::mutate(&mut change, mutations, &mut dice);
            if number == CHANGES / 2 {
                pair.ask("PATCH", &format!("{path}/status"), &status);
            }
            let answers = pair.ask("PATCH", &format!("{path}/status?dryRun=All&fieldManager=second"), &change);
            let [theirs, ours] = answers.each_ref().map(Verdict::of);
            assert!(number > 0 || answers[0].status == 200, "it is no valid status: {status}: {theirs}");
            cases.add(&format!("{path}\n{change}"), &theirs, &ours);
        }
        // It would stand in the way of other tests.
        pair.ask("DELETE", &path, &json!({ "gracePeriodSeconds": 0 }));
    }
    cases.assert_alike(DIFFERENCES_MAX);
}
