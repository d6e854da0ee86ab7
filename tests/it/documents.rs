//! The documents name files that exist, the journey of a key passes few of them, and the names of tests are
//! short.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use homeostat_tests::repository;

use crate::exposure::has_test;

/// The folders that a path in a document may start with. ARCHITECTURE.md writes paths below `host` without it.
const FOLDERS: [&str; 8] = ["host", "tests", "guest-sdk", "wit", "docs", "examples", "dashboards", ".ci"];

/// The maximum number of files with a step of a key's journey.
const JOURNEY_FILES_MAX: usize = 24;

/// The maximum length of ARCHITECTURE.md, so that it is read in one sitting.
const MAP_LINES_MAX: usize = 260;
const MAP_WORDS_MAX: usize = 4200;

/// The maximum length of the name of a test.
const TEST_NAME_CHARS_MAX: usize = 80;

/// Returns the files with this ending below a folder, without what builds and tools leave there. Templates are documents
/// of another folder.
fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        match path.is_dir() {
            true if !name.starts_with('.')
                && !["target", "shared", "node_modules", "templates"].contains(&name.as_str()) =>
            {
                found.extend(files(&path, ending));
            }
            false if name.ends_with(ending) => found.push(path),
            _ => {}
        }
    }
    found
}

/// Returns the paths in backticks that start with a folder of the repository. Patterns and placeholders are no paths.
fn paths(text: &str) -> Vec<String> {
    let quoted = text.split('`').skip(1).step_by(2);
    let is_path = |path: &&str| {
        let first = path.split('/').next().unwrap_or_default();
        let is_plain = path.chars().all(|letter| letter.is_ascii_alphanumeric() || "/_-.".contains(letter));
        let is_built = path.starts_with("host/target") || path.contains("/target/");
        FOLDERS.contains(&first) && path.contains('/') && is_plain && !is_built && !path.contains("..")
    };
    quoted.filter(is_path).map(str::to_owned).collect()
}

/// Returns the targets of the links to files, without their anchors.
fn links(text: &str) -> Vec<String> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let files = targets.filter(|target| !target.contains("://") && !target.starts_with('#') && !target.contains(' '));
    files.map(|target| target.split('#').next().unwrap_or_default().to_owned()).collect()
}

/// Returns the paths of a document that do not exist.
fn missing(document: &Path, text: &str) -> Vec<String> {
    let folder = document.parent().unwrap();
    let paths = paths(text).into_iter().filter(|path| !repository().join(path).exists());
    let links = links(text).into_iter().filter(|link| !folder.join(link).exists());
    paths.chain(links).collect()
}

#[test]
fn documents_name_only_files_that_exist() {
    let documents = files(repository(), ".md");
    assert!(documents.len() > 20, "the documents are elsewhere");
    for document in documents {
        let text = std::fs::read_to_string(&document).unwrap();
        let missing = missing(&document, &text);
        assert!(missing.is_empty(), "{} names {missing:?}", document.display());
    }
}

/// Returns what the last cell of each row of a document's tables names in backticks.
fn last_cells(document: &str) -> Vec<Vec<&str>> {
    let rows = document.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| there |"));
    let cells = rows.map(|row| row.trim_end_matches(" |").rsplit("| ").next().unwrap_or_default());
    cells.map(|cell| cell.split('`').skip(1).step_by(2).collect()).collect()
}

#[test]
fn every_example_of_a_predecessor_is_shown_by_a_test_or_an_example_that_exists() {
    let document = std::fs::read_to_string(repository().join("docs/seeds.md")).unwrap();
    let rows = last_cells(&document);
    assert!(rows.len() > 20, "the tables are elsewhere");
    for row in rows {
        assert!(!row.is_empty(), "a row names nothing");
        for shown in row {
            let exists = has_test(shown) || shown.starts_with("examples/") && repository().join(shown).exists();
            assert!(exists, "there is no {shown}");
        }
    }
}

#[test]
fn the_map_names_only_modules_that_exist() {
    let text = std::fs::read_to_string(repository().join("ARCHITECTURE.md")).unwrap();
    let crates = ["api", "cli", "component", "registry", "runtime", "store", "workqueue"];
    let quoted =
        text.split('`').skip(1).step_by(2).filter(|path| {
            crates.iter().any(|name| path.strip_prefix(name).is_some_and(|rest| rest.starts_with("/src/")))
        });
    let quoted: Vec<&str> = quoted.collect();
    assert!(quoted.len() > 50, "the map writes its paths in another way");
    for path in quoted {
        assert!(repository().join("host").join(path).exists(), "ARCHITECTURE.md names host/{path}");
    }
}

/// Returns the source files that the first table after a heading names.
fn files_of_table<'a>(text: &'a str, heading: &str) -> BTreeSet<&'a str> {
    let section = text.split_once(heading).expect("the map has the heading").1;
    let table = section.lines().skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'));
    let quoted = table.flat_map(|row| row.split('`').skip(1).step_by(2));
    quoted.filter(|path| path.contains("/src/") && path.ends_with(".rs")).collect()
}

#[test]
fn the_journey_of_a_key_passes_at_most_24_files() {
    let text = std::fs::read_to_string(repository().join("ARCHITECTURE.md")).unwrap();
    let files = files_of_table(&text, "## The journey of a key");
    assert!(files.len() > 12, "the map writes the journey in another way: {files:?}");
    assert!(files.len() <= JOURNEY_FILES_MAX, "{} files have a step of the journey: {files:?}", files.len());
}

#[test]
fn the_map_has_at_most_260_lines_and_4200_words() {
    let text = std::fs::read_to_string(repository().join("ARCHITECTURE.md")).unwrap();
    let (lines, words) = (text.lines().count(), text.split_whitespace().count());
    assert!(lines <= MAP_LINES_MAX, "ARCHITECTURE.md has {lines} lines");
    assert!(words <= MAP_WORDS_MAX, "ARCHITECTURE.md has {words} words");
}

/// Returns the names of the tests in the text of a source file.
fn test_names(text: &str) -> Vec<&str> {
    let (mut names, mut is_test) = (Vec::new(), false);
    for line in text.lines().map(str::trim_start) {
        is_test |= ["#[test]", "#[tokio::test"].iter().any(|attribute| line.starts_with(attribute));
        if let Some((_, rest)) = line.split_once("fn ").filter(|_| is_test && !line.starts_with("//")) {
            names.extend(rest.split('(').next());
            is_test = false;
        }
    }
    names
}

#[test]
fn the_name_of_a_test_has_at_most_80_characters() {
    let mut found = 0;
    for path in files(repository(), ".rs") {
        let text = std::fs::read_to_string(&path).unwrap();
        for name in test_names(&text) {
            found += 1;
            let length = name.chars().count();
            assert!(length <= TEST_NAME_CHARS_MAX, "{} has {length} characters: {}", name, path.display());
        }
    }
    assert!(found > 1000, "the tests are elsewhere: {found}");
}

#[test]
fn the_names_of_tests_are_found() {
    let text =
        "#[test]\nfn a() {}\nfn b() {}\n#[tokio::test(start_paused = true)]\n/// fn x\n#[ignore]\nasync fn c() {}\n";
    assert_eq!(test_names(text), ["a", "c"]);
}

#[test]
fn only_the_first_table_after_a_heading_is_read() {
    let text = "`z/src/z.rs`\n# A\n`y/src/y.rs`\n\n| `Type` | `a/src/a.rs`, `b/src/b.rs` |\n| x | `a/src/a.rs` |\n\n| `c/src/c.rs` |";
    assert_eq!(files_of_table(text, "# A").into_iter().collect::<Vec<_>>(), ["a/src/a.rs", "b/src/b.rs"]);
}

#[test]
fn a_missing_file_is_detected() {
    let document = repository().join("docs/x.md");
    assert_eq!(
        missing(&document, "see `host/none/src/lib.rs` and [this](none.md#part)"),
        ["host/none/src/lib.rs", "none.md"]
    );
    let fine = "`tests/it/main.rs`, `host/*/src`, `a/b`, [a](../README.md), [b](https://a.b/c), [c](#part)";
    assert_eq!(missing(&document, fine), [""; 0]);
}
