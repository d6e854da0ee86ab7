use std::time::Duration;

use homeostat_store::memory::MemoryStore;
use homeostat_store::{Key, Kind, Options, Precondition, Propagation, Write};
use http_body_util::BodyExt;

use super::*;
use crate::Metrics;
use crate::metrics::LimitKind;
use crate::negotiate::ResponseFormat;
use crate::presentation::Presentation;

fn maps() -> Query {
    Query::all(Kind::new("", "v1", "ConfigMap"))
}

async fn begin(store: &Arc<dyn Store>, query: Query) -> (PagedList, PageItems) {
    let lists = Limiter::new(LimitKind::Lists, 1, Duration::ZERO, Metrics::default());
    PagedList::open((&lists, &Client::Unknown), store.clone(), query).await.unwrap()
}

fn encoder() -> ResourceEncoder {
    encoder_of(ResponseFormat::Document)
}

fn encoder_of(format: ResponseFormat) -> ResourceEncoder {
    let kind = Kind::new("", "v1", "ConfigMap");
    ResourceEncoder { format, presentation: Presentation::Plain, kind, is_typed: false }
}

/// A store with config maps of about a kilobyte.
async fn store(count: usize) -> Arc<dyn Store> {
    let store = MemoryStore::new(Options::default());
    for at in 0..count {
        let metadata = json!({ "name": format!("map-{at:05}") });
        let document = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": { "text": "x".repeat(1000) } });
        store.write(Write::Create { document }).await.unwrap();
    }
    Arc::new(store)
}

#[tokio::test]
async fn a_list_without_a_limit_is_streamed_from_one_snapshot() {
    let store = store(2 * ITEMS_MAX + 1).await;
    let (list, first) = begin(&store, maps()).await;
    assert_eq!((first.len(), &list.metadata()["continue"]), (ITEMS_MAX, &Value::Null));
    let mut stream = ListStream::begin(encoder(), &list.metadata(), list, first);
    let mut text = stream.next().await.unwrap().unwrap().to_vec();
    // A change during the list is not in the list.
    delete(&store, 2 * ITEMS_MAX).await;
    while let Some(chunk) = stream.next().await.unwrap() {
        assert!(chunk.len() < CHUNK_BYTES + 4096, "{} bytes", chunk.len());
        assert!(stream.items.len() <= ITEMS_MAX);
        text.extend_from_slice(&chunk);
    }
    let list: Value = serde_json::from_slice(&text).unwrap();
    assert_eq!(list["metadata"], json!({ "resourceVersion": (2 * ITEMS_MAX + 1).to_string() }));
    let names: Vec<&str> =
        list["items"].as_array().unwrap().iter().map(|item| item["metadata"]["name"].as_str().unwrap()).collect();
    let expected: Vec<String> = (0..=2 * ITEMS_MAX).map(|at| format!("map-{at:05}")).collect();
    assert_eq!(names, expected);
}

/// Deletes one of the [config maps](store).
async fn delete(store: &Arc<dyn Store>, at: usize) {
    let write = Write::Delete {
        key: Key::new(maps().kind, "", &format!("map-{at:05}")),
        precondition: Precondition::default(),
        propagation: Propagation::Background,
        grace_seconds: None,
    };
    store.write(write).await.unwrap();
}

/// Returns the whole list in protobuf, made from one document.
async fn whole_in_protobuf(store: &Arc<dyn Store>) -> Vec<u8> {
    let page = store.list(&maps()).await.unwrap();
    let items: Vec<&Value> = page.items.iter().map(|item| item.document()).collect();
    let metadata = json!({ "resourceVersion": page.revision.to_string() });
    let list = json!({ "apiVersion": "v1", "kind": "ConfigMapList", "metadata": metadata, "items": items });
    homeostat_builtin::protobuf::encode(&list).unwrap()
}

#[tokio::test]
async fn a_list_of_several_pages_in_protobuf_shows_one_snapshot_and_has_its_size() {
    // The items of the first one are sent as a whole, and those of the second one are streamed.
    for count in [ITEMS_MAX + 1, 2 * ITEMS_MAX + 100] {
        let store = store(count).await;
        let expected = whole_in_protobuf(&store).await;
        let (list, first) = begin(&store, maps()).await;
        // Changes before the second reading and during it are not in the list.
        delete(&store, count - 1).await;
        let response = send_protobuf(encoder_of(ResponseFormat::Protobuf), list, first).await.unwrap();
        delete(&store, 0).await;
        delete(&store, count - 2).await;
        assert_eq!(response.headers()["content-type"], "application/vnd.kubernetes.protobuf");
        let size =
            response.headers().get("content-length").map(|size| size.to_str().unwrap().parse::<usize>().unwrap());
        let is_streamed = expected.len() > BUFFERED_BYTES_MAX;
        assert_eq!((is_streamed, size), (count > 2 * ITEMS_MAX, is_streamed.then_some(expected.len())));
        assert!(response.into_body().collect().await.unwrap().to_bytes() == expected);
    }
}

#[tokio::test]
async fn a_list_in_protobuf_breaks_off_when_its_revision_is_compacted() {
    let options = Options { history_max: 1, ..Options::default() };
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new(options));
    let create = async |name: String| {
        let data = json!({ "text": "x".repeat(4000) });
        let document = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name }, "data": data });
        store.write(Write::Create { document }).await.unwrap();
    };
    for at in 0..=ITEMS_MAX {
        create(format!("map-{at:05}")).await;
    }
    let (list, first) = begin(&store, maps()).await;
    let response = send_protobuf(encoder_of(ResponseFormat::Protobuf), list, first).await.unwrap();
    for at in 0..1000 {
        create(format!("late-{at}")).await;
    }
    assert!(response.into_body().collect().await.is_err());
}

#[tokio::test]
async fn a_list_with_a_limit_returns_one_page_and_a_token() {
    let store = store(3).await;
    let (mut list, first) = begin(&store, Query { limit: Some(2), ..maps() }).await;
    assert_eq!((first.len(), list.metadata()["continue"] == ""), (2, false));
    assert_eq!(list.next_page().await.unwrap(), None);
}

#[tokio::test]
async fn a_list_breaks_off_when_its_revision_is_compacted() {
    let options = Options { history_max: 1, ..Options::default() };
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new(options));
    let create = async |name: &str| {
        let document = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name } });
        store.write(Write::Create { document }).await.unwrap();
    };
    for at in 0..=ITEMS_MAX {
        create(&format!("map-{at:05}")).await;
    }
    let (list, first) = begin(&store, maps()).await;
    let mut stream = ListStream::begin(encoder(), &json!({}), list, first);
    for at in 0..1000 {
        create(&format!("late-{at}")).await;
    }
    let end = loop {
        match stream.next().await {
            Ok(Some(_)) => {}
            end => break end,
        }
    };
    assert!(matches!(end, Err(Error::Expired { .. })), "{end:?}");
}

#[tokio::test]
async fn the_refusal_of_an_expired_page_has_a_token_for_the_rest_in_the_present() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new(Options { history_max: 1, ..Options::default() }));
    let create = async |name: &str| {
        let document = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name } });
        store.write(Write::Create { document }).await.unwrap();
    };
    for name in ["a", "b", "c", "d", "e", "f"] {
        create(name).await;
    }
    let names = |items: &PageItems| items.iter().map(|item| item.key().name().to_owned()).collect::<Vec<_>>();
    let (list, first) = begin(&store, Query { limit: Some(2), ..maps() }).await;
    assert_eq!(names(&first), ["a", "b"]);
    let next = list.metadata()["continue"].as_str().map(str::to_owned);
    for at in 0..1000 {
        create(&format!("bb-{at}")).await;
    }
    let lists = Limiter::new(LimitKind::Lists, 9, Duration::ZERO, Metrics::default());
    let open = async |from: Option<String>| {
        let query = Query { limit: Some(1001), from, ..maps() };
        PagedList::open((&lists, &Client::Unknown), store.clone(), query).await
    };
    let refusal = open(next).await.err().unwrap().document();
    assert_eq!((&refusal["code"], &refusal["reason"]), (&json!(410), &json!("Expired")));
    let token = refusal["metadata"]["continue"].as_str().map(str::to_owned);
    let (list, rest) = open(token).await.unwrap();
    assert_eq!((rest.len(), names(&rest)[1000].as_str()), (1001, "c"));
    // Of the present, 1006 resources less the first two.
    assert_eq!(list.metadata()["remainingItemCount"], 3);
    let (list, rest) = open(list.metadata()["continue"].as_str().map(str::to_owned)).await.unwrap();
    assert_eq!((names(&rest), &list.metadata()["continue"]), (["d", "e", "f"].map(str::to_owned).into(), &Value::Null));
}
