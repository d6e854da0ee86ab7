//! Lists: order, selectors, and pages of one revision.

use homeostat_store::{Error, Kind, LabelRequirement, Page, Query, Selector, Store, Write};
use serde_json::json;

use crate::{Make, create, delete, key, kind, on_every_store, small_history, thing, update, with_metadata};

on_every_store!(
    a_list_is_in_the_order_of_namespace_and_name,
    a_list_ignores_the_version_and_leaves_other_kinds_out,
    selectors_pick_by_namespace_label_field_and_owner,
    pages_together_are_the_list,
    a_page_with_a_limit_ends_where_its_documents_come_to_four_mebibytes,
    all_pages_show_the_moment_of_the_first_one,
    a_page_after_history_was_cut_is_expired,
    a_wrong_limit_selector_or_token_is_invalid,
    kinds_are_those_of_which_resources_exist,
    dependents_are_found_across_kinds_and_follow_changes,
);

fn names(page: &Page) -> Vec<String> {
    page.items.iter().map(|item| format!("{}/{}", item.key().namespace(), item.key().name())).collect()
}

async fn fill(store: &dyn Store, count: usize) {
    for number in 0..count {
        create(store, thing(&format!("n{number:03}"), json!({"number": number}))).await;
    }
}

async fn pages(store: &dyn Store, mut query: Query) -> Vec<Page> {
    let mut pages = Vec::new();
    loop {
        let page = store.list(&query).await.unwrap();
        query.from = page.next.clone();
        pages.push(page);
        if query.from.is_none() {
            return pages;
        }
    }
}

/// S12: selectors, limits and tokens select exactly the matching resources.
async fn a_list_is_in_the_order_of_namespace_and_name(make: Make) {
    let store = make(Default::default());
    for (namespace, name) in [("b", "a"), ("a", "b-c"), ("a-b", "a"), ("a", "b.c"), ("", "z"), ("a", "b"), ("a", "b0")]
    {
        create(&**store, with_metadata(thing(name, json!({})), json!({"namespace": namespace}))).await;
    }
    let page = store.list(&Query::all(kind("Thing"))).await.unwrap();
    assert_eq!(names(&page), ["/z", "a/b", "a/b-c", "a/b.c", "a/b0", "a-b/a", "b/a"]);
    assert_eq!(page.revision, store.revision());
    assert_eq!(page.next, None);
}

async fn a_list_ignores_the_version_and_leaves_other_kinds_out(make: Make) {
    let store = make(Default::default());
    for (api_version, kind) in
        [("example.dev/v2", "Thing"), ("example.dev/v1", "Thingy"), ("v1", "Thing"), ("example.de/v1", "Thing")]
    {
        let mut document = thing("a", json!({}));
        document["apiVersion"] = json!(api_version);
        document["kind"] = json!(kind);
        create(&**store, document).await;
    }
    let page = store.list(&Query::all(kind("Thing"))).await.unwrap();
    assert_eq!(page.items.len(), 1);
    assert_eq!(page.items[0].key().kind(), &Kind::new("example.dev", "v2", "Thing"));
    assert_eq!(store.get(&key("a")).await.unwrap(), page.items[0]);
}

/// S12: selectors, limits and tokens select exactly the matching resources.
async fn selectors_pick_by_namespace_label_field_and_owner(make: Make) {
    let store = make(Default::default());
    let owner = json!([{"apiVersion": "v1", "kind": "Owner", "name": "o", "uid": "owner-1"}]);
    create(&**store, with_metadata(thing("a", json!({"node": "x"})), json!({"labels": {"app": "web"}}))).await;
    create(&**store, with_metadata(thing("b", json!({"node": "y"})), json!({"ownerReferences": owner}))).await;
    create(
        &**store,
        with_metadata(thing("c", json!({"node": "x"})), json!({"namespace": "other", "labels": {"app": "db"}})),
    )
    .await;
    let pick = async |selector: Selector| {
        let page = store.list(&Query { selector, ..Query::all(kind("Thing")) }).await.unwrap();
        names(&page).join(" ")
    };
    let labels = |text: &str| Selector { labels: Selector::parse_labels(text).unwrap(), ..Selector::default() };
    assert_eq!(pick(Selector { namespace: Some("other".into()), ..Selector::default() }).await, "other/c");
    assert_eq!(pick(Selector { namespace: Some("oth".into()), ..Selector::default() }).await, "");
    assert_eq!(pick(labels("app=web")).await, "default/a");
    assert_eq!(pick(labels("app!=web")).await, "default/b other/c");
    assert_eq!(pick(labels("app in (web,db)")).await, "default/a other/c");
    assert_eq!(pick(labels("app notin (web),!other")).await, "default/b other/c");
    assert_eq!(pick(labels("app")).await, "default/a other/c");
    assert_eq!(pick(labels("!app")).await, "default/b");
    let field = Selector { fields: vec![("/spec/node".into(), "x".into())], ..Selector::default() };
    assert_eq!(pick(field.clone()).await, "default/a other/c");
    assert_eq!(pick(Selector { namespace: Some("default".into()), ..field }).await, "default/a");
    assert_eq!(pick(Selector { owner: Some("owner-1".into()), ..Selector::default() }).await, "default/b");
    assert_eq!(pick(Selector { owner: Some("owner-2".into()), ..Selector::default() }).await, "");
}

/// S7, S12: a list with all its pages is one snapshot; selectors, limits and tokens select exactly the
/// matching resources.
async fn pages_together_are_the_list(make: Make) {
    let store = make(Default::default());
    fill(&**store, 25).await;
    let whole = store.list(&Query::all(kind("Thing"))).await.unwrap();
    for limit in [1, 7, 24, 25, 26] {
        let pages = pages(&**store, Query { limit: Some(limit), ..Query::all(kind("Thing")) }).await;
        assert!(pages.iter().all(|page| page.items.len() <= limit));
        let items: Vec<_> = pages.into_iter().flat_map(|page| page.items).collect();
        assert_eq!(items, whole.items, "{limit}");
    }
    let selector = Selector { fields: vec![("/metadata/name".into(), "n013".into())], ..Selector::default() };
    let found = store.list(&Query { limit: Some(1), selector, ..Query::all(kind("Thing")) }).await.unwrap();
    assert_eq!((found.items.len(), found.next), (1, None));
}

/// S12: selectors, limits and tokens select exactly the matching resources.
async fn a_page_with_a_limit_ends_where_its_documents_come_to_four_mebibytes(make: Make) {
    let store = make(Default::default());
    for number in 0..12 {
        create(&**store, thing(&format!("n{number:02}"), json!("x".repeat(700_000)))).await;
    }
    let whole = store.list(&Query::all(kind("Thing"))).await.unwrap();
    assert_eq!((whole.items.len(), &whole.next), (12, &None));
    let pages = pages(&**store, Query { limit: Some(500), ..Query::all(kind("Thing")) }).await;
    assert_eq!(pages.iter().map(|page| page.items.len()).collect::<Vec<_>>(), [5, 5, 2]);
    let bytes = |page: &Page| page.items.iter().map(|item| item.document().to_string().len() as u64).sum::<u64>();
    assert!(pages.iter().all(|page| bytes(page) <= homeostat_store::PAGE_BYTES_MAX));
    assert!(pages.iter().all(|page| page.revision == whole.revision));
    assert_eq!(pages.into_iter().flat_map(|page| page.items).collect::<Vec<_>>(), whole.items);
}

/// S7: a list with all its pages is one snapshot.
async fn all_pages_show_the_moment_of_the_first_one(make: Make) {
    let store = make(Default::default());
    let owners = json!([{"apiVersion": "v1", "kind": "Owner", "name": "o", "uid": "owner-1"}]);
    for number in 0..12 {
        let document = thing(&format!("n{number:02}"), json!({}));
        create(&**store, with_metadata(document, json!({"ownerReferences": owners}))).await;
    }
    let by_owner = Selector { owner: Some("owner-1".into()), ..Selector::default() };
    for selector in [Selector::default(), by_owner] {
        let whole = store.list(&Query { selector: selector.clone(), ..Query::all(kind("Thing")) }).await.unwrap();
        let mut query = Query { limit: Some(5), selector, ..Query::all(kind("Thing")) };
        let first = store.list(&query).await.unwrap();
        query.from = first.next.clone();
        // Before the page, on it and after it: changed, deleted, recreated, new, and no longer selected.
        update(&**store, thing("n01", json!({"changed": true}))).await.unwrap();
        update(&**store, thing("n06", json!({"changed": true}))).await.unwrap();
        for gone in ["n05", "n11"] {
            delete(&**store, key(gone), Default::default()).await.unwrap();
        }
        create(&**store, with_metadata(thing("n05", json!({"again": true})), json!({"ownerReferences": owners}))).await;
        create(&**store, with_metadata(thing("n07b", json!({})), json!({"ownerReferences": owners}))).await;
        let rest = pages(&**store, query).await;
        assert!(rest.iter().all(|page| page.revision == whole.revision));
        let items: Vec<_> = first.items.into_iter().chain(rest.into_iter().flat_map(|page| page.items)).collect();
        assert_eq!(items, whole.items);
        // Back to the start, for the next selector.
        delete(&**store, key("n07b"), Default::default()).await.unwrap();
        for name in ["n01", "n05", "n06", "n11"] {
            let document = with_metadata(thing(name, json!({})), json!({"ownerReferences": owners}));
            store.write(Write::Apply { document, manager: "test".into(), force: false }).await.unwrap();
        }
    }
}

/// S7: a list with all its pages is one snapshot.
async fn a_page_after_history_was_cut_is_expired(make: Make) {
    let store = make(small_history(5));
    fill(&**store, 3).await;
    let mut query = Query { limit: Some(1), ..Query::all(kind("Thing")) };
    query.from = store.list(&query).await.unwrap().next;
    for size in 0..5 {
        update(&**store, thing("n000", json!({"size": size}))).await.unwrap();
    }
    assert_eq!(names(&store.list(&query).await.unwrap()), ["default/n001"]);
    update(&**store, thing("n000", json!({}))).await.unwrap();
    let expired = store.list(&query).await;
    assert!(matches!(expired, Err(Error::Expired { .. })), "{expired:?}");
}

/// S12: selectors, limits and tokens select exactly the matching resources.
async fn a_wrong_limit_selector_or_token_is_invalid(make: Make) {
    let store = make(Default::default());
    fill(&**store, 3).await;
    let all = Query::all(kind("Thing"));
    let bad_label = Selector { labels: vec![LabelRequirement::Exists("a b".into())], ..Selector::default() };
    let bad_field = Selector { fields: vec![("spec".into(), "x".into())], ..Selector::default() };
    let next = store.list(&Query { limit: Some(1), ..all.clone() }).await.unwrap().next;
    for query in [
        Query { limit: Some(0), ..all.clone() },
        Query { selector: bad_label, ..all.clone() },
        Query { selector: bad_field, ..all.clone() },
        Query { from: Some(String::new()), ..all.clone() },
        Query { from: Some("1.what.0".into()), ..all.clone() },
        Query { from: Some("1.é.é".into()), ..all.clone() },
        Query { from: next.clone(), ..Query::all(kind("Other")) },
    ] {
        let refused = store.list(&query).await;
        assert!(matches!(refused, Err(Error::Invalid { .. })), "{query:?}: {refused:?}");
    }
    let elsewhere = make(Default::default());
    let refused = elsewhere.list(&Query { from: next, ..all }).await;
    assert!(matches!(refused, Err(Error::Expired { .. })), "{refused:?}");
}

async fn kinds_are_those_of_which_resources_exist(make: Make) {
    let store = make(Default::default());
    assert_eq!(store.kinds().await.unwrap(), []);
    for (api_version, kind) in [("v1", "Pod"), ("apps/v1", "Deployment"), ("apps/v1", "ReplicaSet"), ("v1", "Node")] {
        for name in ["a", "b"] {
            let document = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}});
            create(&**store, document).await;
        }
    }
    let told = async || store.kinds().await.unwrap().iter().map(Kind::to_string).collect::<Vec<_>>();
    assert_eq!(told().await, ["v1/Node", "v1/Pod", "apps/v1/Deployment", "apps/v1/ReplicaSet"]);
    for name in ["a", "b"] {
        delete(
            &**store,
            homeostat_store::Key::new(Kind::new("apps", "v1", "Deployment"), "", name),
            Default::default(),
        )
        .await
        .unwrap();
    }
    assert_eq!(told().await, ["v1/Node", "v1/Pod", "apps/v1/ReplicaSet"]);
}

async fn dependents_are_found_across_kinds_and_follow_changes(make: Make) {
    let store = make(Default::default());
    let owner = |uid: &str| json!({"apiVersion": "v1", "kind": "Owner", "name": "o", "uid": uid});
    let names = async |uid: &str| {
        let found = store.dependents(uid).await.unwrap();
        found
            .iter()
            .map(|item| format!("{}/{}", item.key().kind().name, item.key().name()))
            .collect::<Vec<_>>()
            .join(" ")
    };
    create(&**store, with_metadata(thing("a", json!({})), json!({"ownerReferences": [owner("u1"), owner("u2")]})))
        .await;
    let mut other = with_metadata(thing("b", json!({})), json!({"ownerReferences": [owner("u1")]}));
    other["kind"] = json!("Other");
    create(&**store, other).await;
    assert_eq!(names("u1").await, "Other/b Thing/a");
    assert_eq!(names("u2").await, "Thing/a");
    assert_eq!(names("u").await, "");
    update(&**store, with_metadata(thing("a", json!({})), json!({"ownerReferences": [owner("u2")]}))).await.unwrap();
    assert_eq!(names("u1").await, "Other/b");
    delete(&**store, key("a"), Default::default()).await.unwrap();
    assert_eq!(names("u2").await, "");
}
