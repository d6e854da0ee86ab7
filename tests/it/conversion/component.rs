//! Conversion by the component of a controller.

use std::collections::BTreeMap;

use homeostat_component::Limits;
use homeostat_runtime::Definition;
use homeostat_tests::{TestHost, guest};
use serde_json::{Value, json};

use super::{BETA, V1, define, definition, reads_and_writes_in_every_version, site, sites_of, stored, stored_versions};

/// Returns a definition with this storage version, whose documents a controller converts.
fn converted_by(controller: &str, version: &str) -> Value {
    let webhook = json!({ "url": "https://127.0.0.1:1/convert" });
    let webhook = json!({ "conversionReviewVersions": ["v1"], "clientConfig": webhook });
    let mut definition = definition(version, &json!({ "strategy": "Webhook", "webhook": webhook }));
    definition["metadata"]["annotations"] = json!({ "homeostat.dev/converter": controller });
    definition
}

/// Starts a host with the controller.
async fn host() -> TestHost {
    let test = TestHost::start().await;
    let limits = Limits { cpu: std::time::Duration::from_secs(1), result_bytes_max: 1 << 20, ..Limits::default() };
    let config = BTreeMap::from([("secret".to_owned(), "s".to_owned())]);
    let definition = test.definition("sites", &guest("guest-converter")).await;
    test.apply(converted_by("sites", "v1")).await;
    test.host.put(Definition { limits, config, ..definition }).await.unwrap();
    test
}

#[tokio::test]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
async fn kubectl_reads_and_writes_a_kind_in_every_version_by_a_component() {
    let cluster = sites_of(host().await, &converted_by("sites", "v1")).await;
    reads_and_writes_in_every_version(&cluster).await;
}

#[tokio::test]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
async fn a_component_that_misbehaves_fails_only_the_requests_that_need_it() {
    let cluster = sites_of(host().await, &converted_by("sites", "v1")).await;
    for (attack, reason) in [
        ("trap", "failed: trap: "),
        ("loop", "failed: limit cpu: "),
        ("failure", "failed: it says \"no port is left\""),
        ("read", "convert may not use "),
        ("config", "secret"),
        ("flood", "failed: limit result: "),
        ("name", "must have the same name: web != x"),
    ] {
        cluster.done(&["annotate", V1, "web", "--overwrite", &format!("attack={attack}")]).await;
        let said = cluster.refused(&["get", BETA, "web"]).await;
        assert!(said.contains("conversion by the controller \"sites\" for example.com/v1, Kind=Site"), "{said}");
        assert!(said.contains(reason), "{attack}: {said}");
        cluster.refused(&["get", BETA]).await;
        assert_eq!(cluster.json(&["get", V1]).await["items"][0]["spec"]["address"], "a:1");
    }
    cluster.done(&["annotate", V1, "web", "attack-"]).await;
    assert_eq!(cluster.json(&["get", BETA, "web"]).await["spec"], json!({ "host": "a", "port": 1 }));

    cluster.test.host.remove("sites").await.unwrap();
    let away = cluster.refused(&["get", BETA, "web"]).await;
    assert!(away.contains("failed: this host does not run it"), "{away}");
    cluster.test.add("noop", &guest("guest-noop")).await;
    define(&cluster, &converted_by("noop", "v1")).await;
    let without = cluster.refused(&["get", BETA, "web"]).await;
    assert!(without.contains("no export homeostat:reconciler/converter"), "{without}");
}

#[tokio::test]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
async fn a_component_converts_many_resources_and_rewrites_them_in_a_new_storage_version() {
    let cluster = sites_of(host().await, &converted_by("sites", "v1")).await;
    for number in 0..200 {
        let mut site = site("v1", &json!({ "address": format!("a:{}", number + 1) }));
        site["metadata"]["name"] = format!("site-{number:03}").into();
        cluster.test.apply(site).await;
    }
    let ports = |list: &Value| {
        let items = list["items"].as_array().unwrap().iter();
        items.filter_map(|item| item["spec"]["port"].as_u64()).sum::<u64>()
    };
    let list = cluster.json(&["get", BETA]).await;
    assert_eq!((list["items"].as_array().unwrap().len(), ports(&list)), (201, 200 * 201 / 2 + 1));
    define(&cluster, &converted_by("sites", "v1beta1")).await;
    stored_versions(&cluster, json!(["v1beta1"])).await;
    assert_eq!(stored(&cluster).await["spec"], json!({ "host": "a", "port": 1 }));
    assert_eq!(cluster.json(&["get", V1, "site-199"]).await["spec"], json!({ "address": "a:200" }));
}
