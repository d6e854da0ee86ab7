//! Lists and watches of a host beside those of a kube-apiserver: each line of `reads/requests.txt` goes to both, after the same
//! writes, and the answers are compared.

use std::collections::BTreeMap;

use homeostat_testing::eventually_blocking;
use homeostat_tests::{Answer, Request, repository};
use regex::Regex;
use serde_json::{Value, json};

use crate::comparison::{Pair, answer_difference, comparable, difference};

/// The line that differs, as `docs/kubernetes.md` says.
const DIFFERS: &str = "LIST configmaps?limit=3&resourceVersion=0";

/// How long a watch stays open, in seconds.
const WATCH_SECONDS: u32 = 5;

/// Requests to one server at the same time.
const CONCURRENT: usize = 8;

/// The groups of the kinds, by their plural.
const GROUPS: [(&str, &str); 4] =
    [("configmaps", "/api/v1"), ("pods", "/api/v1"), ("secrets", "/api/v1"), ("widgets", "/apis/reads.dev/v1")];

const FORMATS: [(&str, &str); 3] = [
    ("TABLE", "application/json;as=Table;g=meta.k8s.io;v=v1"),
    ("METADATA", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"),
    ("METADATAS", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"),
];

/// Returns the path of a kind, or of one of its resources, in a namespace; in all without one.
fn path(namespace: Option<&str>, rest: &str) -> String {
    let plural = rest.split(['/', '?']).next().unwrap_or_default();
    let (_, group) = GROUPS.iter().find(|(known, _)| *known == plural).expect("the kind is known");
    namespace.map_or_else(|| format!("{group}/{rest}"), |namespace| format!("{group}/namespaces/{namespace}/{rest}"))
}

fn in_a(rest: &str) -> String {
    path(Some("reads-a"), rest)
}

/// Makes the definition, the namespaces and the first resources.
fn create(pair: &Pair) {
    let property = json!({ "type": "object", "properties": { "colour": { "type": "string" } } });
    let schema = json!({ "type": "object", "properties": { "spec": property } });
    let column = json!({ "name": "Colour", "type": "string", "jsonPath": ".spec.colour", "description": "Its colour" });
    let version = json!({
        "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": schema },
        "selectableFields": [{ "jsonPath": ".spec.colour" }], "additionalPrinterColumns": [column],
    });
    let names = json!({ "plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList" });
    let definition = json!({
        "metadata": { "name": "widgets.reads.dev" },
        "spec": { "group": "reads.dev", "scope": "Namespaced", "names": names, "versions": [version] },
    });
    pair.make("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition);
    pair.make_namespace("reads-a");
    pair.make_namespace("reads-b");
    eventually_blocking("both to serve the definition", || {
        pair.ask("GET", &in_a("widgets"), &Value::Null).iter().all(|answer| answer.status == 200).then_some(())
    });
    for namespace in ["reads-a", "reads-b"] {
        for (at, name) in ["a", "b", "c", "d", "e", "f", "g", "h"].into_iter().enumerate() {
            let mut labels = json!({ "reads": "yes", "n": at.to_string() });
            if at < 6 {
                labels["tier"] = if at % 2 == 1 { "odd".into() } else { "even".into() };
            }
            let made = json!({ "metadata": { "name": name, "labels": labels }, "data": { "k": name } });
            pair.make(&path(Some(namespace), "configmaps"), &made);
        }
        for (name, colour, tier) in [("red", "red", "odd"), ("blue", "blue", "even"), ("plain", "", "odd")] {
            let labels = json!({ "reads": "yes", "tier": tier });
            let spec = if colour.is_empty() { json!({}) } else { json!({ "colour": colour }) };
            let widget = json!({
                "apiVersion": "reads.dev/v1", "kind": "Widget",
                "metadata": { "name": name, "labels": labels }, "spec": spec,
            });
            pair.make(&path(Some(namespace), "widgets"), &widget);
        }
        for (name, node, policy) in [("p0", "", "Always"), ("p1", "n1", "Never"), ("p2", "n1", "Always")] {
            let mut spec = json!({ "containers": [{ "name": "c", "image": "i" }], "restartPolicy": policy });
            if !node.is_empty() {
                spec["nodeName"] = node.into();
            }
            let pod = json!({ "metadata": { "name": name, "labels": { "reads": "yes" } }, "spec": spec });
            pair.make(&path(Some(namespace), "pods"), &pod);
        }
    }
    for (name, kind) in [("opaque", "Opaque"), ("other", "reads.dev/other")] {
        pair.make(&in_a("secrets"), &json!({ "metadata": { "name": name }, "type": kind, "data": { "k": "dg==" } }));
    }
}

/// Sends a write to both, which succeeds.
fn write(pair: &Pair, method: &str, path: &str, body: &Value) {
    let answers = pair.ask(method, path, body);
    assert!(answers.iter().all(|answer| answer.status < 300), "{method} {path}: {answers:?}");
}

/// Changes some of the resources.
fn change(pair: &Pair) {
    let ask = |method: &str, path: &str, body: Value| write(pair, method, path, &body);
    ask("PATCH", &in_a("configmaps/a"), json!({ "metadata": { "labels": { "tier": "odd" } } }));
    ask("PATCH", &in_a("configmaps/b"), json!({ "data": { "k": "changed" } }));
    ask("DELETE", &in_a("configmaps/c"), Value::Null);
    ask("PATCH", &in_a("configmaps/d"), json!({ "metadata": { "labels": { "tier": null } } }));
    ask("PATCH", &in_a("pods/p0/status"), json!({ "status": { "phase": "Running" } }));
    ask("PATCH", &in_a("widgets/red"), json!({ "spec": { "colour": "blue" } }));
}

/// Changes others.
fn change_more(pair: &Pair) {
    let ask = |method: &str, path: &str, body: Value| write(pair, method, path, &body);
    ask("DELETE", &in_a("configmaps/h"), Value::Null);
    pair.make(&in_a("configmaps"), &json!({ "metadata": { "name": "c", "labels": { "tier": "even", "n": "2" } } }));
    ask("PATCH", &in_a("configmaps/a"), json!({ "metadata": { "labels": { "tier": "even" } } }));
    ask("PATCH", &in_a("pods/p0/status"), json!({ "status": { "phase": "Succeeded" } }));
    ask("DELETE", &in_a("widgets/blue"), Value::Null);
    ask("PATCH", &in_a("widgets/plain"), json!({ "spec": { "colour": "red" } }));
}

/// Returns the revision of each server, theirs and ours.
fn revisions(pair: &Pair) -> [String; 2] {
    let revision = |answer: Answer| answer.json()["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    pair.ask("GET", &in_a("configmaps"), &Value::Null).map(revision)
}

/// A line of the table.
struct Read {
    line: String,
    /// The path on each server, theirs and ours.
    paths: [String; 2],
    accept: &'static str,
    is_watch: bool,
    /// Whether it is a page of a former revision.
    is_past: bool,
    /// Whether its first events have the order of each server.
    is_initial: bool,
}

impl Read {
    fn of(line: &str, marks: &[[String; 2]]) -> Self {
        let (request, format) = line.split_once(" | ").unwrap_or((line, ""));
        let (verb, rest) = request.split_once(' ').expect("a line has a verb and a path");
        let is_watch = verb.starts_with("WATCH");
        let mut path = if verb.ends_with("ALL") { path(None, rest) } else { in_a(rest) };
        if is_watch {
            let sign = if path.contains('?') { '&' } else { '?' };
            path += &format!("{sign}watch=true&timeoutSeconds={WATCH_SECONDS}");
        }
        let of_side = |side: usize| {
            let replace =
                |path: String, (at, marks): (usize, &[String; 2])| path.replace(&format!("{{{at}}}"), &marks[side]);
            marks.iter().enumerate().fold(path.clone(), replace)
        };
        let accept = FORMATS.iter().find(|(name, _)| *name == format).map_or("application/json", |(_, accept)| accept);
        let is_initial = !rest.contains("resourceVersion={") || rest.contains("sendInitialEvents=true");
        let is_past = rest.contains("resourceVersion={") && rest.contains("limit=");
        Self { line: line.to_owned(), paths: [of_side(0), of_side(1)], accept, is_watch, is_past, is_initial }
    }

    /// Returns how the two servers differ.
    fn difference(&self, pair: &Pair) -> Option<String> {
        let ask = |side: usize| {
            let request = Request { accept: self.accept, ..Request::get(&self.paths[side]) };
            if side == 0 { pair.send_there(&request) } else { pair.send_here(&request) }
        };
        let answers = std::thread::scope(|scope| {
            let theirs = scope.spawn(|| ask(0));
            let ours = ask(1);
            [theirs.join().unwrap(), ours]
        });
        let statuses = answers.each_ref().map(|answer| answer.status);
        let found = if statuses[0] != statuses[1] {
            let refusal = answers.iter().find(|answer| answer.status != 200).map(|answer| answer.text.as_str());
            format!("  - {}\n  + {}\n{}\n", statuses[0], statuses[1], refusal.unwrap_or_default())
        } else if statuses[0] != 200 {
            let revision = Regex::new(r"\b\d+\b").unwrap();
            answer_difference(answers, &[], Some(&revision)).unwrap_or_default()
        } else if self.is_watch {
            let [theirs, ours] = answers.map(|answer| self.events(&answer));
            difference(&theirs, &ours)
        } else {
            let [theirs, ours] = answers.map(|answer| {
                let mut list = without_marks(answer.json());
                if self.is_past {
                    // A host does not count what followed in the past.
                    list["metadata"].as_object_mut().unwrap().remove("remainingItemCount");
                }
                serde_json::to_string_pretty(&list).unwrap()
            });
            difference(&theirs, &ours)
        };
        (!found.is_empty()).then(|| format!("{}\n{found}", self.line))
    }

    /// Returns the events of a watch, one in each line. Those of the beginning are in the order of their names.
    fn events(&self, answer: &Answer) -> String {
        let mut events: Vec<(String, String)> = Vec::new();
        for line in answer.text.lines().filter(|line| !line.is_empty()) {
            let event: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
            let object = &event["object"];
            let metadata =
                if object["kind"] == "Table" { &object["rows"][0]["object"]["metadata"] } else { &object["metadata"] };
            // Each server sends bookmarks in between when it likes.
            if event["type"] == "BOOKMARK" && metadata["annotations"].is_null() {
                continue;
            }
            let name = format!("{}/{}", metadata["namespace"], metadata["name"]);
            events.push((name, json!({ "type": event["type"], "object": without_marks(object.clone()) }).to_string()));
        }
        if self.is_initial {
            events.sort_by(|(one, _), (other, _)| one.cmp(other));
        }
        events.into_iter().map(|(_, event)| event + "\n").collect()
    }
}

/// Returns a list, a table or a resource without the tokens, ages and times by which two servers differ that do the same.
fn without_marks(mut document: Value) -> Value {
    let age = Regex::new(r"^(\d+[smhd])+$|^<invalid>$").unwrap();
    if let Some(metadata) = document["metadata"].as_object_mut() {
        // Kinds of definitions have an empty token there.
        match metadata.remove("continue") {
            Some(token) if token != "" => drop(metadata.insert("continue".to_owned(), "TOKEN".into())),
            _ => {}
        }
    }
    for item in document["items"].as_array_mut().into_iter().flatten() {
        *item = comparable(item.take());
    }
    // The words of columns are each server's own.
    for column in document["columnDefinitions"].as_array_mut().into_iter().flatten() {
        column.as_object_mut().unwrap().remove("description");
    }
    for row in document["rows"].as_array_mut().into_iter().flatten() {
        row["object"] = comparable(row["object"].take());
        for cell in row["cells"].as_array_mut().into_iter().flatten() {
            if cell.as_str().is_some_and(|cell| age.is_match(cell)) {
                *cell = "AGE".into();
            }
        }
    }
    comparable(document)
}

#[test]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
fn lists_and_watches_are_those_of_a_real_api_server() {
    let pair = Pair::start();
    create(&pair);
    let mut marks = vec![revisions(&pair)];
    change(&pair);
    marks.push(revisions(&pair));
    change_more(&pair);
    marks.push(revisions(&pair));
    let table = std::fs::read_to_string(repository().join("tests/it/reads/requests.txt")).unwrap();
    let lines = table.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let reads: Vec<Read> = lines.map(|line| Read::of(line, &marks)).collect();
    let mut different = BTreeMap::new();
    for some in reads.chunks(CONCURRENT) {
        std::thread::scope(|scope| {
            let running: Vec<_> = some.iter().map(|read| (read, scope.spawn(|| read.difference(&pair)))).collect();
            for (read, running) in running {
                different.extend(running.join().unwrap().map(|found| (read.line.clone(), found)));
            }
        });
    }
    // A server whose cache is not filled yet takes the limit at its word, too.
    different.remove(DIFFERS);
    let different: Vec<String> = different.into_values().collect();
    assert!(different.is_empty(), "{}", different.join("\n"));
}
