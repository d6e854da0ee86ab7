use serde_json::json;

use super::info::DEFINITION;
use super::*;

fn deployments() -> KindInfo {
    let kind = Kind::new("apps", "v1", "Deployment");
    let declaration =
        KindDeclaration { kind, plural: "deployments".into(), namespaced: true, keys_only: false, schema: None };
    KindInfo::declared(&declaration, "controller web")
}

#[test]
fn a_kind_is_found_by_every_name_that_people_use() {
    let kinds = Kinds::with_built_in(Schemas::default());
    kinds.declare(deployments()).unwrap();
    for name in ["deploy", "deployment", "deployments", "Deployment", "deployments.apps", "deploy.apps"] {
        assert_eq!(kinds.find(name).map(|info| info.plural), Some("deployments".to_owned()), "{name}");
    }
    assert_eq!(kinds.find("deployments.batch"), None);
}

#[test]
fn a_misspelt_kind_gets_suggestions() {
    let kinds = Kinds::with_built_in(Schemas::default());
    kinds.declare(deployments()).unwrap();
    assert_eq!(kinds.similar("Deploymnet"), ["apps/v1/Deployment"]);
    assert!(kinds.similar("Zebra").is_empty());
}

#[test]
fn two_declarations_of_one_kind_must_agree() {
    let kinds = Kinds::default();
    kinds.declare(deployments()).unwrap();
    kinds.declare(deployments()).unwrap();
    let other = KindInfo { plural: "deploys".into(), source: "controller other".into(), ..deployments() };
    let error = kinds.declare(other).unwrap_err().to_string();
    assert!(error.contains("`deployments` by controller web, `deploys` by controller other"), "{error}");
}

#[test]
fn a_definition_declares_its_kind_and_reports_missing_fields() {
    let schema = json!({"openAPIV3Schema": {"type": "object"}});
    let mut document = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "crons.demo.dev"},
        "spec": {"group": "demo.dev", "scope": "Namespaced", "names": {"kind": "Cron", "plural": "crons", "shortNames": ["ct"]},
            "versions": [{"name": "v1beta1", "served": true, "storage": false, "schema": schema},
                {"name": "v1", "served": true, "storage": true, "schema": schema}]}
    });
    let info = KindInfo::from_definition(&document).unwrap();
    let kinds = Kinds::with_built_in(Schemas::default());
    kinds.declare(info.clone()).unwrap();
    let listed: Vec<KindInfo> = kinds.list().into_iter().filter(|known| known.plural == "crons").collect();
    assert_eq!(listed.iter().map(|known| known.kind.version.as_str()).collect::<Vec<_>>(), ["v1", "v1beta1"]);
    assert_eq!(kinds.by_plural("demo.dev", "v1beta1", "crons").as_ref(), listed.last());
    assert_eq!((kinds.stores(&listed[1].kind), kinds.served(&listed[1].kind).as_ref()), (false, listed.last()));
    assert_eq!((info.kind.version.as_str(), info.namespaced, info.short_names), ("v1", true, vec!["ct".to_owned()]));
    document["spec"]["names"]["plural"] = json!(3);
    let error = KindInfo::from_definition(&document).unwrap_err().to_string();
    assert!(error.starts_with("spec.names.plural: "), "{error}");
}

#[test]
fn a_kind_that_a_component_also_declares_outlives_its_definition() {
    let kinds = Kinds::with_built_in(Schemas::default());
    let defined = KindInfo {
        source: format!("{DEFINITION} deployments.apps"),
        schema: Some(json!({"type": "object"})),
        short_names: vec!["dp".to_owned()],
        ..deployments()
    };
    kinds.declare(defined.clone()).unwrap();
    kinds.declare(deployments()).unwrap();
    assert_eq!(kinds.of(&defined.kind).unwrap().short_names, ["dp"], "a definition says more than a component");
    kinds.remove_definition(&KindInfo { source: format!("{DEFINITION} other.apps"), ..defined.clone() });
    assert_eq!(kinds.of(&defined.kind).unwrap().short_names, ["dp"], "another definition does not take it back");
    kinds.declare(KindInfo { ending: true, ..defined.clone() }).unwrap();
    assert!(!kinds.goes_with(&defined) && !kinds.is_ending(&defined.kind));
    kinds.remove_definition(&defined);
    assert_eq!(kinds.of(&defined.kind), Some(deployments()));
    let site = KindInfo { kind: Kind::new("demo.dev", "v1", "Site"), ..defined };
    kinds.declare(site.clone()).unwrap();
    assert!(kinds.goes_with(&site) && !kinds.is_ending(&site.kind));
    kinds.declare(KindInfo { ending: true, ..site.clone() }).unwrap();
    assert!(kinds.is_ending(&site.kind));
    kinds.remove_definition(&site);
    assert_eq!(kinds.of(&site.kind), None);
}

#[test]
fn an_outdated_version_of_a_definition_changes_nothing() {
    let kinds = Kinds::with_built_in(Schemas::default());
    let word = |revision, short: &str| KindInfo {
        source: format!("{DEFINITION} deployments.apps"),
        short_names: vec![short.to_owned()],
        ..deployments().said_at(Revision(revision))
    };
    kinds.declare(word(5, "new")).unwrap();
    kinds.declare(word(4, "old")).unwrap();
    kinds.remove_definition(&word(4, "old"));
    assert_eq!(kinds.of(&deployments().kind).unwrap().short_names, ["new"]);
    // The schemas already published for the coming version are no longer removed either.
    kinds.prepare(&word(7, "newer")).unwrap();
    kinds.declare(word(6, "between")).unwrap();
    assert_eq!(kinds.of(&deployments().kind).unwrap().short_names, ["new"]);
    kinds.declare(word(7, "newer")).unwrap();
    assert_eq!(kinds.of(&deployments().kind).unwrap().short_names, ["newer"]);
    kinds.remove_definition(&word(8, "gone"));
    assert_eq!(kinds.of(&deployments().kind), None);
    assert!(kinds.heard.lock().is_empty(), "nothing is left of what is gone");
}
