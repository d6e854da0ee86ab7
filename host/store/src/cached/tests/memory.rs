//! The memory that a cached resource takes.

use std::sync::Arc;

use homeostat_testing::{grows_by_at_most, measured};
use serde_json::{Value, json};

use crate::cached::Options;
use crate::cached::budget::Budget;
use crate::cached::kind::CachedKind;
use crate::cached::read_watermark::ReadWatermark;
use crate::cached::upstream::Start;
use crate::model::Path;
use crate::{Kind, Resource, Revision, SystemClockAndIds, View};

const RESOURCES: u64 = 10_000;
/// Bytes that a cached Deployment of 1.9 KiB may take, with its key, its places in the indexes and the slack of the
/// allocator. Its text alone takes more.
const BYTES_MAX: u64 = 1_500;

/// Returns a Deployment as a cluster serves it.
fn deployment(number: u64) -> Value {
    let name = format!("web-{number}");
    let labels = json!({ "app": name, "app.kubernetes.io/managed-by": "homeostat", "tier": number % 7 });
    let fields = json!({
        "f:metadata": { "f:labels": { "f:app": {}, "f:app.kubernetes.io/managed-by": {}, "f:tier": {} } },
        "f:spec": { "f:replicas": {}, "f:selector": {}, "f:template": { "f:spec": { "f:containers": {
            "k:{\"name\":\"web\"}": { ".": {}, "f:image": {}, "f:name": {}, "f:resources": {} } } } } },
    });
    let manager = |manager: &str, operation: &str| {
        json!({
            "manager": manager, "operation": operation, "apiVersion": "apps/v1", "time": "2026-11-22T10:00:00Z",
            "fieldsType": "FieldsV1", "fieldsV1": fields,
        })
    };
    let uid = format!("{:08x}-5c1e-4f4e-9d53-{:012x}", number.wrapping_mul(2_654_435_761) % (1 << 32), number * 7_919);
    let container = json!({
        "name": "web", "image": format!("registry.example/web:{number}"), "imagePullPolicy": "IfNotPresent",
        "resources": { "limits": { "cpu": "100m", "memory": "64Mi" } }, "terminationMessagePath": "/dev/termination-log",
    });
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {
            "name": name, "namespace": "default", "uid": uid, "resourceVersion": (number + 1).to_string(),
            "generation": 1, "creationTimestamp": "2026-11-22T10:00:00Z", "labels": labels,
            "managedFields": [manager("homeostat/web", "Apply"), manager("kube-controller-manager", "Update")],
        },
        "spec": {
            "replicas": number % 9, "selector": { "matchLabels": { "app": name } },
            "template": { "metadata": { "labels": { "app": name } }, "spec": { "containers": [container] } },
        },
        "status": { "observedGeneration": 1, "replicas": number % 9, "readyReplicas": number % 9 },
    })
}

/// Returns an empty cache of Deployments.
fn empty_cache() -> Arc<CachedKind> {
    let (kind, options) = (Kind::new("apps", "v1", "Deployment"), Options::default());
    let (clock, budget) = (Arc::new(SystemClockAndIds), Budget::new(options.bytes_max));
    CachedKind::new((kind, View::Whole), clock, options.bounds(), budget, ReadWatermark::default())
}

/// Lists these Deployments, as of a revision.
fn list(cached: &CachedKind, numbers: impl Iterator<Item = u64>, at: u64) {
    let mut list = cached.begin_list(Start::Now { not_before: None });
    for number in numbers {
        let resource = Resource::from_document(deployment(number)).expect("it is a resource");
        cached.add_listed(&mut list, &resource).expect("the budget is large");
    }
    cached.end_list(list, Revision(at)).expect("it is not older than the list before");
}

#[test]
fn a_resource_that_changes_or_is_listed_again_shares_the_key_of_its_state_before() {
    let cached = empty_cache();
    let cached_name = |resource: &Resource| {
        let contents = cached.lock().synced.clone().expect("it was listed").contents;
        let contents = contents.lock().expect("it is open");
        let stored = contents.stored(&Path::of(resource.key())).expect("it was listed");
        (stored.revision(), stored.key().name().as_ptr())
    };
    list(&cached, 0..2, 2);
    let first = Resource::from_document(deployment(0)).expect("it is a resource");
    let (_, name) = cached_name(&first);
    let changed = |revision: u64| {
        let mut document = deployment(0);
        document["metadata"]["resourceVersion"] = revision.to_string().into();
        Resource::from_document(document).expect("it is a resource")
    };
    cached.apply_put(&changed(3)).expect("the budget is large");
    assert_eq!(cached_name(&first), (Revision(3), name), "it changed");
    let mut again = cached.begin_list(Start::Now { not_before: None });
    cached.add_listed(&mut again, &changed(4)).expect("the budget is large");
    cached.end_list(again, Revision(4)).expect("it is newer");
    assert_eq!(cached_name(&first), (Revision(4), name), "it was listed again");
}

#[test]
fn a_further_list_takes_no_further_text_to_compress_with() {
    let cached = empty_cache();
    let dictionary = || cached.lock().dictionary.clone().expect("a resource was listed").as_ptr();
    list(&cached, 0..2, 2);
    let first = dictionary();
    list(&cached, 5..7, 7);
    assert_eq!(dictionary(), first);
}

measured! {
    fn a_cached_resource_takes_less_memory_than_its_text measure_cached_resources {
        let length = deployment(RESOURCES).to_string().len() as u64;
        assert!((BYTES_MAX..2_100).contains(&length), "{length}");
        grows_by_at_most(RESOURCES * BYTES_MAX, || {
            let cached = empty_cache();
            list(&cached, 0..RESOURCES, RESOURCES);
            cached
        });
    }
}
