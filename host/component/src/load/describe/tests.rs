use std::time::Duration;

use super::{AvailableExports, check};
use crate::bindings::reconciler as wit;
use crate::load_error::Reason;
use crate::outcome::Outcome;
use crate::spec::{Changes, Mapping};

const ALL: AvailableExports = AvailableExports { mapper: true, poller: true };
const NONE: AvailableExports = AvailableExports { mapper: false, poller: false };

fn declaration() -> wit::KindDeclaration {
    let kind = wit::Kind { group: "apps".into(), version: "v1".into(), name: "Deployment".into() };
    wit::KindDeclaration { kind, plural: "deployments".into(), namespaced: true, keys_only: false, schema: None }
}

fn watch(name: &str, mapping: wit::Mapping) -> wit::Watch {
    wit::Watch { name: name.into(), of: declaration(), mapping, changes: wit::Changes::All, role: wit::Role::Secondary }
}

fn spec() -> wit::ControllerSpec {
    wit::ControllerSpec {
        manages: declaration(),
        changes: wit::Changes::All,
        watches: Vec::new(),
        poll_every: None,
        resync_every: None,
        backoff: None,
        concurrency: None,
        during_delay: wit::DuringDelay::RunNow,
    }
}

fn paths(spec: wit::ControllerSpec, has: AvailableExports) -> Vec<String> {
    let reasons = check(spec, has).unwrap_err();
    let path = |reason| match reason {
        Reason::Description { path, .. } => path,
        other => panic!("{other:?}"),
    };
    reasons.into_iter().map(path).collect()
}

#[test]
fn a_modest_description_is_accepted() {
    let mut modest = spec();
    modest.watches = vec![watch("sets", wit::Mapping::Owner), watch("mine", wit::Mapping::Guest)];
    modest.poll_every = Some(100);
    modest.backoff = Some(wit::Backoff { base: 5, max: 5, retries_max: Some(0) });
    modest.manages.schema = Some("{\"type\": \"object\"}".into());
    let own = check(modest, ALL).unwrap();
    assert_eq!(own.poll_every, Some(Duration::from_millis(100)));
    assert_eq!(own.watches[1].mapping, Mapping::Guest);
    assert_eq!(own.manages.schema.unwrap()["type"], "object");
}

#[test]
fn all_values_out_of_range_are_reported_at_once() {
    let mut bad = spec();
    bad.manages.plural = "Deployments".into();
    bad.manages.schema = Some("{".into());
    bad.watches = vec![watch("", wit::Mapping::Owner), watch("twice", wit::Mapping::Field("x".into()))];
    bad.watches.push(watch("twice", wit::Mapping::Label(String::new())));
    bad.watches.push(watch("noted", wit::Mapping::Annotation(String::new())));
    bad.poll_every = Some(99);
    bad.resync_every = Some(999);
    bad.backoff = Some(wit::Backoff { base: 0, max: 0, retries_max: None });
    bad.concurrency = Some(0);
    let found = paths(bad, ALL);
    for path in [
        "manages.plural",
        "manages.schema",
        "watches[0].name",
        "watches[1].mapping",
        "watches[2].name",
        "watches[2].mapping",
        "watches[3].mapping",
        "pollEvery",
        "resyncEvery",
        "backoff.base",
        "concurrency",
    ] {
        assert!(found.iter().any(|one| one == path), "{path} in {found:?}");
    }
}

#[test]
fn descriptions_that_need_an_export_are_refused_without_it() {
    let mut needy = spec();
    needy.watches = vec![watch("mine", wit::Mapping::Guest)];
    needy.poll_every = Some(1000);
    assert_eq!(paths(needy, NONE), ["watches[0].mapping", "pollEvery"]);
}

#[test]
fn a_mapping_that_reads_the_status_does_not_go_with_ignoring_it() {
    let mut deaf = spec();
    deaf.changes = wit::Changes::ButStatus;
    for (name, pointer) in [("spec", "/spec/app"), ("status", "/status/app"), ("other", "/statusText")] {
        let field = watch(name, wit::Mapping::Field(pointer.into()));
        deaf.watches.push(wit::Watch { changes: wit::Changes::ButStatus, ..field });
    }
    assert_eq!(paths(deaf.clone(), NONE), ["watches[1].changes"]);
    deaf.watches[1].changes = wit::Changes::All;
    let taken = check(deaf, NONE).unwrap();
    let changes = taken.watches.iter().map(|watch| watch.changes);
    assert!(changes.eq([Changes::ButStatus, Changes::All, Changes::ButStatus]));
    assert_eq!(taken.changes, Changes::ButStatus);
}

/// Returns the watch with another kind name.
fn of_other_kind(mut watch: wit::Watch) -> wit::Watch {
    watch.of.kind.name = "Node".into();
    watch
}

/// Returns the watch with a cluster-scoped kind.
fn of_cluster_scope(watch: wit::Watch) -> wit::Watch {
    let mut watch = of_other_kind(watch);
    watch.of.namespaced = false;
    watch
}

/// W3: of the four combinations of two scopes, one maps nowhere by a name alone.
#[test]
fn a_mapping_by_name_from_outside_of_namespaces_into_one_is_refused() {
    let by_name = || [wit::Mapping::Owner, wit::Mapping::SameName, wit::Mapping::Label("app".into())];
    let by_reference = || {
        let (annotation, field) = (wit::Mapping::Annotation("app".into()), wit::Mapping::Field("/spec/app".into()));
        [annotation, field, wit::Mapping::Guest]
    };
    let mixed = |mapping| {
        let watches = vec![of_cluster_scope(watch("nodes", mapping))];
        wit::ControllerSpec { watches, ..spec() }
    };
    for mapping in by_name() {
        assert_eq!(paths(mixed(mapping.clone()), ALL), ["watches[0].mapping"]);
        let reasons = check(mixed(mapping), ALL).unwrap_err();
        assert!(
            matches!(&reasons[..], [Reason::Description { reason, .. }] if reason.contains("`guest`")),
            "{reasons:?}"
        );
    }
    for mapping in by_reference() {
        assert!(check(mixed(mapping), ALL).is_ok(), "its keys can have a namespace");
    }
    for (manages_namespaced, watches_namespaced) in [(true, true), (false, true), (false, false)] {
        for mapping in by_name().into_iter().chain(by_reference()) {
            let mut fits = spec();
            fits.manages.namespaced = manages_namespaced;
            fits.watches = vec![of_other_kind(watch("others", mapping))];
            fits.watches[0].of.namespaced = watches_namespaced;
            assert!(check(fits, ALL).is_ok(), "{manages_namespaced} {watches_namespaced}");
        }
    }
}

#[test]
fn a_kind_with_both_roles_is_refused() {
    let mut torn = spec();
    torn.watches = vec![watch("parts", wit::Mapping::Owner), watch("others", wit::Mapping::SameName)];
    torn.watches[1].role = wit::Role::Tertiary;
    assert_eq!(paths(torn.clone(), ALL), ["watches[1].role"]);
    torn.watches[1] = of_other_kind(torn.watches[1].clone());
    assert!(check(torn, ALL).is_ok());
}

#[test]
fn the_number_of_watches_is_bounded() {
    let mut many = spec();
    many.watches = (0..33).map(|at| watch(&format!("w{at}"), wit::Mapping::Owner)).collect();
    assert_eq!(paths(many.clone(), ALL), ["watches"]);
    many.watches.pop();
    assert!(check(many, ALL).is_ok());
}

#[test]
fn an_unnamed_kind_is_refused() {
    let mut nameless = spec();
    nameless.manages.kind.name = String::new();
    assert_eq!(paths(nameless, ALL), ["manages.kind"]);
}

#[test]
fn intervals_are_capped_at_a_year() {
    let mut slow = spec();
    slow.resync_every = Some(u64::MAX);
    assert_eq!(check(slow, ALL).unwrap().resync_every, Some(Outcome::DELAY_MAX));
}
