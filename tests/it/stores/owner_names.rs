//! Dependents whose owner only the names of Kumori tell, in a host with two stores.

use homeostat_fixtures::{demo_kind, memory_store};
use homeostat_runtime::Options;
use homeostat_store::Key;
use homeostat_testing::eventually;
use homeostat_tests::{TestHost, guest, routed_stores};
use serde_json::{Value, json};

/// A resource that names its owner as Kumori does.
fn quota(name: &str, owner_kind: &str) -> Value {
    let annotations = json!({"kumori/ownerkind": owner_kind, "kumori/ownerkey": "blue"});
    json!({
        "apiVersion": "demo.homeostat.dev/v1", "kind": "Quota", "spec": {"pods": 1},
        "metadata": {"name": name, "namespace": "blue-test", "annotations": annotations},
    })
}

/// S15: The guest of the example `tenants` maps each Quota to its owner. The registry of kinds resolves the name
/// of the owner's kind, and the Tenant lives in another store than the Quotas.
#[tokio::test(flavor = "multi_thread")]
async fn a_dependent_with_the_names_of_kumori_requeues_its_owner() {
    let home = memory_store();
    let stores = routed_stores(home.clone(), memory_store(), &["demo.homeostat.dev/Tenant"]);
    let test = TestHost::with(home, |options| Options { stores, ..options }).await;
    test.add("tenants", &guest("tenants")).await;
    // The guest makes no Quota for a Tenant without namespaces, and finds none by the uid of the Tenant.
    test.apply(json!({
        "apiVersion": "demo.homeostat.dev/v1", "kind": "Tenant", "metadata": {"name": "blue"},
        "spec": {"namespaces": [], "pods": 1},
    }))
    .await;
    let tenant = Key::new(demo_kind("Tenant"), "", "blue");
    test.until(&tenant, "is reconciled", |tenant| tenant["status"]["quotas"] == 0).await;
    let before = test.idle("tenants").await.reconciles;
    test.apply(quota("stranger", "nobody")).await;
    assert_eq!(test.idle("tenants").await.reconciles, before, "no kind has this name");
    for (name, owner_kind) in [("by-plural", "tenants"), ("by-singular", "tenant"), ("by-kind", "Tenant")] {
        let before = test.idle("tenants").await.reconciles;
        test.apply(quota(name, owner_kind)).await;
        let requeued = async || (test.status("tenants").reconciles > before).then_some(());
        eventually(&format!("{owner_kind} to lead to the owner"), requeued).await;
    }
}
