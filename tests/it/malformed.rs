//! Malformed requests beside a real kube-apiserver: each line of `malformed/requests.txt` goes to both, and the status code,
//! the reason, the causes and the kind of the answer are compared.

use std::collections::BTreeSet;
use std::path::PathBuf;

use homeostat_testing::eventually_blocking;
use homeostat_tests::{Answer, Request, repository};
use serde_json::{Value, json};

use crate::comparison::{Pair, asked};

/// Lines of a hundred that may differ. Each of them is named in `docs/kubernetes.md`.
const DIFFERENCES_MAX: usize = 1;

/// The meaning of an answer.
#[derive(Debug, PartialEq)]
struct Meaning {
    status: u16,
    /// The kind of the document; empty if the body is none.
    kind: String,
    reason: String,
    /// Field and reason of each cause.
    causes: BTreeSet<(String, String)>,
}

impl Meaning {
    fn of(answer: &Answer) -> Self {
        let document: Value = serde_json::from_str(&answer.text).unwrap_or_default();
        let text = |of: &Value, name: &str| of[name].as_str().unwrap_or_default().to_owned();
        let causes = document["details"]["causes"].as_array().cloned().unwrap_or_default();
        Self {
            status: answer.status,
            kind: text(&document, "kind"),
            reason: text(&document, "reason"),
            causes: causes.iter().map(|cause| (text(cause, "field"), text(cause, "reason"))).collect(),
        }
    }
}

/// Makes the resources that the requests name.
fn prepare(pair: &Pair) {
    let schema = json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {"size": {"type": "integer", "maximum": 10}}},
    }});
    let widget = |name: &str| json!({"apiVersion": "bad.dev/v1", "kind": "Widget", "metadata": {"name": name}, "spec": {"size": 1}});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.bad.dev"},
        "spec": {
            "group": "bad.dev", "scope": "Namespaced", "names": {"kind": "Widget", "plural": "widgets"},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": schema},
            }],
        },
    });
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let deployment = json!({
        "metadata": {"name": "d"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template},
    });
    pair.make_namespace("bad");
    let widgets = "/apis/bad.dev/v1/namespaces/bad/widgets";
    for (path, document) in [
        ("/api/v1/namespaces/bad/configmaps", json!({"metadata": {"name": "a"}, "data": {"k": "v"}})),
        ("/api/v1/namespaces/bad/serviceaccounts", json!({"metadata": {"name": "r"}})),
        ("/apis/apps/v1/namespaces/bad/deployments", deployment),
        ("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition),
    ] {
        assert_eq!(pair.ask("POST", path, &document).map(|answer| answer.status), [201, 201], "{path}");
    }
    eventually_blocking("both serve the kind", || {
        let answers = pair.ask("GET", widgets, &Value::Null);
        answers.iter().all(|answer| answer.status == 200).then_some(())
    });
    assert_eq!(pair.ask("POST", widgets, &widget("w")).map(|answer| answer.status), [201, 201]);
}

/// Returns the file with the table. `COMPARISON_REQUESTS` names another one.
fn table() -> PathBuf {
    let own = || repository().join("tests/it/malformed/requests.txt");
    asked("COMPARISON_REQUESTS").map_or_else(own, PathBuf::from)
}

/// Returns a body of the table as bytes.
fn body(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text;
    while let Some((plain, escaped)) = rest.split_once('\\') {
        bytes.extend(plain.bytes());
        let (byte, length) = match escaped.as_bytes() {
            [b'n', ..] => (b'\n', 1),
            [b't', ..] => (b'\t', 1),
            _ => (u8::from_str_radix(&escaped[1..3], 16).unwrap(), 3),
        };
        bytes.push(byte);
        rest = &escaped[length..];
    }
    bytes.extend(rest.bytes());
    bytes
}

/// Returns the value of a header in the table.
fn header(text: &str) -> &str {
    match text {
        "" | "-" => "application/json",
        "none" => "",
        other => other,
    }
}

#[test]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
fn malformed_requests_are_answered_as_a_real_api_server_answers_them() {
    let pair = Pair::start();
    prepare(&pair);
    let named = std::fs::read_to_string(repository().join("docs/kubernetes.md")).unwrap();
    let table = std::fs::read_to_string(table()).unwrap();
    let lines: Vec<&str> = table.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
    let (mut different, mut unnamed) = (0, String::new());
    for line in &lines {
        let mut columns = line.splitn(4, " |").map(str::trim);
        let mut next = || columns.next().unwrap_or_default();
        let (method, path) = next().split_once(' ').unwrap();
        let (content_type, accept, body) = (header(next()), header(next()), body(next()));
        let answers = pair.send(&Request { method, path, token: None, content_type, accept, body: &body });
        let [theirs, ours] = answers.each_ref().map(Meaning::of);
        if theirs == ours {
            continue;
        }
        different += 1;
        if !named.contains(&format!("`{line}`")) {
            let [there, here] = answers.map(|answer| answer.text.chars().take(300).collect::<String>());
            unnamed += &format!("{line}\n  there: {theirs:?} {there}\n  here:  {ours:?} {here}\n");
        }
    }
    assert!(unnamed.is_empty(), "not named:\n{unnamed}");
    assert!(lines.len() >= 150 && different * 100 <= lines.len() * DIFFERENCES_MAX, "{different} of {}", lines.len());
}
