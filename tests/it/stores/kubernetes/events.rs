//! Events of the host about resources of a cluster.

use std::sync::Arc;
use std::time::Duration;

use homeostat_kubernetes::{Cluster, ClusterSettings, EventOutlet, EventRecord};
use homeostat_store::cached::Upstream;
use homeostat_store::{Key, Kind, Query, Resource, Selector};
use homeostat_testing::eventually;

use super::{cluster_settings, cluster_store, cluster_store_with, created, namespace, widgets};

fn event(about: &Resource, note: &str, count: u64) -> EventRecord {
    EventRecord {
        controller: "widgets".to_owned(),
        regarding: about.key().clone(),
        uid: about.uid().to_owned(),
        reason: "Scaled".to_owned(),
        note: note.to_owned(),
        is_warning: false,
        count,
    }
}

async fn written(store: &Cluster, namespace: &str) -> Vec<Arc<Resource>> {
    let selector = Selector { namespace: Some(namespace.to_owned()), ..Selector::default() };
    let kind = Kind::new("events.k8s.io", "v1", "Event");
    store.list(&Query { selector, ..Query::all(kind) }).await.unwrap().items
}

#[tokio::test]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
async fn an_event_is_written_once_and_a_flood_is_bounded() {
    let store = cluster_store().await;
    let namespace = namespace(&store).await;
    let widget = created(&store, &Key::new(widgets(), &namespace, "a")).await;
    let outlet = EventOutlet::start(Arc::clone(&store), "host-1");
    for count in 3..6 {
        outlet.record(event(&widget, "three pods", count));
    }
    for number in 0..500 {
        outlet.record(event(&widget, &format!("note {number}"), 1));
    }
    let other = created(&store, &Key::new(widgets(), &namespace, "b")).await;
    outlet.record(event(&other, "last", 1));
    let all = || async {
        let all = written(&store, &namespace).await;
        all.iter().any(|one| one.document()["note"] == "last").then_some(all)
    };
    let all = eventually("the last event is written", all).await;
    // A resource has 25 events at once: the first one counts its repetitions, and most of the others are dropped.
    assert_eq!(all.len(), 25 + 1);
    let of = |note: &str| all.iter().filter(|one| one.document()["note"] == note).collect::<Vec<_>>();
    let first = of("three pods");
    assert_eq!((first.len(), &first[0].document()["series"]["count"]), (1, &serde_json::json!(3)));
    let document = first[0].document();
    assert_eq!(document["regarding"]["uid"], widget.uid());
    assert_eq!(document["reportingController"], "homeostat.dev/widgets");
    assert_eq!(document["reportingInstance"], "host-1");
}

/// The cluster counts the repetitions of an event in its `series`, with one write for all of an interval.
#[tokio::test]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
async fn repetitions_of_an_event_are_counted_in_the_cluster() {
    let event_interval = Duration::from_secs(1);
    let store = cluster_store_with(ClusterSettings { event_interval, ..cluster_settings("admin") }).await;
    let namespace = namespace(&store).await;
    let widget = created(&store, &Key::new(widgets(), &namespace, "a")).await;
    let outlet = EventOutlet::start(Arc::clone(&store), "host-1");
    let counts = |wanted: u64| {
        let (store, namespace) = (&store, &namespace);
        move || async move {
            let all = written(store, namespace).await;
            let [one] = all.as_slice() else { return None };
            (one.document()["series"]["count"] == wanted).then(|| one.revision())
        }
    };
    outlet.record(event(&widget, "three pods", 1));
    let is_there = || async { (written(&store, &namespace).await.len() == 1).then_some(()) };
    eventually("the event is written", is_there).await;
    for count in 2..=7 {
        outlet.record(event(&widget, "three pods", count));
    }
    let first = eventually("the repetitions are counted", counts(7)).await;
    for count in 8..=20 {
        outlet.record(event(&widget, "three pods", count));
    }
    let second = eventually("later repetitions are counted", counts(20)).await;
    assert!(second > first);
}
