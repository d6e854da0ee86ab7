use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use serde_json::json;

use super::{LabelIndex, NAMES_MAX};
use crate::model::Path;
use crate::{LabelRequirement, Resource, Selector};

type Rows = BTreeMap<Path, Arc<Resource>>;

/// A resource with one or two labels.
fn pod(name: u8, app: u8, tier: Option<u8>) -> Arc<Resource> {
    let mut labels = json!({"app": app.to_string()});
    if let Some(tier) = tier {
        labels["tier"] = json!(tier.to_string());
    }
    let metadata = json!({"name": format!("n{name}"), "labels": labels});
    let document = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata});
    Resource::from_document(document).expect("well formed").without_document()
}

fn equals(name: &str, value: u8) -> LabelRequirement {
    LabelRequirement::Equals(name.into(), value.to_string())
}

/// A creation or change, or a deletion.
fn step() -> impl Strategy<Value = (u8, Option<(u8, Option<u8>)>)> {
    (0..8_u8, prop::option::weighted(0.7, (0..3_u8, prop::option::of(0..3_u8))))
}

proptest! {
    #[test]
    fn candidates_contain_every_match_after_any_changes(steps in prop::collection::vec(step(), 0..40), used in 0..40_usize) {
        let (mut rows, index) = (Rows::new(), LabelIndex::default());
        let queries = [
            vec![equals("app", 1)],
            vec![LabelRequirement::Exists("app".into()), equals("tier", 2), equals("app", 0)],
            vec![LabelRequirement::OneOf("tier".into(), vec!["0".into(), "1".into(), "7".into()])],
        ];
        let check = |rows: &Rows| {
            for labels in &queries {
                let found = index.candidates(labels, rows).expect("it names a value");
                let selector = Selector { labels: labels.clone(), ..Selector::default() };
                for (path, resource) in rows {
                    let is_match = selector.matches(&resource.without_document());
                    prop_assert!(!is_match || found.contains(path));
                }
                prop_assert!(found.iter().all(|path| rows.contains_key(path)));
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
            index.change(&path, before.as_deref(), after.as_deref());
        }
        check(&rows)?;
        prop_assert!(rows.values().all(|resource| !resource.has_document()));
    }
}

#[test]
fn a_requirement_without_a_value_has_no_candidates() {
    let requirements = [LabelRequirement::Exists("app".into()), LabelRequirement::NotEquals("app".into(), "1".into())];
    assert_eq!(LabelIndex::default().candidates(&requirements, &Rows::new()), None);
}

#[test]
fn the_least_recently_used_name_loses_its_index() {
    let index = LabelIndex::default();
    for number in 0..NAMES_MAX + 5 {
        for name in [format!("n{number}"), "often".into()] {
            index.candidates(&[equals(&name, 1)], &Rows::new()).expect("it names a value");
        }
    }
    let names: Vec<String> = index.lock().iter().map(|index| index.name.clone()).collect();
    assert_eq!((names.len(), &*names[0], names[1].clone()), (NAMES_MAX, "often", format!("n{}", NAMES_MAX + 4)));
}
