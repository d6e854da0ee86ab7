use super::*;

fn labels(of: &[(&str, &str)]) -> BTreeMap<String, String> {
    of.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn every_condition_of_a_label_selector_must_hold() {
    let selector: LabelSelector = serde_json::from_value(serde_json::json!({
        "matchLabels": {"app": "web"},
        "matchExpressions": [
            {"key": "tier", "operator": "In", "values": ["a", "b"]},
            {"key": "env", "operator": "NotIn", "values": ["test"]},
            {"key": "retired", "operator": "DoesNotExist"},
        ],
    }))
    .unwrap();
    assert!(selector.matches(&labels(&[("app", "web"), ("tier", "b")])));
    assert!(!selector.matches(&labels(&[("app", "web")])));
    assert!(!selector.matches(&labels(&[("app", "web"), ("tier", "b"), ("env", "test")])));
    assert!(!selector.matches(&labels(&[("app", "web"), ("tier", "b"), ("retired", "")])));
}

#[test]
fn a_label_selector_becomes_requirements_of_the_contract() {
    let mut labels = LabelSelector::default();
    labels.match_labels.insert("app".to_owned(), "web".to_owned());
    labels.match_expressions.push(Expression {
        key: "old".to_owned(),
        operator: Operator::DoesNotExist,
        values: Vec::new(),
    });
    let wit::Selector { labels, .. } = Selector::everything().matching(&labels).into_wit();
    assert_eq!(
        labels,
        [LabelRequirement::Equals(("app".to_owned(), "web".to_owned())), LabelRequirement::Absent("old".to_owned())]
    );
}
