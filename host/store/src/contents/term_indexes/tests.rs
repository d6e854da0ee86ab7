use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use serde_json::json;

use super::{TermIndexes, UNDECLARED_TERMS_MAX};
use crate::index::lookups;
use crate::listing::Start;
use crate::model::Path;
use crate::{IndexTerm, Kind, LabelRequirement, Query, Resource, Revision, Selector};

type Rows = BTreeMap<Path, Arc<Resource>>;

fn pods() -> Kind {
    Kind::new("", "v1", "Pod")
}

/// A resource with one or two labels.
fn pod(name: u8, app: u8, tier: Option<u8>) -> Arc<Resource> {
    let mut labels = json!({"app": app.to_string()});
    if let Some(tier) = tier {
        labels["tier"] = json!(tier.to_string());
    }
    let metadata = json!({"name": format!("n{name}"), "namespace": format!("s{}", name % 2), "labels": labels});
    let document = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"app": app}});
    Resource::from_document(document).expect("well formed").without_document()
}

fn equals(name: &str, value: u8) -> LabelRequirement {
    LabelRequirement::Equals(name.into(), value.to_string())
}

fn of_labels(labels: Vec<LabelRequirement>) -> Selector {
    Selector { labels, ..Selector::default() }
}

/// Returns the paths that the indexes offer for a selector; `None` if no index answers it.
fn offered(indexes: &TermIndexes, selector: &Selector, declared: &[IndexTerm], rows: &Rows) -> Option<Vec<Path>> {
    let query = Query { selector: selector.clone(), ..Query::all(pods()) };
    let start = Start::of(&query, "id", Revision::ZERO).expect("a valid query");
    let mut indexes = indexes.lock();
    let (index, values) = indexes.find(&pods(), lookups(selector), declared, rows)?;
    Some(index.paths(&values, &start).map(|path| path.expect("no path fails").clone()).collect())
}

/// A creation or change, or a deletion.
fn step() -> impl Strategy<Value = (u8, Option<(u8, Option<u8>)>)> {
    (0..8_u8, prop::option::weighted(0.7, (0..3_u8, prop::option::of(0..3_u8))))
}

proptest! {
    #[test]
    fn offered_paths_contain_every_match_after_any_changes(steps in prop::collection::vec(step(), 0..40), used in 0..40_usize) {
        let (mut rows, indexes) = (Rows::new(), TermIndexes::default());
        let selectors = [
            of_labels(vec![equals("app", 1)]),
            of_labels(vec![LabelRequirement::Exists("app".into()), equals("tier", 2), equals("app", 0)]),
            of_labels(vec![LabelRequirement::OneOf("tier".into(), vec!["0".into(), "1".into(), "7".into()])]),
            Selector { fields: vec![("/spec/app".into(), "2".into())], ..Selector::default() },
            Selector { namespace: Some("s1".into()), ..of_labels(vec![equals("app", 1)]) },
        ];
        let check = |rows: &Rows| {
            for selector in &selectors {
                let found = offered(&indexes, selector, &[], rows).expect("it names a value");
                for (path, resource) in rows {
                    let is_match = selector.matches(&resource.without_document());
                    prop_assert!(!is_match || found.contains(path));
                }
                prop_assert!(found.iter().all(|path| rows.contains_key(path)));
                prop_assert!(found.is_sorted());
            }
            Ok(())
        };
        for (at, (name, labels)) in steps.into_iter().enumerate() {
            if at == used {
                check(&rows)?;
            }
            let path = Path::of(pod(name, 0, None).key());
            let after = labels.map(|(app, tier)| pod(name, app, tier));
            let before = match &after {
                Some(after) => rows.insert(path.clone(), Arc::clone(after)),
                None => rows.remove(&path),
            };
            indexes.change(&path, &pods(), before.as_deref(), after.as_deref());
        }
        check(&rows)?;
        prop_assert!(rows.values().all(|resource| !resource.has_document()));
        let counted: u64 = indexes.lock().by_kind.values().flatten().map(|index| index.bytes).sum();
        prop_assert_eq!(indexes.bytes(), counted);
        for (path, resource) in &rows {
            indexes.change(path, &pods(), Some(resource), None);
        }
        prop_assert_eq!(indexes.bytes(), 0, "what is gone takes no memory");
    }
}

#[test]
fn a_requirement_without_a_value_has_no_index() {
    let requirements =
        vec![LabelRequirement::Exists("app".into()), LabelRequirement::NotEquals("app".into(), "1".into())];
    assert_eq!(offered(&TermIndexes::default(), &of_labels(requirements), &[], &Rows::new()), None);
}

#[test]
fn the_least_recently_used_term_loses_its_index_unless_it_is_declared() {
    let indexes = TermIndexes::default();
    let declared = [IndexTerm::Label("declared".into())];
    for number in 0..UNDECLARED_TERMS_MAX + 5 {
        for name in [format!("n{number}"), "often".into()] {
            offered(&indexes, &of_labels(vec![equals(&name, 1)]), &declared, &Rows::new()).expect("it names a value");
        }
        if number == 0 {
            offered(&indexes, &of_labels(vec![equals("declared", 1)]), &declared, &Rows::new());
        }
    }
    let terms: Vec<IndexTerm> = indexes.lock().by_kind.values().flatten().map(|index| index.term.clone()).collect();
    assert_eq!(terms.len(), UNDECLARED_TERMS_MAX + 1);
    assert_eq!(terms[0], IndexTerm::Label("often".into()));
    assert!(terms.contains(&declared[0]) && !terms.contains(&IndexTerm::Label("n0".into())), "{terms:?}");
}

#[test]
fn a_declared_term_answers_before_others() {
    let indexes = TermIndexes::default();
    let declared = [IndexTerm::Label("tier".into())];
    offered(&indexes, &of_labels(vec![equals("app", 1), equals("tier", 1)]), &declared, &Rows::new());
    assert_eq!(indexes.lock().by_kind.values().flatten().next().map(|index| &index.term), Some(&declared[0]));
}

#[test]
fn indexes_without_memory_are_dropped_and_not_built_again() {
    let (indexes, rows) = (TermIndexes::default(), Rows::from([(Path::of(pod(1, 1, None).key()), pod(1, 1, None))]));
    let selector = of_labels(vec![equals("app", 1)]);
    assert_eq!(offered(&indexes, &selector, &[], &rows).map(|paths| paths.len()), Some(1));
    assert!(indexes.bytes() > 0);
    indexes.refuse();
    assert_eq!((offered(&indexes, &selector, &[], &rows), indexes.bytes()), (None, 0));
}
