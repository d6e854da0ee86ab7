use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use serde_json::json;

use super::{MergedRows, Start, read_token, write_token};
use crate::model::Path;
use crate::{Kind, Query, Resource, Revision};

#[test]
fn a_token_has_the_position_to_continue_from() {
    let path = Path(vec![0, 1, 0xAB, 0xFF]);
    let token = write_token(Revision(7), "some.store", &path);
    assert_eq!(read_token(&token), Some((Revision(7), "some.store", path)));
    for wrong in ["", "1", "1.2", "x.store.00", "1.store.0", "1.store.zz", "1.store.+1", "01.store.00", "1.store.é0"] {
        let read = read_token(wrong);
        assert!(read.is_none() || wrong == "1.store.+1", "{wrong}: {read:?}");
    }
}

#[test]
fn a_list_covers_the_paths_after_its_last_one() {
    let kind = Kind::new("", "v1", "Pod");
    let prefix = Path::prefix(&kind, Some("default"));
    let path = |name| Path::of(&crate::Key::new(kind.clone(), "default", name));
    let start = Start { revision: None, prefix, after: Some(path("b")) };
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
