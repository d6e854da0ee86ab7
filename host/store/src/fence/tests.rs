use std::sync::Arc;

use homeostat_fleet::LeaseName;

use super::{Fence, KnownTerms, LEASES_MAX};
use crate::embedded::EmbeddedStore;
use crate::memory::MemoryStore;
use crate::{Error, Options, Request, Store, Write};

fn fence(controller: &str, shard: u32, epoch: u64) -> Fence {
    Fence { lease: LeaseName::new(controller, shard, 2).unwrap(), epoch }
}

fn creation(name: &str, fence: Option<Fence>) -> Request {
    let document = serde_json::json!({ "apiVersion": "v1", "kind": "Thing", "metadata": { "name": name } });
    Request { fence, ..Write::Create { document }.into() }
}

#[tokio::test]
async fn a_store_of_one_host_refuses_the_write_of_an_earlier_term() {
    let folder = tempfile::tempdir().unwrap();
    let embedded = EmbeddedStore::open(folder.path().join("store"), Options::default()).unwrap();
    let stores: [Arc<dyn Store>; 2] = [Arc::new(MemoryStore::new(Options::default())), Arc::new(embedded)];
    for store in stores {
        store.submit(creation("first", Some(fence("a", 0, 7)))).await.unwrap();
        store.submit(creation("later", Some(fence("a", 0, 9)))).await.unwrap();
        let refused = store.submit(creation("old", Some(fence("a", 0, 7)))).await;
        assert_eq!(refused, Err(Error::Fenced { lease: "a/0-of-2".to_owned(), epoch: 7 }));
        store.submit(creation("other", Some(fence("a", 1, 7)))).await.unwrap();
        store.submit(creation("none", None)).await.unwrap();
        store.close().await;
    }
}

#[test]
fn terms_of_more_leases_than_the_bound_are_not_compared() {
    let mut terms = KnownTerms::default();
    for controller in 0..LEASES_MAX {
        terms.check(Some(&fence(&controller.to_string(), 0, 2))).unwrap();
    }
    terms.check(Some(&fence("one more", 0, 2))).unwrap();
    terms.check(Some(&fence("one more", 0, 1))).unwrap();
    assert!(terms.check(Some(&fence("7", 0, 1))).is_err());
    assert_eq!(terms.0.len(), LEASES_MAX);
}
