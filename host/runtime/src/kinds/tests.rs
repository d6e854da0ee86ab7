use std::sync::Arc;

use homeostat_fixtures::memory_store;
use homeostat_store::catalog::{Catalog, ServedKind};
use homeostat_store::{IndexTerm, OwnerKinds};
use serde_json::json;

use super::info::DEFINITION;
use super::*;
use crate::BuiltInGroups;
use crate::stores::tests::two;

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

/// A kind whose component states this in its schema.
fn presented(definition: serde_json::Value) -> KindInfo {
    let schema = json!({"type": "object", "x-homeostat-definition": definition});
    let kind = Kind::new("demo.dev", "v1", "Widget");
    let declaration =
        KindDeclaration { kind, plural: "widgets".into(), namespaced: true, keys_only: false, schema: Some(schema) };
    KindInfo::declared(&declaration, "controller web")
}

#[test]
fn a_component_names_its_kind_for_people() {
    let kinds = Kinds::with_built_in(Schemas::default());
    let column = json!({"name": "Size", "type": "integer", "jsonPath": ".spec.size"});
    let names = json!({"singular": "gadget", "shortNames": ["wd"], "categories": ["all"]});
    kinds.declare(presented(json!({"names": names, "additionalPrinterColumns": [column]}))).unwrap();
    for name in ["wd", "gadget", "widgets"] {
        let found = kinds.find(name).expect("it is known by this name");
        assert_eq!((found.columns.len(), found.categories), (1, vec!["all".to_owned()]), "{name}");
    }
}

#[test]
fn wrong_names_in_the_schema_of_a_component_are_refused() {
    let kinds = Kinds::with_built_in(Schemas::default());
    let error = kinds.declare(presented(json!({"names": {"shortNames": ["W D"]}}))).expect_err("it is no name");
    assert!(error.to_string().contains("shortNames[0]"), "{error}");
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
fn a_definition_declares_the_labels_and_fields_of_indexes() {
    let document = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "crons.demo.dev", "annotations": {"homeostat.dev/indexed-labels": "app"}},
        "spec": {"group": "demo.dev", "scope": "Namespaced", "names": {"kind": "Cron", "plural": "crons"},
            "versions": [
                {"name": "v1beta1", "served": true, "storage": false, "selectableFields": [{"jsonPath": ".spec.old"}]},
                {"name": "v1", "served": true, "storage": true, "selectableFields": [{"jsonPath": ".spec.node"}]}]}
    });
    let info = KindInfo::from_definition(&document).unwrap();
    let wanted = vec![IndexTerm::Label("app".into()), IndexTerm::Field("/spec/node".into())];
    assert_eq!(info.indexes, wanted);
    let schemas = Schemas::default();
    let kinds = Kinds::with_built_in(schemas.clone());
    kinds.declare(info.clone()).unwrap();
    assert_eq!(schemas.indexes_of(&info.kind)[..], wanted);
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

/// Returns a kind that a server serves in these versions, preferred first.
fn served_kind(group: &str, name: &str, versions: &[&str]) -> ServedKind {
    ServedKind {
        plural: format!("{}s", name.to_lowercase()),
        versions: versions.iter().map(|version| (*version).to_owned()).collect(),
        short_names: vec!["w".to_owned()],
        namespaced: true,
        ..ServedKind::new(Kind::new(group, versions[0], name))
    }
}

fn declared(group: &str, version: &str, name: &str, plural: &str) -> KindInfo {
    let kind = Kind::new(group, version, name);
    let declaration = KindDeclaration { kind, plural: plural.into(), namespaced: true, keys_only: false, schema: None };
    KindInfo::declared(&declaration, "controller web")
}

#[tokio::test]
async fn the_kinds_of_a_server_are_known_where_they_live_and_a_declaration_has_to_agree() {
    let kinds = Kinds::of_stores(&two(memory_store(), memory_store()), &BuiltInGroups::None);
    let bus: Arc<str> = "bus".into();
    let catalog = [served_kind("far.dev", "Widget", &["v2", "v1"]), served_kind("near.dev", "Gadget", &["v1"])];
    kinds.set_server_kinds(&bus, &Catalog::new(catalog));
    let v1 = Kind::new("far.dev", "v1", "Widget");
    assert_eq!(kinds.find("w").map(|info| (info.kind.version, info.store)), Some(("v2".to_owned(), Some(bus.clone()))));
    assert_eq!(kinds.find("gadgets"), None, "the kind lives at home");
    assert!(kinds.stores(&v1) && kinds.served(&v1).is_some() && kinds.stored(&v1).is_some());
    assert!(!kinds.stores(&Kind::new("far.dev", "v3", "Widget")));
    assert!(kinds.by_plural("far.dev", "v1", "widgets").is_some());
    assert_eq!(
        kinds.with_resources().len(),
        8,
        "nothing is read of kinds that nobody uses: {:?}",
        kinds.with_resources()
    );
    for (info, reason) in [
        (declared("far.dev", "v1", "Widget", "widgetz"), "plural is `widgets` by store bus"),
        (declared("far.dev", "v3", "Widget", "widgets"), "version is `v2` by store bus"),
    ] {
        let error = kinds.check(&info).unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
        assert!(kinds.declare(info).is_err());
    }
    kinds.declare(declared("far.dev", "v1", "Widget", "widgets")).unwrap();
    assert_eq!(kinds.of(&v1).map(|info| info.kind), Some(v1.clone()), "the controller's version counts");
    assert_eq!(kinds.list().iter().filter(|info| info.kind.group == "far.dev").count(), 1);
    // The server does not serve it any more: the declaration stays.
    kinds.set_server_kinds(&bus, &Catalog::default());
    assert!(kinds.stores(&v1));
}

#[tokio::test]
async fn the_server_of_a_kind_decides_which_versions_have_a_scale() {
    let kinds = Kinds::of_stores(&two(memory_store(), memory_store()), &BuiltInGroups::None);
    let bus: Arc<str> = "bus".into();
    let scaled = |versions: &[&str]| {
        let scale_versions = versions.iter().map(|version| (*version).to_owned()).collect();
        Catalog::new([ServedKind { scale_versions, ..served_kind("far.dev", "Widget", &["v2", "v1"]) }])
    };
    let scale = |version: &str| kinds.by_plural("far.dev", version, "widgets").unwrap().scale;
    kinds.set_server_kinds(&bus, &scaled(&["v1"]));
    assert_eq!((scale("v1"), scale("v2")), (Some(ScaleSource::Server), None));
    // A controller declares the kind, before or after the catalog changes.
    kinds.declare(declared("far.dev", "v1", "Widget", "widgets")).unwrap();
    assert_eq!(scale("v1"), Some(ScaleSource::Server));
    kinds.set_server_kinds(&bus, &scaled(&[]));
    assert_eq!(scale("v1"), None);
    kinds.set_server_kinds(&bus, &scaled(&["v1"]));
    assert_eq!(scale("v1"), Some(ScaleSource::Server));
}

#[tokio::test]
async fn changes_of_a_catalog_are_followed_until_the_end() {
    let kinds = Arc::new(Kinds::of_stores(&two(memory_store(), memory_store()), &BuiltInGroups::None));
    let (sender, catalog) = tokio::sync::watch::channel(Arc::<Catalog>::default());
    let end = tokio_util::sync::CancellationToken::new();
    let following = {
        let (kinds, end) = (kinds.clone(), end.clone());
        tokio::spawn(async move { kinds.follow_catalog(&"bus".into(), catalog, end).await })
    };
    sender.send_replace(Arc::new(Catalog::new([served_kind("far.dev", "Widget", &["v1"])])));
    homeostat_testing::eventually("the kind", async || kinds.find("widgets")).await;
    sender.send_replace(Arc::default());
    homeostat_testing::eventually("its end", async || kinds.find("widgets").is_none().then_some(())).await;
    end.cancel();
    homeostat_testing::soon(following).await.unwrap();
}

#[test]
fn pods_and_events_have_indexes_of_the_fields_that_select_few() {
    let schemas = Schemas::default();
    let mut kinds = Kinds::with_built_in(schemas.clone());
    kinds.add_built_in(&BuiltInGroups::All);
    let has = |kind: Kind, pointer: &str| {
        let terms = schemas.indexes_of(&kind);
        terms.contains(&IndexTerm::Field(pointer.to_owned()))
    };
    assert!(has(Kind::new("", "v1", "Pod"), "/spec/nodeName") && has(Kind::new("", "v1", "Pod"), "/status/phase"));
    for field in ["kind", "name", "uid"] {
        assert!(has(Kind::new("", "v1", "Event"), &format!("/involvedObject/{field}")), "{field}");
    }
    assert!(!has(Kind::new("", "v1", "ConfigMap"), "/metadata/name"));
}

#[test]
fn an_owner_kind_is_resolved_by_a_name_that_only_one_kind_has() {
    let kinds = Arc::new(Kinds::default());
    let declared = |group: &str, name: &str, plural: &str, keys_only| {
        let kind = Kind::new(group, "v1", name);
        let declaration =
            KindDeclaration { kind: kind.clone(), plural: plural.into(), namespaced: true, keys_only, schema: None };
        kinds.declare(KindInfo::declared(&declaration, "controller web")).unwrap();
        kind
    };
    let widget = declared("demo.dev", "Widget", "widgets", false);
    let signal = declared("demo.dev", "Signal", "signals", true);
    let resolver = OwnerKindResolver(Arc::downgrade(&kinds));
    for name in ["Widget", "widget", "widgets"] {
        assert_eq!(resolver.named(name).as_ref(), Some(&widget), "{name}");
    }
    assert_eq!(resolver.named("gadgets"), None);
    let known = resolver.known();
    assert!(known.contains(&widget) && !known.contains(&signal), "{known:?}");
    declared("other.dev", "Widget", "widgets", false);
    assert_eq!(resolver.named("widgets"), None, "two kinds have this name");
    drop(kinds);
    assert_eq!((resolver.named("widget"), resolver.known()), (None, vec![]));
}
