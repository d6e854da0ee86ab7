//! Deletion of whole collections.

use std::collections::BTreeSet;

use homeostat_store::{Query, Write};

use super::*;

/// Fills a store. Every hundredth resource has a finalizer.
async fn fill(server: &Server, count: usize) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for at in 0..count {
        let name = format!("web-{at:05}");
        let mut document = deployment(&name, if at % 2 == 0 { "even" } else { "odd" }, 1);
        document["metadata"]["namespace"] = "default".into();
        if at % 100 == 0 {
            document["metadata"]["finalizers"] = json!(["a.example/waits"]);
        }
        server.host.store().write(Write::Create { document }).await.unwrap();
        names.insert(name);
    }
    names
}

fn item_names(list: &Value) -> Vec<String> {
    let items = list["items"].as_array().unwrap();
    items.iter().map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

/// Returns how many resources there are, and how many of them are being deleted.
async fn left(server: &Server) -> (usize, usize) {
    let page = server.host.store().list(&Query::all(Kind::new("apps", "v1", "Deployment"))).await.unwrap();
    let is_deleting = |resource: &&std::sync::Arc<homeostat_store::Resource>| {
        resource.document().pointer("/metadata/deletionTimestamp").is_some()
    };
    (page.items.len(), page.items.iter().filter(is_deleting).count())
}

#[tokio::test]
async fn a_large_collection_is_deleted_and_each_resource_reported_once() {
    let server = Server::start().await;
    let names = fill(&server, 1200).await;
    let tried = server.ask("DELETE", &format!("{DEPLOYMENTS}?dryRun=All"), &Value::Null).await;
    assert_eq!((tried.code, item_names(&tried.body).len()), (200, 1200));
    assert_eq!(left(&server).await, (1200, 0));
    let deleted = server.ask("DELETE", DEPLOYMENTS, &Value::Null).await;
    assert_eq!((deleted.code, &deleted.body["kind"]), (200, &json!("DeploymentList")));
    assert_eq!(item_names(&deleted.body), names.into_iter().collect::<Vec<_>>());
    assert_eq!(left(&server).await, (12, 12), "those with a finalizer wait for it");
}

#[tokio::test]
async fn a_deletion_goes_on_though_it_cuts_the_history_of_its_own_list() {
    let server = Server::over(StoreOptions { history_max: 100, ..StoreOptions::default() }, Options::default()).await;
    let names = fill(&server, 1700).await;
    let deleted = server.ask("DELETE", DEPLOYMENTS, &Value::Null).await;
    assert_eq!(deleted.code, 200);
    assert_eq!(item_names(&deleted.body), names.into_iter().collect::<Vec<_>>());
    assert_eq!(left(&server).await, (17, 17));
}

#[tokio::test]
async fn collection_delete_respects_selector_and_limit() {
    let server = Server::start().await;
    fill(&server, 10).await;
    let some = server.ask("DELETE", &format!("{DEPLOYMENTS}?labelSelector=app%3Dodd&limit=2"), &Value::Null).await;
    assert_eq!(item_names(&some.body), ["web-00001", "web-00003"]);
    assert_ne!(some.body["metadata"]["continue"], "");
    let rest = server.ask("DELETE", &format!("{DEPLOYMENTS}?labelSelector=app%3Dodd"), &Value::Null).await;
    assert_eq!(item_names(&rest.body), ["web-00005", "web-00007", "web-00009"]);
    assert_eq!(left(&server).await, (5, 0));
}
