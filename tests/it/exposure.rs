//! Checks the tables of `docs/security.md`, which list every path on which contents, or the existence of a
//! resource, could leak, with its bound. The paths come from the contract and the sources. A path without a
//! row fails the test, and so does a row whose test is gone.

use std::collections::BTreeSet;
use std::path::Path;

use homeostat_tests::repository;

/// One row of the tables.
#[derive(Debug, PartialEq)]
struct Row {
    path: String,
    /// Each as `file.rs::name`.
    tests: Vec<String>,
}

fn text(path: &str) -> String {
    std::fs::read_to_string(repository().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Returns the rows of the table below a heading.
fn rows(document: &str, heading: &str) -> Vec<Row> {
    let lines = document.lines().skip_while(|line| *line != heading).skip(1).take_while(|line| !line.starts_with('#'));
    lines.filter(|line| line.starts_with("| ") && !line.starts_with("| path |")).map(row).collect()
}

fn row(line: &str) -> Row {
    let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
    let quoted = |cell: &str| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>();
    let path = cells[0].replace('`', "");
    Row { path, tests: cells.last().map(|cell| quoted(cell)).unwrap_or_default() }
}

/// Returns the functions of the contract, as `store.get`.
fn functions(wit: &str) -> BTreeSet<String> {
    let mut interface = "";
    let mut found = BTreeSet::new();
    for line in wit.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix("interface ") {
            interface = name.trim_end_matches(" {");
        } else if let Some((name, _)) = line.split_once(": func(") {
            found.insert(format!("{interface}.{}", name.trim_start_matches('%')));
        }
    }
    found
}

/// Returns the cases of a variant of the contract, as `store-error.not-found`.
fn cases(wit: &str, variant: &str) -> BTreeSet<String> {
    let begin = format!("variant {variant} {{");
    let lines = wit.lines().map(str::trim).skip_while(|line| *line != begin).skip(1).take_while(|line| *line != "}");
    let cases = lines.filter(|line| !line.starts_with("//") && !line.is_empty());
    cases.map(|line| format!("{variant}.{}", line.split(['(', ',']).next().unwrap_or_default())).collect()
}

/// Returns the imports of all effects. An effect whose import another function computes stands as
/// `effect.Reach`.
fn imports(source: &str) -> BTreeSet<String> {
    let body = source.lines().skip_while(|line| !line.contains("pub fn import(")).take_while(|line| *line != "    }");
    let mut found = BTreeSet::new();
    let mut open = None;
    for line in body.map(str::trim) {
        let effect = line.strip_prefix("Self::").map(|arm| arm.split([' ', '(', '{']).next().unwrap_or_default());
        if let Some(effect) = effect {
            found.extend(open.replace(format!("effect.{effect}")));
        }
        let literals: Vec<String> = line.split('"').skip(1).step_by(2).map(str::to_owned).collect();
        if !literals.is_empty() {
            open = None;
            found.extend(literals);
        }
    }
    found.extend(open);
    found
}

/// Returns the feeders that the sources of a folder implement, without those of tests.
fn feeders(folder: &Path) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(feeders(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") && !path.ends_with("tests.rs") {
            let source = std::fs::read_to_string(&path).unwrap();
            let names = source.lines().filter_map(|line| line.strip_prefix("impl Feeder for "));
            found.extend(names.map(|name| name.trim_end_matches(" {").to_owned()));
        }
    }
    found
}

/// Returns the problems of a table: paths without a row, rows without a path, and rows without an existing
/// test.
fn problems(rows: &[Row], paths: &BTreeSet<String>, has_test: impl Fn(&str) -> bool) -> Vec<String> {
    let known: BTreeSet<String> = rows.iter().map(|row| row.path.clone()).collect();
    let missing = paths.difference(&known).map(|path| format!("{path} has no row"));
    let gone = known.difference(paths).map(|path| format!("the row {path} is about nothing"));
    let untested =
        rows.iter().filter(|row| row.tests.is_empty()).map(|row| format!("the row {} has no test", row.path));
    let tests = rows.iter().flat_map(|row| row.tests.iter().map(move |test| (row, test)));
    let absent =
        tests.filter(|(_, test)| !has_test(test)).map(|(row, test)| format!("{}: there is no {test}", row.path));
    missing.chain(gone).chain(untested).chain(absent).collect()
}

/// Returns whether a source has the test that `file.rs::name` names.
pub(crate) fn has_test(test: &str) -> bool {
    let Some((file, name)) = test.split_once("::") else { return false };
    std::fs::read_to_string(repository().join(file)).is_ok_and(|source| source.contains(&format!("fn {name}(")))
}

#[test]
fn every_import_and_export_has_a_row_and_a_test() {
    let wit = ["wit/guest.wit", "wit/host.wit"].map(text).concat();
    let mut paths = functions(&wit);
    assert!(paths.contains("store.list") && paths.contains("mapper.map"), "{paths:?}");
    paths.extend(imports(&text("host/component/src/effect.rs")));
    let found = problems(&rows(&text("docs/security.md"), "## By import and export"), &paths, has_test);
    assert!(found.is_empty(), "docs/security.md: {found:#?}");
}

#[test]
fn every_error_of_the_store_has_a_row_and_a_test() {
    let paths = cases(&text("wit/types.wit"), "store-error");
    assert!(paths.contains("store-error.not-found") && paths.len() >= 9, "{paths:?}");
    let found = problems(&rows(&text("docs/security.md"), "## By error"), &paths, has_test);
    assert!(found.is_empty(), "docs/security.md: {found:#?}");
}

#[test]
fn everything_that_wakes_a_guest_has_a_row_and_a_test() {
    let paths = feeders(&repository().join("host/runtime/src"));
    assert!(paths.contains("WatchFeeder"), "{paths:?}");
    let found = problems(&rows(&text("docs/security.md"), "## By what wakes a guest"), &paths, has_test);
    assert!(found.is_empty(), "docs/security.md: {found:#?}");
}

#[test]
fn everything_that_an_observer_sees_has_a_test() {
    let rows = rows(&text("docs/security.md"), "## By observer");
    let paths = rows.iter().map(|row| row.path.clone()).collect();
    let found = problems(&rows, &paths, has_test);
    assert!(rows.len() >= 5 && found.is_empty(), "docs/security.md: {found:#?}");
}

#[test]
fn a_path_without_a_row_and_a_row_without_a_test_are_reported() {
    let document = "## Other\n| `x` | | | `a.rs::b` |\n## Table\n| path | tells | test |\n|---|---|---|\n\
        | `store.get` | contents | `a.rs::one`, `a.rs::gone` |\n| `store.old` | | |\n# Next\n| `y` | | `a.rs::b` |\n";
    let rows = rows(document, "## Table");
    assert_eq!(rows.iter().map(|row| row.path.as_str()).collect::<Vec<_>>(), ["store.get", "store.old"]);
    let paths = functions("interface store {\n  get: func(key: key) -> result;\n  %list: func() -> page;\n}");
    let found = problems(&rows, &paths, |test| test == "a.rs::one");
    let wanted = [
        "store.list has no row",
        "the row store.old is about nothing",
        "the row store.old has no test",
        "store.get: there is no a.rs::gone",
    ];
    assert_eq!(found, wanted);
    assert_eq!(
        cases("variant e {\n /// One.\n one(string),\n two,\n}", "e"),
        BTreeSet::from(["e.one".into(), "e.two".into()])
    );
    let arms =
        ["Self::A => \"a.b\",", "Self::C(c) => c.name(),", "Self::D { .. } => match d {", "D => \"c:d/e\",", "},"];
    let source = format!("    pub fn import(&self) -> &str {{\n{}\n    }}\n \"f\"", arms.join("\n"));
    assert_eq!(imports(&source), ["a.b", "c:d/e", "effect.C"].map(str::to_owned).into());
}
