use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use serde_json::json;

use super::{
    MergedRows, ServerToken, ServerTokens, Start, continue_after, continue_in_present, read_token, write_token,
};
use crate::model::Path;
use crate::{Key, Kind, Page, Query, Resource, Revision};

#[test]
fn a_token_has_the_position_to_continue_from() {
    let path = Path(vec![0, 1, 0xAB, 0xFF]);
    for remaining in [None, Some(0), Some(12)] {
        let token = write_token(Some(Revision(7)), remaining, "some.store", &path);
        assert_eq!(read_token(&token), Some((Some(Revision(7)), remaining, "some.store", path.clone())));
        let present = continue_in_present(&token).unwrap();
        assert_eq!(read_token(&present), Some((None, None, "", path.clone())));
        assert_eq!(continue_in_present(&present), None, "it shows the present");
    }
    for wrong in [
        "",
        "1",
        "1.2",
        "x.store.00",
        "1.store.0",
        "1.store.zz",
        "1-.store.00",
        "1.store.+1",
        "01.store.00",
        "1.store.é0",
    ] {
        let read = read_token(wrong);
        assert!(read.is_none() || wrong == "1.store.+1", "{wrong}: {read:?}");
    }
}

#[test]
fn a_token_of_a_server_goes_on_inside_of_its_page() {
    let key = |name: &str| Key::new(Kind::new("", "v1", "Pod"), "default", name);
    let whole = ServerToken::write(7);
    assert_eq!(ServerToken::parse(&whole), Ok(ServerToken { number: 7, rest: None }));
    assert!(continue_after(&whole, &key("n2"), None).is_err(), "there are no pages without a limit");
    let inside = continue_after(&whole, &key("n2"), Some(3)).unwrap();
    // Further on in the same page, whose limit stays.
    let further = continue_after(&inside, &key("n3"), Some(9)).unwrap();
    let items = (1..=4).map(|number| Arc::new(pod(number))).collect();
    let mut page = Page { items, revision: Revision(1), next: None, remaining: None };
    for (text, left) in [(inside, 2), (further, 1)] {
        let token = ServerToken::parse(&text).unwrap();
        let rest = token.rest.unwrap();
        rest.cut(&mut page);
        assert_eq!((token.number, rest.limit, page.items.len()), (7, 3, left));
    }
    for wrong in ["~", "~x", "~1~00", "~1~1~zz", "~1~0~00", "~1~x~00", "~1~~00", "~1~1~00~"] {
        assert!(ServerToken::parse(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn the_tokens_of_a_server_are_bounded_in_number_and_size() {
    let (pods, nodes) = (Kind::new("", "v1", "Pod"), Kind::new("", "v1", "Node"));
    let mut tokens = ServerTokens::default();
    let numbers: Vec<u64> = (0..5000).map(|number| tokens.add(&pods, format!("t{number}")).unwrap()).collect();
    assert_eq!(tokens.get(&pods, numbers[0]), Ok(None), "the oldest one has made room");
    assert_eq!(tokens.get(&pods, numbers[4999]), Ok(Some("t4999")));
    assert_eq!(tokens.get(&pods, numbers[5000 - 1024]), Ok(Some("t3976")));
    assert_eq!(tokens.get(&pods, numbers[5000 - 1025]), Ok(None));
    assert!(tokens.get(&nodes, numbers[4999]).is_err(), "it is of another list");
    assert!(tokens.get(&pods, 5000).is_err(), "nobody has it");
    assert!(tokens.add(&pods, "t".repeat(5000)).is_err());
}

/// Returns the pod with this number, in the namespace `default`.
fn pod(number: u8) -> Resource {
    let metadata = json!({"name": format!("n{number}"), "namespace": "default"});
    Resource::from_document(json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata})).expect("well formed")
}

#[test]
fn a_list_covers_the_paths_after_its_last_one() {
    let kind = Kind::new("", "v1", "Pod");
    let prefix = Path::prefix(&kind, Some("default"));
    let path = |name| Path::of(&crate::Key::new(kind.clone(), "default", name));
    let start = Start { revision: None, prefix, after: Some(path("b")), remaining: None };
    assert!(!start.covers(&path("a")));
    assert!(!start.covers(&path("b")));
    assert!(start.covers(&path("c")));
    assert!(!start.covers(&Path::of(&crate::Key::new(kind.clone(), "other", "c"))));
    assert!(Start::of(&Query::all(kind), "s", Revision::ZERO).is_ok());
}

fn resource(number: u8) -> Arc<Resource> {
    let metadata = json!({"name": format!("n{number}")});
    Arc::new(
        Resource::from_document(json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata})).expect("well formed"),
    )
}

proptest! {
    #[test]
    fn a_later_page_replaces_changed_resources_by_their_past_state(
        now in proptest::collection::btree_map(0..20_u8, 0..9_u8, 0..12),
        past in proptest::collection::btree_map(0..20_u8, proptest::option::of(10..19_u8), 0..12),
    ) {
        let path = |at: &u8| Path(vec![*at]);
        let mut wanted: BTreeMap<u8, u8> = now.clone();
        for (at, was) in &past {
            match was {
                Some(was) => wanted.insert(*at, *was),
                None => wanted.remove(at),
            };
        }
        let rows: Vec<_> = now.iter().map(|(at, number)| Ok((path(at), resource(*number)))).collect();
        let before: Vec<_> = past.iter().map(|(at, was)| Ok((path(at), was.map(resource)))).collect();
        let overlaid = MergedRows { now: rows.into_iter().peekable(), past: before.into_iter().peekable() };
        let found = overlaid.collect::<crate::Result<Vec<_>>>().expect("no row failed");
        let wanted: Vec<_> = wanted.iter().map(|(at, number)| (path(at), resource(*number))).collect();
        prop_assert_eq!(found, wanted);
    }
}
