//! Discovery of a host beside that of a real kube-apiserver, aggregated and not: groups and versions in their order, and names,
//! scopes, kinds, verbs, short names, categories and subresources of each resource are compared.

use std::collections::{BTreeMap, BTreeSet};

use homeostat_builtin::kinds;
use homeostat_testing::eventually_blocking;
use homeostat_tests::{Answer, Request};
use serde_json::{Value, json};

use crate::comparison::{Pair, difference, without_nulls};

const PLAIN: &str = "application/json";
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// The `APIService`s of the groups that an API server has from its start.
const BUILT_IN: &str =
    "/apis/apiregistration.k8s.io/v1/apiservices?labelSelector=kube-aggregator.kubernetes.io%2Fautomanaged%3Donstart";

/// The one version that an API server has from its start without an `APIService`.
const UNREGISTERED: &str = "apiregistration.k8s.io/v1";

/// The group of the kinds that only a host has.
const OF_HOST: &str = "homeostat.dev/";

/// The resources of version `v1` that a host lists nowhere, as `docs/kubernetes.md` says. A host has no component statuses, and
/// no nodes that run pods or pass requests on.
const NOT_HERE: [&str; 8] = [
    "componentstatuses",
    "nodes/proxy",
    "pods/attach",
    "pods/exec",
    "pods/log",
    "pods/portforward",
    "pods/proxy",
    "services/proxy",
];

/// The resources that an API server still stores in `v1beta1`, and a host in `v1`. Their hashes tell the stored version.
const STORED_IN_V1_HERE: [&str; 3] =
    ["customresourcedefinitions", "mutatingadmissionpolicies", "mutatingadmissionpolicybindings"];

/// The versions of the definition that each test makes, in the order in which discovery lists them.
const VERSIONS: [&str; 3] = ["v1", "v1beta1", "v2alpha1"];

/// The compared parts of discovery by their names: a resource, a subresource, an order, the form of an answer.
type Discovery = BTreeMap<String, Value>;

/// One of the two servers.
struct Side<'t> {
    pair: &'t Pair,
    is_here: bool,
    /// The versions that an API server has from its start.
    built_in: &'t BTreeSet<String>,
    /// The group of the definition. The API server also has the definitions of other tests.
    group: &'static str,
}

impl Side<'_> {
    fn get(&self, path: &str, accept: &str) -> Answer {
        let request = Request { accept, ..Request::get(path) };
        if self.is_here { self.pair.send_here(&request) } else { self.pair.send_there(&request) }
    }

    /// Reads a document; null if the server does not have it yet, which an API server says in plain text.
    fn document(&self, path: &str) -> Value {
        serde_json::from_str(&self.get(path, PLAIN).text).unwrap_or_default()
    }

    /// Returns whether a version, as `apps/v1`, is compared.
    fn compares(&self, version: &str) -> bool {
        let is_of_test = version.split('/').next() == Some(self.group);
        if self.is_here { !version.starts_with(OF_HOST) } else { is_of_test || self.built_in.contains(version) }
    }

    /// Returns whether a resource or a subresource of a version is compared.
    fn compares_resource(&self, version: &str, name: &str) -> bool {
        self.is_here || version != "v1" || !NOT_HERE.contains(&name)
    }

    /// Reads the aggregated form.
    fn aggregated(&self) -> Discovery {
        let (mut found, mut order) = (Discovery::new(), Vec::new());
        for path in ["/api", "/apis"] {
            let answer = self.get(path, AGGREGATED);
            let document: Value = serde_json::from_str(&answer.text).unwrap_or_default();
            let form = json!({
                "status": answer.status, "type": answer.content_type, "kind": document["kind"],
                "apiVersion": document["apiVersion"],
            });
            found.insert(format!("the form of {path}"), form);
            for group in items(&document["items"]) {
                for listed in items(&group["versions"]) {
                    let version = version_name(text(&group["metadata"]["name"]), text(&listed["version"]));
                    if self.compares(&version) {
                        found.insert(format!("the freshness of {version}"), listed["freshness"].clone());
                        found.extend(self.aggregated_resources(&version, &listed["resources"]));
                        order.push(version);
                    }
                }
            }
        }
        found.insert("the order of groups and versions".to_owned(), json!(order));
        found
    }

    /// Returns the resources of a version in the aggregated form, with their subresources beside them.
    fn aggregated_resources(&self, version: &str, resources: &Value) -> Discovery {
        let (mut found, mut order) = (Discovery::new(), Vec::new());
        for resource in items(resources) {
            let plural = text(&resource["resource"]);
            if !self.compares_resource(version, plural) {
                continue;
            }
            order.push(plural);
            let mut parts = Vec::new();
            for part in items(&resource["subresources"]) {
                let name = text(&part["subresource"]);
                if self.compares_resource(version, &format!("{plural}/{name}")) {
                    parts.push(name);
                    found.insert(format!("{version} {plural}/{name}"), part.clone());
                }
            }
            let mut resource = resource.clone();
            resource["subresources"] = json!(parts);
            found.insert(format!("{version} {plural}"), resource);
        }
        found.insert(format!("the order of the resources of {version}"), json!(order));
        found
    }

    /// Reads the form without aggregation: the list of groups, each group, and the list of resources of each version.
    fn plain(&self) -> Discovery {
        let (mut found, mut order) = (Discovery::new(), Vec::new());
        let core = self.document("/api");
        found.insert("the form of /api".to_owned(), core["kind"].clone());
        order.extend(items(&core["versions"]).map(|version| text(version).to_owned()));
        let groups = self.document("/apis");
        found.insert("the form of /apis".to_owned(), json!([groups["kind"], groups["apiVersion"]]));
        for group in items(&groups["groups"]) {
            let versions = items(&group["versions"]).map(|version| text(&version["groupVersion"]).to_owned());
            let versions: Vec<String> = versions.filter(|version| self.compares(version)).collect();
            if !versions.is_empty() {
                let name = text(&group["name"]);
                found.insert(format!("the group {name} in the list"), group.clone());
                found.insert(format!("the group {name}"), self.document(&format!("/apis/{name}")));
                order.extend(versions);
            }
        }
        for version in &order {
            found.extend(self.plain_resources(version));
        }
        found.insert("the order of groups and versions".to_owned(), json!(order));
        found
    }

    /// Reads the resources and subresources of a version in the form without aggregation.
    fn plain_resources(&self, version: &str) -> Discovery {
        let (mut found, mut order) = (Discovery::new(), Vec::new());
        let document = self.document(&format!("/{}/{version}", if version.contains('/') { "apis" } else { "api" }));
        let form = json!([document["kind"], document["apiVersion"], document["groupVersion"]]);
        found.insert(format!("the form of {version}"), form);
        for resource in items(&document["resources"]) {
            let name = text(&resource["name"]);
            if self.compares_resource(version, name) {
                order.push(name);
                let mut resource = resource.clone();
                if STORED_IN_V1_HERE.contains(&name) {
                    resource["storageVersionHash"] = Value::Null;
                }
                found.insert(format!("{version} {name}"), resource);
            }
        }
        found.insert(format!("the order of the resources of {version}"), json!(order));
        found
    }
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Returns a version as an `apiVersion` names it.
fn version_name(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

/// Returns the versions that an API server has from its start.
fn built_in_versions(pair: &Pair) -> BTreeSet<String> {
    let services = pair.send_there(&Request::get(BUILT_IN)).json();
    let name = |spec: &Value| version_name(text(&spec["group"]), text(&spec["version"]));
    let registered = items(&services["items"]).map(|service| name(&service["spec"]));
    let versions: BTreeSet<String> = registered.chain([UNREGISTERED.to_owned()]).collect();
    let ours = kinds().iter().map(|kind| kind.kind().api_version());
    let missing: Vec<String> = ours.filter(|version| !versions.contains(version)).collect();
    assert!(missing.is_empty(), "the API server does not register {missing:?}: {services}");
    versions
}

/// Makes a definition with several versions, and with everything that discovery shows of it.
fn make_definition(pair: &Pair, group: &str) {
    let number = json!({ "type": "object", "properties": { "replicas": { "type": "integer" } } });
    let schema = json!({ "type": "object", "properties": { "spec": number, "status": number } });
    let version = |name: &str, subresources: Value| {
        json!({
            "name": name, "served": true, "storage": name == "v1", "schema": { "openAPIV3Schema": schema },
            "subresources": subresources,
        })
    };
    let scale = json!({ "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas" });
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("gadgets.{group}") },
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": {
                "plural": "gadgets", "singular": "gadget", "kind": "Gadget", "shortNames": ["gdt", "gd"],
                "categories": ["tools", "all"],
            },
            "versions": [
                version("v2alpha1", json!({ "status": {} })),
                version("v1beta1", json!({ "status": {} })),
                version("v1", json!({ "status": {}, "scale": scale })),
            ],
        },
    });
    pair.make(DEFINITIONS, &definition);
}

/// Reads discovery from both, and returns how they differ: one text for each part.
fn differences(group: &'static str, read: impl Fn(&Side<'_>) -> Discovery) -> Vec<String> {
    let pair = Pair::start();
    let built_in = built_in_versions(&pair);
    make_definition(&pair, group);
    let sides = [false, true].map(|is_here| Side { pair: &pair, is_here, built_in: &built_in, group });
    let [theirs, ours] = eventually_blocking("both to list all versions of the definition", || {
        let found = sides.each_ref().map(&read);
        let has = |found: &Discovery, version: &&str| found.contains_key(&format!("{group}/{version} gadgets/status"));
        found.iter().all(|found| VERSIONS.iter().all(|version| has(found, version))).then_some(found)
    });
    assert!(theirs.len() > kinds().len(), "too little is compared: {:?}", theirs.keys());
    let names: BTreeSet<&String> = theirs.keys().chain(ours.keys()).collect();
    let difference_of = |name: &String| {
        let [theirs, ours] = [&theirs, &ours].map(|found| lines(found.get(name)));
        (theirs != ours).then(|| format!("{name}\n{}", difference(&theirs, &ours)))
    };
    names.into_iter().filter_map(difference_of).collect()
}

/// Returns a part with a line for each field.
fn lines(part: Option<&Value>) -> String {
    let Some(mut part) = part.cloned() else { return "it is not listed".to_owned() };
    without_nulls(&mut part);
    match &part {
        Value::Object(fields) => fields.iter().map(|(name, value)| format!("{name}: {value}\n")).collect(),
        other => other.to_string(),
    }
}

#[test]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
fn aggregated_discovery_is_that_of_a_real_api_server() {
    let different = differences("aggregated.dev", |side| side.aggregated());
    assert!(different.is_empty(), "{} parts differ:\n{}", different.len(), different.join("\n"));
}

#[test]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
fn lists_of_groups_and_resources_are_those_of_a_real_api_server() {
    let different = differences("listed.dev", |side| side.plain());
    assert!(different.is_empty(), "{} parts differ:\n{}", different.len(), different.join("\n"));
}
