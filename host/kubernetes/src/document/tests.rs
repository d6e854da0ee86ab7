use homeostat_store::{Error, Key, Kind, Revision};
use serde_json::json;

use super::{UnreadableDocument, WatchLine, line, long_line, page, resource};

fn pods() -> Kind {
    Kind::new("", "v1", "Pod")
}

#[test]
fn an_item_of_a_list_gets_its_kind() {
    let body = json!({"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "70", "continue": "abc"},
        "items": [{"metadata": {"name": "a", "namespace": "n", "uid": "u", "resourceVersion": "7"}}]});
    let page = page(body.to_string().as_bytes(), &pods(), "v1").unwrap();
    assert_eq!((page.at, page.next.as_deref()), (Revision(70), Some("abc")));
    let [item] = page.items.as_slice() else { panic!() };
    assert_eq!(item.key().to_string(), "v1/Pod n/a");
    assert_eq!((item.uid(), item.revision()), ("u", Revision(7)));
    assert_eq!(item.document()["apiVersion"], "v1");
}

#[test]
fn metadata_alone_gets_the_kind_of_its_resource() {
    let text = json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
        "metadata": {"name": "a", "resourceVersion": "7"}});
    let kind = Kind::new("apps", "v1", "Deployment");
    assert_eq!(resource(&text.to_string(), &kind, "v1beta2").unwrap().key().to_string(), "apps/v1beta2/Deployment a");
}

#[test]
fn an_empty_list_may_have_no_items() {
    for items in [json!(null), json!([])] {
        let body = json!({"metadata": {"resourceVersion": "7"}, "items": items});
        let page = page(body.to_string().as_bytes(), &pods(), "v1").unwrap();
        assert!(page.items.is_empty() && page.next.is_none());
    }
}

#[test]
fn a_kind_whose_revisions_are_no_numbers_is_unsupported() {
    let text = json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "a", "resourceVersion": "x\u{1b}"}});
    let Err(Error::Unsupported { reason, .. }) = resource(&text.to_string(), &pods(), "v1") else { panic!() };
    assert!(reason.ends_with(r#"but "x\u{1b}""#), "{reason}");
    let list = json!({"metadata": {}, "items": []});
    assert!(matches!(page(list.to_string().as_bytes(), &pods(), "v1"), Err(Error::Unsupported { .. })));
}

#[test]
fn each_line_of_a_watch_is_an_event() {
    let parse = |value: serde_json::Value| line(value.to_string().as_bytes(), &pods(), "v1").unwrap();
    let pod = json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "a", "resourceVersion": "7"}});
    assert!(matches!(parse(json!({"type": "ADDED", "object": pod})), WatchLine::Changed(_)));
    assert!(matches!(parse(json!({"type": "MODIFIED", "object": pod})), WatchLine::Changed(_)));
    let WatchLine::Deleted(gone) = parse(json!({"type": "DELETED", "object": pod})) else { panic!() };
    assert_eq!(gone.revision(), Revision(7));
    let bookmark = |annotations: serde_json::Value| json!({"type": "BOOKMARK", "object": {"kind": "Pod", "metadata": {"resourceVersion": "9", "annotations": annotations}}});
    let plain = parse(bookmark(json!({})));
    assert!(matches!(plain, WatchLine::Bookmark { at: Revision(9), ends_list: false }));
    let end = parse(bookmark(json!({"k8s.io/initial-events-end": "true"})));
    assert!(matches!(end, WatchLine::Bookmark { at: Revision(9), ends_list: true }));
    let WatchLine::Error(status) =
        parse(json!({"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired"}}))
    else {
        panic!()
    };
    assert_eq!((status.code, status.reason.as_str()), (410, "Expired"));
}

#[test]
fn anything_else_is_quoted_and_unavailable() {
    for text in [
        "",
        "{",
        "[]",
        r#"{"type":"NEW","object":{}}"#,
        r#"{"type":"ADDED","object":[]}"#,
        r#"{"type":"ADDED","object":{}}"#,
    ] {
        assert!(matches!(line(text.as_bytes(), &pods(), "v1"), Err(Error::Unavailable { .. })), "{text}");
    }
}

/// The text of a pod that this host cannot read.
fn deep_pod(levels: usize) -> String {
    let (begin, end) = (r#"{"a":"#.repeat(levels), "}".repeat(levels));
    format!(
        r#"{{"kind":"Pod","apiVersion":"v1","spec":{begin}1{end},"metadata":{{"name":"a","namespace":"n","resourceVersion":"7"}}}}"#
    )
}

fn key() -> Key {
    Key::new(pods(), "n", "a")
}

#[test]
fn an_item_that_cannot_be_read_leaves_the_others_of_its_page() {
    let other = json!({"metadata": {"name": "b", "resourceVersion": "8"}});
    for levels in [100, 126, 127, 5000] {
        let list = format!(r#"{{"metadata":{{"resourceVersion":"70"}},"items":[{},{other}]}}"#, deep_pod(levels));
        let page = page(list.as_bytes(), &pods(), "v1").unwrap();
        assert_eq!(page.items.iter().map(|item| item.key().name()).collect::<Vec<_>>(), ["b"], "{levels}");
        let [unreadable] = page.unreadable.as_slice() else { panic!("{levels}: {:?}", page.unreadable) };
        assert_eq!((&unreadable.key, unreadable.at), (&key(), Revision(7)));
    }
    let refused = resource(&deep_pod(100), &pods(), "v1").unwrap_err().to_string();
    assert!(refused.contains("v1/Pod n/a cannot be read: document: is nested too deeply"), "{refused}");
}

#[test]
fn a_line_whose_document_cannot_be_read_tells_its_resource() {
    let parse = |event: &str| {
        let text = format!(r#"{{"type":"{event}","object":{}}}"#, deep_pod(200));
        line(text.as_bytes(), &pods(), "v1").unwrap()
    };
    for event in ["ADDED", "MODIFIED"] {
        assert!(
            matches!(parse(event), WatchLine::Unreadable(UnreadableDocument { key: of, at: Revision(7), .. }) if of == key())
        );
    }
    assert!(matches!(parse("DELETED"), WatchLine::Gone { key: of, at: Revision(7) } if of == key()));
}

#[test]
fn the_beginning_of_a_long_line_tells_its_resource() {
    let text = json!({"type": "MODIFIED", "object": {"apiVersion": "v1", "kind": "Pod",
        "metadata": {"annotations": {"a": {"name": "other"}}, "name": "a", "namespace": "n", "resourceVersion": "7",
        "uid": "u"}, "spec": {"metadata": {"name": "other"}, "text": "x"}}});
    // The fields in the order of a server, which is that of the names.
    let text = format!(r#"{{"type":"MODIFIED","object":{}}}"#, text["object"]);
    let whole = text.find(r#","uid""#).unwrap();
    for end in 0..text.len() {
        let found = long_line(&text.as_bytes()[..end], &pods(), "v1");
        match found {
            Some(WatchLine::Unreadable(UnreadableDocument { key: of, at: Revision(7), .. })) if of == key() => {
                assert!(end >= whole, "{end}");
            }
            Some(other) => panic!("{other:?}"),
            None => assert!(end < whole, "{end}"),
        }
    }
    let deleted = text.replace("MODIFIED", "DELETED");
    assert!(
        matches!(long_line(deleted.as_bytes(), &pods(), "v1"), Some(WatchLine::Gone { key: of, .. }) if of == key())
    );
    assert!(long_line(text.replace("MODIFIED", "ERROR").as_bytes(), &pods(), "v1").is_none());
}
