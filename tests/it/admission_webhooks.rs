//! Admission webhooks beside a real kube-apiserver: the same configurations and the same requests go to both. Statuses,
//! documents, field owners, messages and warnings are compared, and what the webhooks are asked.

mod alone;
mod cases;
mod replies;
mod webhook;

use std::iter::once;

use homeostat_testing::eventually_blocking;
use homeostat_tests::{Answer, Request};
use serde_json::{Value, json};

use crate::comparison::{Pair, comparable, difference, full_meaning, owners};
use crate::review_server::ReviewServer;
use cases::{Case, Sent};

const CONFIGURATIONS: &str = "/apis/admissionregistration.k8s.io/v1";

/// The kind in two versions. `spec.color` is required, and `spec.watts` has a default.
fn definition() -> Value {
    let spec = json!({
        "type": "object", "required": ["color"],
        "properties": {
            "color": { "type": "string" }, "watts": { "type": "integer", "default": 5, "maximum": 100 },
        },
    });
    let status = json!({ "type": "object", "properties": { "lit": { "type": "boolean" } } });
    let properties = json!({ "spec": spec, "status": status });
    let version = |name: &str| {
        json!({
            "name": name, "served": true, "storage": name == "v1", "subresources": { "status": {} },
            "schema": { "openAPIV3Schema": { "type": "object", "required": ["spec"], "properties": properties } },
        })
    };
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "lamps.light.dev" },
        "spec": {
            "group": "light.dev", "scope": "Namespaced", "names": { "kind": "Lamp", "plural": "lamps" },
            "versions": [version("v1"), version("v1beta1")],
        },
    })
}

/// Returns the path of the lamps in the namespace of a case.
fn lamps(case: &str) -> String {
    format!("/apis/light.dev/v1/namespaces/{case}/lamps")
}

/// A host and a kube-apiserver, and a server of webhooks for both.
struct Lights {
    pair: Pair,
    server: ReviewServer,
}

impl Lights {
    fn start(server: ReviewServer) -> Self {
        let lights = Self { pair: Pair::start(), server };
        lights.makes("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition());
        let all = Request::get("/apis/light.dev/v1/lamps");
        let are_served = || lights.pair.send(&all).iter().all(|answer| answer.status == 200).then_some(());
        eventually_blocking("both serve the kind", are_served);
        lights
    }

    /// Creates a resource on both.
    fn makes(&self, path: &str, document: &Value) {
        let made = self.pair.ask("POST", path, document);
        assert_eq!(made.each_ref().map(|answer| answer.status), [201, 201], "{made:?}");
        assert!(made[1].warnings.is_empty(), "a webhook with a URL acts: {made:?}");
    }

    fn prepare(&self, case: &Case, name: &str) {
        let labels = json!({ "case": name, "dark": "yes" });
        self.makes("/api/v1/namespaces", &json!({ "metadata": { "name": name, "labels": labels } }));
        for (number, webhook) in case.webhooks.iter().enumerate() {
            let path = format!("{CONFIGURATIONS}/{}", webhook.plural());
            self.makes(&path, &webhook.configuration(&self.server, name, number));
        }
    }

    /// Waits until both call the webhooks of a case, which refuse. A kube-apiserver reads configurations through a watch.
    fn await_refusal(&self, case: &str) {
        let lamp = json!({
            "apiVersion": "light.dev/v1", "kind": "Lamp", "metadata": { "name": "probe" }, "spec": { "color": "red" },
        });
        let path = format!("{}?dryRun=All", lamps(case));
        let refuse = || self.pair.ask("POST", &path, &lamp).iter().all(|answer| answer.status == 403).then_some(());
        eventually_blocking("both know the configurations", refuse);
        self.server.take_reviews();
    }

    /// Sends a request to both, and returns the differences between answers and reviews; empty if they are alike.
    fn differences(&self, case: &str, sent: &Sent) -> String {
        let Sent { method, collection, path, content_type, body } = sent;
        let (path, body) = (collection.replace("CASE", case) + path, body.to_string().replace("CASE", case));
        let request = Request { method, content_type, body: body.as_bytes(), ..Request::get(&path) };
        let meaning = |answer: &Answer| {
            let text =
                json!({ "answer": full_meaning(answer, &OF_LIBRARIES), "reviews": asked(self.server.take_reviews()) });
            serde_json::to_string_pretty(&text).unwrap()
        };
        let theirs = meaning(&self.pair.send_there(&request));
        difference(&theirs, &meaning(&self.pair.send_here(&request)))
    }
}

/// After these words, messages are those of Go's libraries.
const OF_LIBRARIES: [&str; 3] = [
    "failed to call webhook:",
    "received undecodable patch in webhook response:",
    "Internal error occurred: error in ",
];

/// Returns the requests of reviews in a fixed order, without what differs between two servers.
fn asked(reviews: Vec<Value>) -> Vec<Value> {
    let mut all: Vec<Value> = reviews.into_iter().map(|review| review_without_identity(&review)).collect();
    all.sort_by_key(Value::to_string);
    all
}

fn review_without_identity(review: &Value) -> Value {
    let mut request = review["request"].clone();
    for field in ["object", "oldObject"] {
        let (owners, metadata) = (owners(&request[field]), request[field]["metadata"].clone());
        let object = comparable(request[field].take());
        let present = ["uid", "creationTimestamp", "resourceVersion", "deletionTimestamp", "selfLink"];
        let present: Vec<&str> = present.into_iter().filter(|name| !metadata[*name].is_null()).collect();
        request[field] = json!({ "document": object, "owners": owners, "present": present });
    }
    let fields = request.as_object_mut().unwrap();
    for field in ["uid", "userInfo", "options"] {
        assert!(fields.remove(field).is_some_and(|value| !value.is_null()), "{field}: {review}");
    }
    json!({ "apiVersion": review["apiVersion"], "kind": review["kind"], "request": request })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
async fn admission_webhooks_act_as_in_a_real_api_server() {
    let server = ReviewServer::start(replies::reply).await;
    let lights = tokio::task::block_in_place(|| compared(Lights::start(server)));
    // Kubernetes leaves the names out of these requests.
    let deleted = tokio::task::block_in_place(|| lights.pair.ask("DELETE", &lamps("light-0"), &json!({})));
    let reviews = lights.server.take_reviews().len();
    let deleted = deleted.map(|answer| answer.status);
    assert_eq!((deleted, reviews), ([200, 200], 8), "two webhooks, two lamps, two servers");
}

/// Compares all cases.
fn compared(lights: Lights) -> Lights {
    let cases = once(cases::writes()).chain(cases::replies()).chain(cases::matches());
    let cases: Vec<Case> =
        cases.chain(cases::policies()).chain(cases::orders()).chain(cases::parts()).chain(cases::probes()).collect();
    for (number, case) in cases.iter().enumerate() {
        lights.prepare(case, &format!("light-{number}"));
    }
    (cases.len() - 2..cases.len()).for_each(|number| lights.await_refusal(&format!("light-{number}")));
    let mut differences = Vec::new();
    for (number, case) in cases.iter().enumerate() {
        for (at, sent) in case.requests.iter().enumerate() {
            let found = lights.differences(&format!("light-{number}"), sent);
            if !found.is_empty() {
                differences.push(format!("{}, request {at}:\n{found}", case.what));
            }
        }
    }
    assert!(differences.is_empty(), "{} differences\n{}", differences.len(), differences.join("\n"));
    lights
}
