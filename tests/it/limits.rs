//! The tables of `docs/limits.md`, which are written from the code.

use homeostat_component::{
    Amount, COMPILE_MEMORY_BYTES_BOUNDS, COMPILE_TIME_BOUNDS, FixedBound, LimitName, Limits, fixed_bounds,
};
use homeostat_runtime::manifest::{LIMIT_BOUNDS, LimitBounds, written};
use homeostat_store::embedded::Memory;
use homeostat_tests::repository;

/// The tests that measure memory: the file, the test that fills the memory, and the beginnings of the rows it
/// measures.
const MEASURED: [(&str, &str, &[&str]); 16] = [
    ("host/runtime/src/bounds/tests.rs", "measure_events", &["events of all", "bytes of the message of an event"]),
    (
        "host/runtime/src/bounds/tests.rs",
        "measure_logs",
        &["lines of the log", "bytes of the log of", "bytes of the logs of all"],
    ),
    (
        "host/runtime/src/bounds/tests.rs",
        "measure_changes",
        &[
            "changes in the write-ahead log",
            "bytes of these, with the documents before them",
            "bytes of recently written resources",
            "newest changes",
            "bytes of the newest changes",
        ],
    ),
    (
        "host/runtime/src/bounds/tests.rs",
        "measure_follows",
        &["bytes of resources and selectors that the keys of a controller follow"],
    ),
    ("host/runtime/src/bounds/tests.rs", "measure_longest_keys", &["keys on the queues", "bytes of the errors"]),
    (
        "host/component/src/grants/needs/tests.rs",
        "measure_needs",
        &["bytes of the needs that a controller was observed to have"],
    ),
    ("host/runtime/src/costs/tests.rs", "measure_costs", &["keys of a controller with costs", "bytes of these costs"]),
    (
        "host/runtime/src/controller_reconciler/sync_results/tests.rs",
        "measure_outcomes",
        &["sync results of removed", "bytes of these results"],
    ),
    ("host/runtime/src/feeders/guest_map/tests.rs", "measure_documents", &["bytes of documents of a watch"]),
    ("host/runtime/src/feeders/guest_map/tests.rs", "measure_led_to", &["keys returned by `map`"]),
    ("host/runtime/src/feeders/watch/tests.rs", "measure_owed", &["keys of deleted resources"]),
    (
        "host/runtime/src/shared_watches/tests.rs",
        "measure_shared",
        &["changes of a kind that feeders share", "bytes of these changes"],
    ),
    (
        "host/runtime/src/rollout/figures/tests.rs",
        "measure_figures",
        &["keys of which a rollout", "bytes of what it knows of them"],
    ),
    (
        "host/runtime/src/rollout/pinned_keys.rs",
        "measure_chosen",
        &["keys that the labels", "bytes of what it knows of these"],
    ),
    (
        "host/store/src/listing/changes_since/tests.rs",
        "measure_short_pasts",
        &["paginated lists", "bytes of the changed keys of these", "bytes of changed keys that one page"],
    ),
    ("host/store/src/listing/changes_since/tests.rs", "measure_long_pasts", &["bytes of the changed keys of these"]),
];

/// Returns the table of the named limits.
fn named() -> String {
    let mut table = "| limit | default | where it is set | counts |\n|---|---|---|---|\n".to_owned();
    for limit in LimitName::ALL {
        let bounds = LIMIT_BOUNDS.iter().find(|bounds| bounds.limit == limit);
        let chosen = |place: &str, least, most| format!("{place}, {} to {}", written(least), written(most));
        let field = match (bounds, limit) {
            (Some(LimitBounds { limit: _, field, least, most }), _) => chosen(&format!("`{field}`"), *least, *most),
            (None, LimitName::CompileTime) => {
                let (least, most) = COMPILE_TIME_BOUNDS.into_inner();
                chosen("`--compile-time` of the host", Amount::Time(least), Amount::Time(most))
            }
            (None, LimitName::CompileMemory) => {
                let (least, most) = COMPILE_MEMORY_BYTES_BOUNDS.into_inner();
                chosen("`--compile-memory` of the host", Amount::Bytes(least), Amount::Bytes(most))
            }
            (None, _) => "the same for every controller".to_owned(),
        };
        let default = written(Limits::default().amount(limit));
        table.push_str(&format!("| `{limit}` | {default} | {field} | {} |\n", limit.counts()));
    }
    table
}

/// Returns the table of the limits without a name.
fn fixed() -> String {
    let row = |FixedBound { what, most, then }| format!("| {what} | {} | {then} |\n", written(most));
    let rows: String = fixed_bounds().into_iter().map(row).collect();
    format!("| what | at most | above it |\n|---|---|---|\n{rows}")
}

/// Returns the bounds of everything that is kept in memory between calls.
fn all_kept() -> Vec<(FixedBound, Memory)> {
    let of_store = |kept: homeostat_store::embedded::MemoryBound| {
        let most = if kept.in_bytes { Amount::Bytes(kept.most) } else { Amount::Count(kept.most) };
        (FixedBound { what: kept.what, most, then: kept.then }, kept.memory)
    };
    let of_store = homeostat_store::embedded::memory_bounds().into_iter().map(of_store);
    homeostat_runtime::bounds::kept().into_iter().chain(of_store).collect()
}

/// Returns the table of the memory that is kept between calls.
fn kept() -> String {
    let row = |(FixedBound { what, most, then }, memory)| {
        let memory = match memory {
            Memory::Measured => "measured",
            Memory::Counted(why) => &format!("counted: {why}"),
        };
        format!("| {what} | {} | {then} | {memory} |\n", written(most))
    };
    let rows: String = all_kept().into_iter().map(row).collect();
    format!("| what | at most | above it | memory |\n|---|---|---|---|\n{rows}")
}

/// Replaces the table after the mark of this name.
fn with(document: &str, name: &str, table: &str) -> String {
    let mark = format!("<!-- {name} -->\n");
    let (before, behind) = document.split_once(&mark).unwrap_or_else(|| panic!("the mark {mark:?} is missing"));
    let rest = behind.lines().skip_while(|line| line.is_empty() || line.starts_with('|'));
    let rest = rest.collect::<Vec<_>>().join("\n");
    format!("{before}{mark}\n{table}\n{rest}\n")
}

#[test]
fn the_tables_of_limits_equal_the_code() {
    let path = repository().join("docs/limits.md");
    let document = std::fs::read_to_string(&path).unwrap();
    let text = with(&with(&with(&document, "limits", &named()), "fixed", &fixed()), "kept", &kept());
    #[expect(clippy::disallowed_methods, reason = "the switch that rewrites snapshots rewrites this one too")]
    let rewrite = std::env::var_os("INSTA_UPDATE").is_some_and(|update| update == "always");
    if rewrite && text != document {
        std::fs::write(&path, &text).unwrap();
        return;
    }
    let missing: Vec<_> = text.lines().filter(|line| !document.lines().any(|there| there == *line)).collect();
    assert!(
        text == document,
        "docs/limits.md is out of date: INSTA_UPDATE=always writes it anew. Missing:\n{missing:#?}"
    );
}

#[test]
fn every_memory_bound_is_measured_by_a_test_or_explains_why_counting_suffices() {
    let beginnings = |row: &str| {
        let all = MEASURED.iter().flat_map(|(.., rows)| *rows);
        all.filter(|beginning| row.starts_with(**beginning)).count()
    };
    for (FixedBound { what, .. }, memory) in all_kept() {
        match memory {
            Memory::Measured => assert!(beginnings(what) > 0, "{what:?}: no test measures its memory"),
            Memory::Counted(why) => assert!(!why.is_empty(), "{what:?}: why does counting it suffice?"),
        }
    }
    for (file, test, rows) in MEASURED {
        let source = std::fs::read_to_string(repository().join(file)).unwrap();
        assert!(source.contains("measured! {") && source.contains(&format!(" {test} {{\n")), "{file} has no {test}");
        for beginning in rows {
            let is_there = all_kept().iter().any(|(bound, _)| bound.what.starts_with(beginning));
            assert!(is_there, "no bound begins with {beginning:?}");
        }
    }
}
