//! The table of all limits, which is written from the code.

use homeostat_component::{
    Amount, COMPILE_MEMORY_BYTES_BOUNDS, COMPILE_TIME_BOUNDS, FixedBound, LimitName, Limits, fixed_bounds,
};
use homeostat_runtime::manifest::{LIMIT_BOUNDS, LimitBounds, written};
use homeostat_tests::repository;

/// Returns the table of the limits that have a name.
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

/// Returns the table of those that have none.
fn fixed() -> String {
    let row = |FixedBound { what, most, then }| format!("| {what} | {} | {then} |\n", written(most));
    let rows: String = fixed_bounds().into_iter().map(row).collect();
    format!("| what | at most | above it |\n|---|---|---|\n{rows}")
}

/// Returns the table of what is kept between calls.
fn kept() -> String {
    let row = |FixedBound { what, most, then }| format!("| {what} | {} | {then} |\n", written(most));
    let of_store = |kept: homeostat_store::embedded::MemoryBound| {
        let most = if kept.in_bytes { Amount::Bytes(kept.most) } else { Amount::Count(kept.most) };
        FixedBound { what: kept.what, most, then: kept.then }
    };
    let of_store = homeostat_store::embedded::memory_bounds().into_iter().map(of_store);
    let rows: String = homeostat_runtime::bounds::kept().into_iter().chain(of_store).map(row).collect();
    format!("| what | at most | above it |\n|---|---|---|\n{rows}")
}

/// Puts the table behind the mark of this name, instead of the one that stands there.
fn with(document: &str, name: &str, table: &str) -> String {
    let mark = format!("<!-- {name} -->\n");
    let (before, behind) = document.split_once(&mark).unwrap_or_else(|| panic!("the mark {mark:?} is missing"));
    let rest = behind.lines().skip_while(|line| line.is_empty() || line.starts_with('|'));
    let rest = rest.collect::<Vec<_>>().join("\n");
    format!("{before}{mark}\n{table}\n{rest}\n")
}

#[test]
fn the_table_of_limits_says_what_the_code_says() {
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
