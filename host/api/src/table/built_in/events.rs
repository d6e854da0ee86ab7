//! The columns of events, in both of their groups.
//!
//! Source: `printEvent` in `pkg/printers/internalversion/printers.go` of Kubernetes.

use serde_json::Value;

use crate::table::TableColumn;
use crate::table::cells::text;
use crate::table::columns::{age_since, column, computed, first_at, name_column, text_at, wide};

/// Where an event may have the time of its first occurrence.
const FIRST: [&str; 3] = ["/firstTimestamp", "/deprecatedFirstTimestamp", "/eventTime"];
/// Where an event may have the time of its last occurrence.
const LAST: [&str; 6] = [
    "/series/lastObservedTime",
    "/lastTimestamp",
    "/deprecatedLastTimestamp",
    "/firstTimestamp",
    "/deprecatedFirstTimestamp",
    "/eventTime",
];

/// Returns all columns of events.
pub(in crate::table) fn columns() -> Vec<TableColumn> {
    let part = |event: &Value| either(event, "/involvedObject/fieldPath", "/regarding/fieldPath").into();
    vec![
        age_since("Last Seen", first_at(&LAST)),
        column("Type", "string", text_at("/type")),
        column("Reason", "string", text_at("/reason")),
        column("Object", "string", computed(object)),
        wide("Subobject", "string", computed(part)),
        wide("Source", "string", computed(source)),
        column("Message", "string", computed(|event| either(event, "/message", "/note").trim().into())),
        TableColumn { priority: 1, ..age_since("First Seen", first_at(&FIRST)) },
        wide("Count", "string", computed(occurrences)),
        name_column(1),
    ]
}

/// Returns the first of two texts that is not empty.
fn either<'d>(event: &'d Value, one: &str, other: &str) -> &'d str {
    match text(event, one) {
        "" => text(event, other),
        found => found,
    }
}

/// Returns the kind and the name of the resource that an event is about: `deployment/web`.
fn object(event: &Value) -> Value {
    let kind = either(event, "/involvedObject/kind", "/regarding/kind").to_lowercase();
    match either(event, "/involvedObject/name", "/regarding/name") {
        "" => kind.into(),
        name => format!("{kind}/{name}").into(),
    }
}

/// Returns the program that reported an event and where it runs: `kubelet, one`.
fn source(event: &Value) -> Value {
    let first = |places: &[&str]| {
        let mut texts = places.iter().map(|place| text(event, place));
        texts.find(|found| !found.is_empty()).unwrap_or_default()
    };
    let program =
        first(&["/source/component", "/deprecatedSource/component", "/reportingComponent", "/reportingController"]);
    match first(&["/source/host", "/deprecatedSource/host", "/reportingInstance"]) {
        "" => program.into(),
        place => format!("{program}, {place}").into(),
    }
}

/// Returns how often an event happened: once, if it does not say it.
fn occurrences(event: &Value) -> Value {
    let places = ["/series/count", "/count", "/deprecatedCount"];
    let counts = places.into_iter().filter_map(|place| event.pointer(place)?.as_u64());
    counts.into_iter().find(|count| *count > 0).unwrap_or(1).into()
}
