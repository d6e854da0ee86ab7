//! Changes of built-in kinds beside a real kube-apiserver: generated updates, patches and applies of the same resources go to
//! both, as dry runs, and the verdict, the changed document, and the causes of a refusal are compared.

mod patches;

use homeostat_testing::Dice;
use homeostat_tests::Request;
use serde_json::{Value, json};

use crate::comparison::{MERGE, Mutation, Pair, Verdict, assert_alike, comparable, ways};

/// Changes of each kind.
const CHANGES: usize = 40;
/// Changes of a hundred that may differ.
const DIFFERENCES_MAX: usize = 1;

/// A change, with a body for each server: a body can have a revision of its server.
struct Change {
    method: &'static str,
    content_type: &'static str,
    query: &'static str,
    bodies: [Value; 2],
}

/// A resource of a kind, on both servers.
struct StoredDocument {
    path: String,
    /// As it was created.
    document: Value,
    /// As it is stored: there, here.
    stored: [Value; 2],
}

impl StoredDocument {
    /// Makes the resource in a namespace of its kind, and returns it.
    fn make(pair: &Pair, base: &Value) -> Self {
        let kind = base["document"]["kind"].as_str().unwrap().to_lowercase();
        let namespace = format!("changes-{kind}");
        let path = base["path"].as_str().unwrap().replace("/default/", &format!("/{namespace}/"));
        if path.contains(&namespace) {
            pair.make_namespace(&namespace);
        }
        let text = base["document"]
            .to_string()
            .replace("\"namespace\":\"default\"", &format!("\"namespace\":\"{namespace}\""));
        let mut document: Value = serde_json::from_str(&text).unwrap();
        document["metadata"]["name"] = "changed".into();
        let made = pair.ask("POST", &format!("{path}?fieldManager=first"), &document);
        let stored = made.map(|answer| {
            assert_eq!(answer.status, 201, "{kind}: {}", answer.text);
            answer.json()
        });
        Self { path: format!("{path}/changed"), document, stored }
    }

    /// Draws a change of the resource.
    fn change(&self, dice: &mut Dice) -> Change {
        let mutations = |of: &Value, dice: &mut Dice| -> Vec<Mutation> {
            (0..=dice.below(2)).filter_map(|_| Mutation::draw(of, dice)).collect()
        };
        let changed = |of: &Value, mutations: &[Mutation]| {
            let mut document = of.clone();
            mutations.iter().for_each(|mutation| mutation.apply(&mut document));
            document
        };
        let (how, names_revision) = (dice.below(8), dice.below(10) != 0);
        if how < 2 {
            // A client reads the resource, and writes it back.
            let mutations = mutations(&comparable(self.stored[0].clone()), dice);
            let bodies = self.stored.each_ref().map(|stored| {
                let mut body = changed(stored, &mutations);
                if let Some(metadata) = body["metadata"].as_object_mut().filter(|_| !names_revision) {
                    metadata.remove("resourceVersion");
                }
                body
            });
            return Change { method: "PUT", content_type: "application/json", query: "", bodies };
        }
        let mutations = mutations(&self.document, dice);
        let mut body = changed(&self.document, &mutations);
        if how == 2 {
            let bodies = self.stored.each_ref().map(|stored| {
                let mut body = body.clone();
                if let Some(metadata) = body["metadata"].as_object_mut().filter(|_| names_revision) {
                    metadata.insert("resourceVersion".to_owned(), stored["metadata"]["resourceVersion"].clone());
                }
                body
            });
            return Change { method: "PUT", content_type: "application/json", query: "", bodies };
        }
        let (content_type, query, body) = match how {
            3 => (MERGE, "", patches::merge(&self.document, &body)),
            4 => {
                let operations = mutations.iter().flat_map(|mutation| mutation.operations(&self.document, dice));
                ("application/json-patch+json", "", Value::Array(operations.collect()))
            }
            5 => {
                let patch = patches::strategic(&self.document, &body, dice);
                ("application/strategic-merge-patch+json", "", patch)
            }
            _ => {
                // Another manager names a part of the fields.
                for _ in 0..dice.below(3) {
                    if let Some(way) = dice.one(&ways(&body)).filter(|way| way.len() > 1).cloned() {
                        Mutation::removal(way).apply(&mut body);
                    }
                }
                ("application/apply-patch+yaml", if dice.below(2) == 0 { "&force=true" } else { "" }, body)
            }
        };
        Change { method: "PATCH", content_type, query, bodies: [body.clone(), body] }
    }
}

impl Change {
    /// Returns whether the difference is one that `docs/kubernetes.md` names: an API server refuses a patch of the metadata
    /// of a controller revision, because it takes its data for changed.
    fn is_named(&self, verdicts: &[Verdict; 2]) -> bool {
        let [theirs, ours] = verdicts;
        let of_data =
            matches!(theirs, Verdict::Refused(422, causes) if causes.iter().all(|(field, _)| field == "data"));
        let is_revision = matches!(ours, Verdict::Stored(document) if document["kind"] == "ControllerRevision");
        self.method == "PATCH" && of_data && is_revision
    }
}

#[test]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
fn changes_of_built_in_kinds_are_decided_as_a_real_api_server_decides_them() {
    let bases: Vec<Value> = serde_saphyr::from_str(include_str!("built_in.yaml")).unwrap();
    let pair = Pair::start();
    let (mut compared, mut different) = (0, Vec::new());
    for base in bases {
        let stored = StoredDocument::make(&pair, &base);
        let path = &stored.path;
        let mut dice = Dice::new(path.bytes().fold(7, |seed, byte| seed.wrapping_mul(31).wrapping_add(byte.into())));
        for _ in 0..CHANGES {
            let change = stored.change(&mut dice);
            let Change { method, content_type, query, bodies } = &change;
            let path = format!("{path}?dryRun=All&fieldManager=second{query}");
            let [there, here] = bodies.each_ref().map(Value::to_string);
            let request = Request { method, content_type, ..Request::get(&path) };
            let answers = [
                pair.send_there(&Request { body: there.as_bytes(), ..request }),
                pair.send_here(&Request { body: here.as_bytes(), ..request }),
            ];
            let verdicts = answers.each_ref().map(Verdict::of);
            compared += 1;
            if verdicts[0] != verdicts[1] && !change.is_named(&verdicts) {
                let [theirs, ours] = verdicts;
                let words = answers.map(|answer| answer.json()["message"].as_str().unwrap_or_default().to_owned());
                let kind = format!("{method} {content_type}{query} {path}");
                different
                    .push(format!("{kind}\n{here}\n  there: {theirs:?} {}\n  here:  {ours:?} {}", words[0], words[1]));
            }
        }
        // It would stand in the way of other tests.
        pair.ask("DELETE", path, &json!({}));
    }
    assert_alike(compared, &different, DIFFERENCES_MAX);
}
