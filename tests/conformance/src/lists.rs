//! Lists: order, selectors, and pages of one revision.

use std::time::Duration;

use homeostat_store::{
    Error, Key, Kind, LabelRequirement, Options, PAGE_BYTES_MAX, Page, Query, Revision, Selector, Store, Write,
};
use serde_json::json;

use crate::{Difference, Fixture, Make, create, delete, small_history, update, with_metadata};

fn names(page: &Page) -> Vec<String> {
    page.items.iter().map(|item| format!("{}/{}", item.key().namespace(), item.key().name())).collect()
}

async fn fill(store: &Fixture, count: usize) {
    for number in 0..count {
        create(&***store, store.thing(&format!("n{number:03}"), json!({"number": number}))).await;
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
pub(crate) async fn a_list_is_in_the_order_of_namespace_and_name(make: Make) {
    let store = make(Options::default()).await;
    let document = |namespace, name| with_metadata(store.thing(name, json!({})), json!({"namespace": namespace}));
    for (namespace, name) in [("b", "a"), ("a", "b-c"), ("a-b", "a"), ("a", "b.c"), ("a", "b"), ("a", "b0")] {
        create(&**store, document(namespace, name)).await;
    }
    let mut wanted = vec!["/z", "a/b", "a/b-c", "a/b.c", "a/b0", "a-b/a", "b/a"];
    let outside = store.write(Write::Create { document: document("", "z") }).await;
    if store.differs(Difference::DefinedKinds) {
        store.assert_invalid(&outside, "metadata.namespace");
        wanted.remove(0);
    } else {
        outside.unwrap();
    }
    let page = store.list(&Query::all(store.kind("Thing"))).await.unwrap();
    assert_eq!(names(&page), wanted);
    store.assert_newest(page.revision).await;
    assert_eq!(page.next, None);
}

pub(crate) async fn a_list_ignores_the_version_and_leaves_other_kinds_out(make: Make) {
    let store = make(Options::default()).await;
    store.add_kind("Thingy").await;
    let (v1, v2) = (store.api_version("v1"), store.api_version("v2"));
    let mut documents = vec![(&*v2, "Thing"), (&*v1, "Thingy")];
    if store.differs(Difference::DefinedKinds) {
        store.define("v2", [("v1", None), ("v2", None)]).await;
    } else {
        documents.extend([("v1", "Thing"), ("example.de/v1", "Thing")]);
    }
    for (api_version, kind) in documents {
        let mut document = store.thing("a", json!({}));
        document["apiVersion"] = json!(api_version);
        document["kind"] = json!(kind);
        create(&**store, document).await;
    }
    let page = store.list(&Query::all(store.kind("Thing"))).await.unwrap();
    assert_eq!(page.items.len(), 1);
    let version = if store.differs(Difference::DefinedKinds) { "v1" } else { "v2" };
    assert_eq!(page.items[0].key().kind(), &store.kind_in("Thing", version));
    assert_eq!(store.get(&store.key("a")).await.unwrap(), page.items[0]);
}

/// S12: selectors, limits and tokens select exactly the matching resources.
pub(crate) async fn selectors_pick_by_namespace_label_field_and_owner(make: Make) {
    let store = make(Options::default()).await;
    let owner = json!([{"apiVersion": "v1", "kind": "Owner", "name": "o", "uid": "owner-1"}]);
    create(&**store, with_metadata(store.thing("a", json!({"node": "x"})), json!({"labels": {"app": "web"}}))).await;
    create(&**store, with_metadata(store.thing("b", json!({"node": "y"})), json!({"ownerReferences": owner}))).await;
    create(
        &**store,
        with_metadata(store.thing("c", json!({"node": "x"})), json!({"namespace": "other", "labels": {"app": "db"}})),
    )
    .await;
    let pick = async |selector: Selector| {
        let page = store.list(&Query { selector, ..Query::all(store.kind("Thing")) }).await.unwrap();
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
pub(crate) async fn pages_together_are_the_list(make: Make) {
    let store = make(Options::default()).await;
    fill(&store, 25).await;
    let whole = store.list(&Query::all(store.kind("Thing"))).await.unwrap();
    for limit in [1, 7, 24, 25, 26] {
        let pages = pages(&**store, Query { limit: Some(limit), ..Query::all(store.kind("Thing")) }).await;
        assert!(pages.iter().all(|page| page.items.len() <= limit));
        let items: Vec<_> = pages.into_iter().flat_map(|page| page.items).collect();
        assert_eq!(items, whole.items, "{limit}");
    }
    let selector = Selector { fields: vec![("/metadata/name".into(), "n013".into())], ..Selector::default() };
    let found = store.list(&Query { limit: Some(1), selector, ..Query::all(store.kind("Thing")) }).await.unwrap();
    assert_eq!((found.items.len(), found.next), (1, None));
}

/// S12: selectors, limits and tokens select exactly the matching resources.
pub(crate) async fn a_counted_page_says_how_many_resources_remain(make: Make) {
    let store = make(Options::default()).await;
    fill(&store, 5).await;
    let query = Query { limit: Some(2), count: true, ..Query::all(store.kind("Thing")) };
    let pages = pages(&**store, query.clone()).await;
    let mut left = 5;
    for page in &pages {
        left -= page.items.len() as u64;
        let is_known = page.remaining.is_some() || left == 0 || store.differs(Difference::SeenLater);
        assert!(is_known && page.remaining.is_none_or(|remaining| remaining == left), "{left}: {page:?}");
    }
    let selector = Selector { unequal_fields: vec![("/metadata/name".into(), "x".into())], ..Selector::default() };
    let selected = store.list(&Query { selector, ..query.clone() }).await.unwrap();
    let uncounted = store.list(&Query { count: false, ..query }).await.unwrap();
    assert_eq!((selected.remaining, uncounted.remaining), (None, None));
}

/// S12: selectors, limits and tokens select exactly the matching resources.
pub(crate) async fn a_page_with_a_limit_ends_where_its_documents_come_to_four_mebibytes(make: Make) {
    let store = make(Options::default()).await;
    for number in 0..12 {
        create(&**store, store.thing(&format!("n{number:02}"), json!("x".repeat(700_000)))).await;
    }
    let whole = store.list(&Query::all(store.kind("Thing"))).await.unwrap();
    assert_eq!((whole.items.len(), &whole.next), (12, &None));
    let pages = pages(&**store, Query { limit: Some(500), ..Query::all(store.kind("Thing")) }).await;
    assert_eq!(pages.iter().map(|page| page.items.len()).collect::<Vec<_>>(), [5, 5, 2]);
    let bytes = |page: &Page| page.items.iter().map(|item| item.document().to_string().len() as u64).sum::<u64>();
    assert!(pages.iter().all(|page| bytes(page) <= PAGE_BYTES_MAX));
    let revision = pages[0].revision;
    store.assert_newest(revision).await;
    assert!(revision >= whole.revision && pages.iter().all(|page| page.revision == revision));
    assert_eq!(pages.into_iter().flat_map(|page| page.items).collect::<Vec<_>>(), whole.items);
}

/// S7: a list with all its pages is one snapshot.
pub(crate) async fn all_pages_show_the_moment_of_the_first_one(make: Make) {
    let store = make(Options::default()).await;
    let owners = json!([{"apiVersion": "v1", "kind": "Owner", "name": "o", "uid": "owner-1"}]);
    for number in 0..12 {
        let document = store.thing(&format!("n{number:02}"), json!({}));
        create(&**store, with_metadata(document, json!({"ownerReferences": owners}))).await;
    }
    let by_owner = Selector { owner: Some("owner-1".into()), ..Selector::default() };
    for selector in [Selector::default(), by_owner] {
        let whole = store.list(&Query { selector: selector.clone(), ..Query::all(store.kind("Thing")) }).await.unwrap();
        let mut query = Query { limit: Some(5), selector, ..Query::all(store.kind("Thing")) };
        let first = store.list(&query).await.unwrap();
        store.assert_newest(first.revision).await;
        query.from = first.next.clone();
        // Before the page, on it and after it: changed, deleted, recreated, new, and no longer selected.
        update(&**store, store.thing("n01", json!({"changed": true}))).await.unwrap();
        update(&**store, store.thing("n06", json!({"changed": true}))).await.unwrap();
        for gone in ["n05", "n11"] {
            delete(&**store, store.key(gone), Default::default()).await.unwrap();
        }
        create(&**store, with_metadata(store.thing("n05", json!({"again": true})), json!({"ownerReferences": owners})))
            .await;
        create(&**store, with_metadata(store.thing("n07b", json!({})), json!({"ownerReferences": owners}))).await;
        assert!(query.from.is_some());
        let rest = pages(&**store, query).await;
        assert!(first.revision >= whole.revision && rest.iter().all(|page| page.revision == first.revision));
        let items: Vec<_> = first.items.into_iter().chain(rest.into_iter().flat_map(|page| page.items)).collect();
        assert_eq!(items, whole.items);
        // Back to the start, for the next selector.
        delete(&**store, store.key("n07b"), Default::default()).await.unwrap();
        for name in ["n01", "n05", "n06", "n11"] {
            let document = with_metadata(store.thing(name, json!({})), json!({"ownerReferences": owners}));
            store.write(Write::Apply { document, manager: "test".into(), force: false }).await.unwrap();
        }
    }
}

/// S7: a list with all its pages is one snapshot.
pub(crate) async fn a_page_after_history_was_cut_is_expired(make: Make) {
    let store = make(small_history(5)).await;
    fill(&store, 3).await;
    let mut query = Query { limit: Some(1), ..Query::all(store.kind("Thing")) };
    query.from = store.list(&query).await.unwrap().next;
    if store.differs(Difference::GapsInRevisions) {
        return expires_at_some_time(&store, &query).await;
    }
    for size in 0..5 {
        update(&**store, store.thing("n000", json!({"size": size}))).await.unwrap();
    }
    assert_eq!(names(&store.list(&query).await.unwrap()), ["default/n001"]);
    update(&**store, store.thing("n000", json!({}))).await.unwrap();
    let expired = store.list(&query).await;
    assert!(matches!(expired, Err(Error::Expired { .. })), "{expired:?}");
}

/// Writes until a page is expired. A cache whose stream was too slow for the first writes opens it again after seconds.
async fn expires_at_some_time(store: &Fixture, query: &Query) {
    for size in 0..10_000 {
        update(&***store, store.thing("n000", json!({"size": size}))).await.unwrap();
        if size > 1_000 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        match store.list(query).await {
            Ok(page) => assert_eq!(names(&page), ["default/n001"]),
            Err(Error::Expired { .. }) => return,
            Err(error) => panic!("{error}"),
        }
    }
    panic!("the history has no bound");
}

/// S7: a list at a former revision is that snapshot, unless a store that is far away cannot tell.
pub(crate) async fn a_list_at_a_revision_shows_the_resources_of_then(make: Make) {
    let store = make(Options::default()).await;
    fill(&store, 3).await;
    let all = Query::all(store.kind("Thing"));
    let then = store.list(&all).await.unwrap();
    update(&**store, store.thing("n000", json!({"size": 1}))).await.unwrap();
    delete(&**store, store.key("n001"), Default::default()).await.unwrap();
    create(&**store, store.thing("n009", json!({}))).await;
    let is_far = store.differs(Difference::GapsInRevisions);
    for limit in [None, Some(2)] {
        let (mut shown, mut query) = (Vec::new(), Query { at: Some(then.revision), limit, ..all.clone() });
        loop {
            let page = match store.list(&query).await {
                Ok(page) if page.revision == then.revision => page,
                Ok(_) | Err(Error::Expired { .. }) if is_far => return,
                other => panic!("{other:?}"),
            };
            shown.extend(page.items);
            query.from = page.next;
            if query.from.is_none() {
                break;
            }
        }
        assert_eq!(shown, then.items, "{limit:?}");
    }
    let later = Query { at: Some(Revision(u64::MAX / 2)), ..all };
    let refused = store.list(&later).await;
    assert!(is_far || matches!(refused, Err(Error::FutureRevision { .. })), "{refused:?}");
}

/// S12: selectors, limits and tokens select exactly the matching resources.
pub(crate) async fn a_wrong_limit_selector_or_token_is_invalid(make: Make) {
    let store = make(Options::default()).await;
    store.add_kind("Other").await;
    fill(&store, 3).await;
    let all = Query::all(store.kind("Thing"));
    let bad_label = Selector { labels: vec![LabelRequirement::Exists("a b".into())], ..Selector::default() };
    let bad_field = Selector { fields: vec![("spec".into(), "x".into())], ..Selector::default() };
    let next = store.list(&Query { limit: Some(1), ..all.clone() }).await.unwrap().next;
    let mut wrong = vec![
        Query { limit: Some(0), ..all.clone() },
        Query { selector: bad_label, ..all.clone() },
        Query { selector: bad_field, ..all.clone() },
        Query { from: Some(String::new()), ..all.clone() },
        Query { from: Some("1.what.0".into()), ..all.clone() },
        Query { from: Some("1.é.é".into()), ..all.clone() },
    ];
    assert!(next.is_some());
    wrong.push(Query { from: next.clone(), ..Query::all(store.kind("Other")) });
    for query in wrong {
        let refused = store.list(&query).await;
        // Where each kind has revisions of its own, the token of another kind may be one that is forgotten.
        let is_other = query.kind.name == "Other" && store.differs(Difference::GapsInRevisions);
        let is_forgotten = is_other && matches!(refused, Err(Error::Expired { .. }));
        assert!(is_forgotten || matches!(refused, Err(Error::Invalid { .. })), "{query:?}: {refused:?}");
    }
    let elsewhere = make(Options::default()).await;
    let refused = elsewhere.list(&Query { from: next, ..all }).await;
    assert!(matches!(refused, Err(Error::Expired { .. })), "{refused:?}");
}

pub(crate) async fn kinds_are_those_of_which_resources_exist(make: Make) {
    let store = make(Options::default()).await;
    assert_eq!(store.kinds().await.unwrap(), []);
    let kinds = if store.differs(Difference::DefinedKinds) {
        for name in ["Three", "Two"] {
            store.add_kind(name).await;
        }
        ["Thing", "Three", "Two"].map(|name| store.kind(name)).to_vec()
    } else {
        let of = |(group, name): &(&str, &str)| Kind::new(*group, "v1", *name);
        [("", "Node"), ("", "Pod"), ("apps", "Deployment"), ("apps", "ReplicaSet")].iter().map(of).collect()
    };
    for kind in kinds.iter().rev() {
        for name in ["a", "b"] {
            let metadata = json!({"name": name, "namespace": "default"});
            let document = json!({"apiVersion": kind.api_version(), "kind": kind.name, "metadata": metadata});
            create(&**store, document).await;
        }
    }
    let told = async || {
        let mut kinds = store.kinds().await.unwrap();
        if store.differs(Difference::KindsStay) {
            kinds.sort_by(|one, other| (&one.group, &one.name).cmp(&(&other.group, &other.name)));
        }
        kinds
    };
    assert_eq!(told().await, kinds);
    let mut left = kinds.clone();
    let gone = left.remove(1);
    for name in ["a", "b"] {
        delete(&**store, Key::new(gone.clone(), "default", name), Default::default()).await.unwrap();
    }
    let wanted = if store.differs(Difference::KindsStay) { kinds } else { left };
    assert_eq!(told().await, wanted);
}

pub(crate) async fn dependents_are_found_across_kinds_and_follow_changes(make: Make) {
    let store = make(Options::default()).await;
    store.add_kind("Other").await;
    let owner = |uid: &str| json!({"apiVersion": "v1", "kind": "Owner", "name": "o", "uid": uid});
    let names = async |uid: &str| {
        let found = store.dependents(uid).await.unwrap();
        found
            .iter()
            .map(|item| format!("{}/{}", item.key().kind().name, item.key().name()))
            .collect::<Vec<_>>()
            .join(" ")
    };
    create(
        &**store,
        with_metadata(store.thing("a", json!({})), json!({"ownerReferences": [owner("u1"), owner("u2")]})),
    )
    .await;
    let mut other = with_metadata(store.thing("b", json!({})), json!({"ownerReferences": [owner("u1")]}));
    other["kind"] = json!("Other");
    create(&**store, other).await;
    assert_eq!(names("u1").await, "Other/b Thing/a");
    assert_eq!(names("u2").await, "Thing/a");
    assert_eq!(names("u").await, "");
    update(&**store, with_metadata(store.thing("a", json!({})), json!({"ownerReferences": [owner("u2")]})))
        .await
        .unwrap();
    assert_eq!(names("u1").await, "Other/b");
    delete(&**store, store.key("a"), Default::default()).await.unwrap();
    assert_eq!(names("u2").await, "");
}
