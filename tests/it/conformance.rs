//! Checks that `tests/conformance.md` lists below each promise the tests that show it. People write the
//! promises. The lists come from the sources: a test shows the promises that its doc comment begins with.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use homeostat_tests::repository;

/// A test that shows some promises.
#[derive(Debug, PartialEq)]
struct Shows {
    name: String,
    promises: Vec<String>,
    /// Whether its comment also says in words what it shows.
    in_words: bool,
    is_ignored: bool,
}

/// Returns the tests of a source whose doc comment begins with codes of promises.
fn read(source: &str) -> Vec<Shows> {
    let mut found = Vec::new();
    let mut above = Above::default();
    let mut lines = source.lines().map(str::trim);
    while let Some(line) = lines.next() {
        if let Some(doc) = line.strip_prefix("///") {
            above.doc.get_or_insert(doc.trim());
        } else if line.starts_with("#[") {
            let mut attribute = line.to_owned();
            while !is_whole(&attribute) {
                let Some(more) = lines.next() else { break };
                attribute.push_str(more);
            }
            above.is_test |= is_test(&attribute);
            above.is_ignored |= attribute.starts_with("#[ignore");
        } else if !line.starts_with("//") {
            found.extend(above.shows(line));
            above = Above::default();
        }
    }
    found
}

/// The doc comment and the attributes above an item.
#[derive(Default)]
struct Above<'a> {
    /// The first line of its doc comment.
    doc: Option<&'a str>,
    is_test: bool,
    is_ignored: bool,
}

impl Above<'_> {
    /// Returns the promises that the item at `line` shows. `None` if it is no test, or its comment names no
    /// promise.
    fn shows(&self, line: &str) -> Option<Shows> {
        let (promises, in_words) = named(self.doc?);
        // A macro makes a test of each case of the store suite, once per store.
        let is_test = self.is_test || line.contains("(make: Make)");
        if promises.is_empty() || !is_test {
            return None;
        }
        let name = line.split_once("fn ").map_or(line, |(_, rest)| rest);
        let name = name.split(|character: char| !character.is_alphanumeric() && character != '_').next();
        let name = name.unwrap_or_default().to_owned();
        Some(Shows { name, promises, in_words, is_ignored: self.is_ignored })
    }
}

fn is_whole(attribute: &str) -> bool {
    attribute.matches('[').count() == attribute.matches(']').count()
}

fn is_test(attribute: &str) -> bool {
    let path = attribute.trim_start_matches("#[").split(['(', ']']).next().unwrap_or_default();
    path.rsplit("::").next() == Some("test")
}

/// Returns the codes at the beginning of a doc comment, `Q3` and `T8` of `Q3, T8: why`, and whether words follow
/// them.
fn named(doc: &str) -> (Vec<String>, bool) {
    let (mut names, mut in_words) = (Vec::new(), false);
    for word in doc.split(", ") {
        let name: String = word.chars().take_while(char::is_ascii_alphanumeric).collect();
        let mut characters = name.chars();
        let is_name = characters.next().is_some_and(|first| "QTPBWCS".contains(first))
            && (1..=2).contains(&characters.as_str().len())
            && characters.all(|character| character.is_ascii_digit());
        if !is_name {
            break;
        }
        let rest = &word[name.len()..];
        names.push(name);
        if !rest.is_empty() {
            in_words = rest.starts_with(": ");
            break;
        }
    }
    (names, in_words)
}

/// Reads every source below `folder` into `found`, by its path in the repository.
fn sources(folder: &Path, found: &mut BTreeMap<String, Vec<Shows>>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() && !name.starts_with('.') && name != "target" {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let place = path.strip_prefix(repository()).unwrap().to_string_lossy().into_owned();
            found.insert(place, read(&std::fs::read_to_string(&path).unwrap()));
        }
    }
}

/// Returns the tests of each promise, and the problems of tests.
fn tests() -> (BTreeMap<String, BTreeSet<String>>, Vec<String>) {
    let (mut found, mut tests, mut wrong) = (BTreeMap::new(), BTreeMap::<_, BTreeSet<_>>::new(), Vec::new());
    sources(repository(), &mut found);
    for (place, Shows { name, promises, in_words, is_ignored }) in
        found.into_iter().flat_map(|(place, all)| all.into_iter().map(move |shows| (place.clone(), shows)))
    {
        let test = format!("{place}::{name}");
        if !in_words {
            wrong.push(format!("{test} shows {promises:?} and does not say so in words: `/// {}: why`", promises[0]));
        }
        if is_ignored {
            wrong.push(format!("{test} shows {promises:?} and is ignored"));
        }
        for promise in promises {
            tests.entry(promise).or_default().insert(test.clone());
        }
    }
    (tests, wrong)
}

/// Returns the code of the promise that a line of the document states.
fn promise(line: &str) -> Option<&str> {
    Some(line.strip_prefix("* **")?.split_once("** ")?.0)
}

/// Returns the document with these tests below each promise, and the problems of promises.
fn written(document: &str, mut tests: BTreeMap<String, BTreeSet<String>>) -> (String, Vec<String>) {
    let (mut text, mut wrong) = (String::new(), Vec::new());
    for line in document.lines().filter(|line| !line.starts_with("  * `")) {
        text.push_str(&format!("{line}\n"));
        let Some(promise) = promise(line) else { continue };
        let shown = tests.remove(promise).unwrap_or_default();
        if shown.is_empty() {
            wrong.push(format!("{promise} is shown by no test"));
        }
        text.extend(shown.iter().map(|test| format!("  * `{test}`\n")));
    }
    wrong.extend(tests.into_iter().map(|(promise, tests)| format!("{promise} is no promise: {tests:?}")));
    (text, wrong)
}

#[test]
fn every_promise_lists_exactly_the_tests_that_show_it() {
    let path = repository().join("tests/conformance.md");
    let document = std::fs::read_to_string(&path).unwrap();
    let (tests, mut wrong) = tests();
    let (text, more) = written(&document, tests);
    wrong.extend(more);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    #[expect(clippy::disallowed_methods, reason = "the switch that rewrites snapshots rewrites this one too")]
    let rewrite = std::env::var_os("INSTA_UPDATE").is_some_and(|update| update == "always");
    if rewrite && text != document {
        std::fs::write(&path, &text).unwrap();
        return;
    }
    let (now, then): (BTreeSet<&str>, BTreeSet<&str>) = (text.lines().collect(), document.lines().collect());
    let (missing, gone): (Vec<_>, Vec<_>) = (now.difference(&then).collect(), then.difference(&now).collect());
    assert!(
        text == document,
        "tests/conformance.md is out of date: missing {missing:#?}, gone {gone:#?}; \
         INSTA_UPDATE=always cargo test -p homeostat-tests conformance writes it anew"
    );
}

#[test]
fn a_promise_is_read_from_a_doc_comment_despite_attributes_in_between() {
    let source = r#"
        | /// Q3, T8: why
        | /// C1 is not named here.
        | #[expect(
        |     clippy::unwrap_used,
        |     reason = "[the message]"
        | )]
        | // A remark.
        | #[tokio::test(start_paused = true)]
        | async fn one() {}
        | /// W1, W2 and what was there before.
        | #[test]
        | #[ignore = "slow"]
        | fn two() {}
        | /// B13
        | pub fn three() {}
        | /// T20x, and Queue.
        | #[test]
        | fn four() {}
        | #[cfg(test)]
        | mod five {}
    "#;
    let shows = |name: &str, promises: &[&str], in_words, is_ignored| {
        let promises = promises.iter().map(ToString::to_string).collect();
        Shows { name: name.into(), promises, in_words, is_ignored }
    };
    let wanted = [shows("one", &["Q3", "T8"], true, false), shows("two", &["W1", "W2"], false, true)];
    // The bars keep this text from being read as a part of this file.
    assert_eq!(read(&source.replace("| ", "")), wanted);
}

#[test]
fn a_promise_without_a_test_and_a_test_of_an_unknown_promise_are_reported() {
    let document = "* **Q1** One.\n  * `gone.rs::old`\n* **Q2** Two.\n";
    let tests = [("Q1", "a.rs::one"), ("Q99", "a.rs::two")];
    let tests = tests.map(|(promise, test)| (promise.to_owned(), BTreeSet::from([test.to_owned()])));
    let (text, wrong) = written(document, tests.into());
    assert_eq!(text, document.replace("gone.rs::old", "a.rs::one"));
    assert_eq!(wrong, ["Q2 is shown by no test", "Q99 is no promise: {\"a.rs::two\"}"]);
}
