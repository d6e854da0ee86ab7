//! Checks the dependencies between the modules of each crate, from the imports in the sources.
//!
//! A module is a file beside `lib.rs` or `main.rs`, with all files in the folder of its name. It imports
//! another module by a path from `crate` or `super`. A name that the root of the crate re-exports counts as
//! an import of its module. Tests may import any module.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use homeostat_tests::repository;

/// The maximum number of modules that import each other.
const CIRCLE_MAX: usize = 3;

/// The modules of a crate, each with the modules that it imports.
type Arrows = BTreeMap<String, BTreeSet<String>>;

/// Returns the paths in the imports of a source, with braces expanded: `a::{b, c::D}` is `a::b` and
/// `a::c::D`.
fn imports(code: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices("use ") {
        let before = code[..at].rsplit('\n').next().unwrap_or_default().trim_start();
        let is_import = before.is_empty() || before.starts_with("pub") && before.trim_end().ends_with(['b', ')']);
        let Some(end) = code[at..].find(';').filter(|_| is_import) else { continue };
        let tree: String = code[at + 4..at + end].split_whitespace().collect::<Vec<_>>().join(" ");
        // A line of a string literal may start with `use` too.
        if tree.chars().all(|letter| letter.is_alphanumeric() || "_:{}*, ".contains(letter)) {
            take_apart("", &tree, &mut found);
        }
    }
    found
}

fn take_apart(prefix: &str, tree: &str, found: &mut Vec<String>) {
    let Some(open) = tree.find('{') else {
        found.push(format!("{prefix}{}", tree.trim()));
        return;
    };
    let prefix = format!("{prefix}{}", tree[..open].trim());
    let inner = &tree[open + 1..tree.rfind('}').expect("a brace that is opened is closed")];
    let (mut depth, mut start) = (0, 0);
    for (at, letter) in inner.char_indices().chain([(inner.len(), ',')]) {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                if !inner[start..at].trim().is_empty() {
                    take_apart(&prefix, inner[start..at].trim(), found);
                }
                start = at + 1;
            }
            _ => {}
        }
    }
}

/// Returns the code of a file up to its tests, without comments.
fn code(path: &Path) -> String {
    let text = std::fs::read_to_string(path).unwrap();
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default().to_owned();
    text.lines().map(|line| line.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join("\n")
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut found = Vec::new();
    for path in entries.map(|entry| entry.unwrap().path()) {
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        match path.is_dir() {
            true if name != "tests" => found.extend(sources(&path)),
            false if name.ends_with(".rs") && name != "tests.rs" && name != "fixture.rs" => found.push(path),
            _ => {}
        }
    }
    found
}

/// Returns the module that a path starts with, either itself or the origin of a name that the root
/// re-exports.
fn module_of(name: &str, modules: &BTreeSet<String>, exported: &BTreeMap<String, String>) -> Option<String> {
    if modules.contains(name) { Some(name.to_owned()) } else { exported.get(name).cloned() }
}

/// Returns the imports between the modules of a crate. `files` are pairs of a path below `src` and its code.
fn arrows(files: &[(String, String)]) -> Arrows {
    let is_root = |path: &str| path == "lib.rs" || path == "main.rs";
    let top = |path: &str| path.split('/').next().unwrap().trim_end_matches(".rs").to_owned();
    let modules: BTreeSet<String> =
        files.iter().filter(|(path, _)| !is_root(path)).map(|(path, _)| top(path)).collect();
    let root = files.iter().find(|(path, _)| is_root(path)).map_or("", |(_, code)| code.as_str());
    let mut exported = BTreeMap::new();
    for path in imports(root) {
        let (path, alias) = path.split_once(" as ").map_or((path.as_str(), None), |(path, alias)| (path, Some(alias)));
        let path = path.trim_start_matches("crate::").trim_start_matches("self::");
        let (first, last) = (path.split("::").next().unwrap(), path.rsplit("::").next().unwrap());
        if modules.contains(first) {
            exported.insert(alias.unwrap_or(last).to_owned(), first.to_owned());
        }
    }
    let mut arrows: Arrows = modules.iter().map(|module| (module.clone(), BTreeSet::new())).collect();
    for (path, code) in files.iter().filter(|(path, _)| !is_root(path)) {
        let (from, level) = (top(path), path.split('/').count());
        let inline = code.match_indices("crate::").map(|(at, _)| code[at..].to_owned());
        for import in imports(code).into_iter().chain(inline) {
            let ups = import.split("::").take_while(|part| *part == "super").count();
            let below = match import.strip_prefix("crate::") {
                Some(below) => below,
                // As many `super` as the file is deep lead to the root.
                None if ups >= level => &import[ups * "super::".len()..],
                None => continue,
            };
            let end = below.find(|letter: char| !letter.is_alphanumeric() && letter != '_').unwrap_or(below.len());
            if let Some(to) = module_of(&below[..end], &modules, &exported).filter(|to| *to != from) {
                arrows.get_mut(&from).unwrap().insert(to);
            }
        }
    }
    arrows
}

/// Returns all modules that a module imports, directly or through others.
fn reached(from: &str, arrows: &Arrows) -> BTreeSet<String> {
    let (mut found, mut open) = (BTreeSet::new(), vec![from.to_owned()]);
    while let Some(module) = open.pop() {
        for to in &arrows[&module] {
            if found.insert(to.clone()) {
                open.push(to.clone());
            }
        }
    }
    found
}

/// Returns the largest set of modules that all reach each other.
fn largest_circle(arrows: &Arrows) -> BTreeSet<String> {
    let all: BTreeMap<&String, BTreeSet<String>> =
        arrows.keys().map(|module| (module, reached(module, arrows))).collect();
    let circles = arrows.keys().map(|module| -> BTreeSet<String> {
        all[module].iter().filter(|other| all[other].contains(module)).cloned().collect()
    });
    circles.max_by_key(BTreeSet::len).unwrap_or_default()
}

fn read(source: &Path) -> Vec<(String, String)> {
    let files = sources(source).into_iter();
    files.map(|path| (path.strip_prefix(source).unwrap().to_str().unwrap().to_owned(), code(&path))).collect()
}

#[test]
fn modules_of_a_crate_import_each_other_in_circles_of_three_at_most() {
    let host = std::fs::read_dir(repository().join("host")).unwrap().map(|entry| entry.unwrap().path());
    let crates: Vec<PathBuf> = host.chain([repository().join("guest-sdk")]).collect();
    assert!(crates.len() > 8, "the crates are in another folder");
    for folder in crates {
        let arrows = arrows(&read(&folder.join("src")));
        assert!(
            !arrows.is_empty() || folder.ends_with("digest") || folder.ends_with("files") || folder.ends_with("text")
        );
        let circle = largest_circle(&arrows);
        assert!(circle.len() <= CIRCLE_MAX, "in {} these import each other: {circle:?}", folder.display());
    }
}

#[test]
fn an_import_is_detected_in_every_form() {
    let files = |code: &str| {
        let root = "mod a;\nmod b;\nmod c;\npub use b::{Deep, inner::Other as Renamed};";
        [("lib.rs", root), ("a.rs", code), ("a/below.rs", ""), ("b.rs", ""), ("c.rs", "use super::a::X;")]
            .map(|(path, code)| (path.to_owned(), code.to_owned()))
    };
    for code in [
        "use crate::b::X;",
        "    use crate::{\n    c::Y,\n    b::{self, X},\n};",
        "pub(crate) use crate::b;",
        "use super::b::X;",
        "use crate::Deep;",
        "use crate::Renamed;",
        "fn f() { crate::b::f() }",
    ] {
        assert!(arrows(&files(code))["a"].contains("b"), "{code}");
    }
    assert!(arrows(&files("use b::X; let because crate_b = 1;"))["a"].is_empty());
}

#[test]
fn a_circle_of_four_modules_is_detected() {
    let files = [("a", "b"), ("b", "c"), ("c", "d"), ("d", "a"), ("e", "a")]
        .map(|(from, to)| (format!("{from}.rs"), format!("use crate::{to}::X;")));
    let circle = largest_circle(&arrows(&files));
    assert_eq!(circle.into_iter().collect::<Vec<_>>(), ["a", "b", "c", "d"]);
}
