//! A resource of a built-in kind on both servers, and generated changes of it.

use homeostat_testing::Dice;
use homeostat_tests::{Answer, Request};
use serde_json::Value;

use super::patches;
use crate::comparison::{Decision, MERGE, Mutation, Pair, Verdict, comparable, ways};

/// A change, with a body for each server: a body can have a revision of its server.
pub(super) struct Change {
    pub(super) method: &'static str,
    pub(super) content_type: &'static str,
    pub(super) query: &'static str,
    pub(super) bodies: [Value; 2],
}

/// Returns the name of a resource. A registered service is named by its version and group, and an address by itself.
fn own_name(kind: &str, name: &str) -> String {
    match kind {
        "apiservice" => format!("v1.{name}.dev"),
        "ipaddress" => format!("10.0.0.{}", 100 + name.len()),
        _ => name.to_owned(),
    }
}

/// A resource of a kind, on both servers.
pub(super) struct StoredDocument {
    pub(super) path: String,
    /// As it was created.
    document: Value,
    /// As it is stored: there, here.
    pub(super) stored: [Value; 2],
}

impl StoredDocument {
    /// Makes a resource of this name in a namespace of its own, and returns it.
    pub(super) fn make(pair: &Pair, base: &Value, name: &str) -> Self {
        let kind = base["document"]["kind"].as_str().unwrap().to_lowercase();
        let path = base["path"].as_str().unwrap();
        // Two groups have a kind of this name.
        let group = if path.starts_with("/apis/events.k8s.io/") { "-of-its-group" } else { "" };
        let namespace = format!("{name}-{kind}{group}");
        let path = path.replace("/default/", &format!("/{namespace}/"));
        if path.contains(&namespace) {
            pair.make_namespace(&namespace);
        }
        let text = base["document"]
            .to_string()
            .replace("nothing.dev", &format!("{name}.dev"))
            .replace("\"namespace\":\"default\"", &format!("\"namespace\":\"{namespace}\""));
        let mut document: Value = serde_json::from_str(&text).unwrap();
        let name = own_name(&kind, name);
        document["metadata"]["name"] = name.as_str().into();
        let made = pair.ask("POST", &format!("{path}?fieldManager=first"), &document);
        let stored = made.map(|answer| {
            assert_eq!(answer.status, 201, "{kind}: {}", answer.text);
            answer.json()
        });
        Self { path: format!("{path}/{name}"), document, stored }
    }

    /// Draws a change of the resource.
    pub(super) fn change(&self, dice: &mut Dice) -> Change {
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
    /// Sends the change to both servers. Returns the answers: theirs, ours; `None` for a change at which an API server
    /// panics.
    pub(super) fn send(&self, pair: &Pair, path: &str) -> Option<[Answer; 2]> {
        let Self { method, content_type, query: _, bodies } = self;
        let [there, here] = bodies.each_ref().map(Value::to_string);
        let request = Request { method, content_type, ..Request::get(path) };
        let there = Request { body: there.as_bytes(), ..request };
        pair.try_send(&there, &Request { body: here.as_bytes(), ..request })
    }

    /// Returns whether the difference is one that `docs/kubernetes.md` names: an API server refuses a patch of the metadata
    /// of a controller revision, because it takes its data for changed.
    pub(super) fn is_named(&self, verdicts: &[Verdict; 2]) -> bool {
        let [theirs, ours] = verdicts.each_ref().map(|verdict| &verdict.decision);
        let of_data =
            matches!(theirs, Decision::Refused(422, causes) if causes.iter().all(|cause| cause.field == "data"));
        let is_revision = matches!(ours, Decision::Stored(document) if document["kind"] == "ControllerRevision");
        self.method == "PATCH" && of_data && is_revision
    }
}
