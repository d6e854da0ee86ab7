//! Rules in CEL beside a real kube-apiserver: which expressions compile, and their verdict on a document.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use homeostat_testing::eventually_blocking;
use homeostat_tests::{Cluster, HostProcess, ask_plain, shared_bare_cluster};
use serde_json::{Value, json};
use tempfile::TempDir;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
/// Rules of one part of a schema. Homeostat reports at most 20 violations of a document.
const RULES: usize = 10;

/// The two servers.
struct Servers {
    port: u16,
    cluster: &'static Cluster,
}

impl Servers {
    /// Sends the same request to both, and returns code and body of each: theirs, ours. A text has no body: in such words an
    /// API server says that it does not serve a group yet.
    fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> [(u16, Value); 2] {
        let theirs = self.cluster.request(method, path, body);
        let ours = ask_plain(self.port, method, path, body).unwrap();
        [theirs, ours].map(|answer| (answer.status, serde_json::from_str(&answer.text).unwrap_or_default()))
    }
}

/// A definition whose documents have this `spec`.
fn definition(plural: &str, spec: &Value) -> Value {
    let schema = json!({"type": "object", "properties": {"spec": spec, "status": {
        "type": "object", "x-kubernetes-preserve-unknown-fields": true,
    }}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.rules.dev")},
        "spec": {
            "group": "rules.dev", "scope": "Cluster",
            "names": {"kind": format!("Kind{plural}"), "plural": plural},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema},
                "subresources": {"status": {}},
            }],
        },
    })
}

fn with_rules(schema: &Value, expressions: &[&str]) -> Value {
    let rules: Vec<Value> =
        expressions.iter().map(|rule| json!({"rule": rule, "message": rule_message(rule)})).collect();
    let mut schema = schema.clone();
    schema["x-kubernetes-validations"] = json!(rules);
    schema
}

fn rule_message(rule: &str) -> String {
    rule.replace('\n', " ")
}

/// Returns field, reason and message of each cause of a refusal.
fn causes(body: &Value) -> BTreeSet<String> {
    let causes = body["details"]["causes"].as_array().cloned().unwrap_or_default();
    causes.iter().map(|cause| format!("{} {} {}", cause["field"], cause["reason"], cause["message"])).collect()
}

/// Returns the line of a compilation error that says what is wrong.
fn compile_error(body: &Value) -> String {
    let text = body["message"].as_str().unwrap_or_default();
    let line = text.split("ERROR: <input>:").nth(1).unwrap_or(text);
    line.split(" | ").next().unwrap_or(line).trim().to_owned()
}

#[test]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
fn expressions_of_rules_mean_what_they_mean_to_a_real_api_server() {
    let cases: Value = serde_saphyr::from_str(include_str!("rules.yaml")).unwrap();
    let (schema, document) = (&cases["schema"], &cases["document"]);
    let expressions: Vec<&str> =
        cases["expressions"].as_array().unwrap().iter().map(|rule| rule.as_str().unwrap()).collect();
    let (folder, scratch) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let host = HostProcess::start_on_port("http", folder.path(), scratch.path(), &[], &[]);
    let port: u16 = host.server().rsplit_once(':').unwrap().1.parse().unwrap();
    let servers = Servers { port, cluster: shared_bare_cluster() };
    let mut different = String::new();
    let mut compiled = Vec::new();
    for rule in &expressions {
        let definition = definition("tries", &with_rules(schema, &[rule]));
        let [theirs, ours] = servers.ask("POST", &format!("{DEFINITIONS}?dryRun=All"), Some(&definition));
        if theirs.0 != ours.0 {
            let (theirs, ours) = (compile_error(&theirs.1), compile_error(&ours.1));
            writeln!(different, "{rule}\n  there: {theirs}\n  here:  {ours}").unwrap();
        } else if theirs.0 == 201 {
            compiled.push(*rule);
        }
    }
    for (group, rules) in compiled.chunks(RULES).enumerate() {
        let plural = format!("group{group}");
        let definition = definition(&plural, &with_rules(schema, rules));
        let made = servers.ask("POST", DEFINITIONS, Some(&definition));
        assert_eq!(made.map(|(code, _)| code), [201, 201], "{rules:?}");
        let path = format!("/apis/rules.dev/v1/{plural}");
        let document = json!({
            "apiVersion": "rules.dev/v1", "kind": format!("Kind{plural}"), "metadata": {"name": "a"}, "spec": document,
        });
        let is_served = || servers.ask("GET", &path, None).iter().all(|(code, _)| *code == 200);
        eventually_blocking("both serve the kind", || is_served().then_some(()));
        let [theirs, ours] = servers.ask("POST", &path, Some(&document));
        let [theirs, ours] = [causes(&theirs.1), causes(&ours.1)];
        for (there, causes) in [("only there", theirs.difference(&ours)), ("only here", ours.difference(&theirs))] {
            causes.for_each(|cause| writeln!(different, "{there}: {cause}").unwrap());
        }
    }
    assert!(different.is_empty(), "{different}");
}
