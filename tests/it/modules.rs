//! Checks the dependencies between the modules of each crate, from the imports in the sources.
//!
//! A module is a file beside `lib.rs` or `main.rs`, with all files in the folder of its name. It imports
//! another module by a path from `crate` or `super`. A name that the root of the crate re-exports counts as
//! an import of its module. Tests may import any module.
//!
//! A module in [`TREES`] is the root of its own tree: each of its files is a module, and it re-exports their
//! names. Who imports the root itself imports all of them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use homeostat_tests::repository;

/// The maximum number of modules that import each other.
const CIRCLE_MAX: usize = 3;

/// The modules that are trees, as crate and module: their files lie on different floors.
const TREES: [(&str, &str); 1] = [("runtime", "rollout")];

/// The crates of one module, or of modules that import none.
const WITHOUT_IMPORTS: [&str; 4] = ["componentize", "digest", "files", "text"];

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

/// Returns the modules that a path leads to, itself or through a name that a root re-exports.
fn modules_of(path: &str, modules: &BTreeSet<String>, exported: &BTreeMap<String, String>) -> Vec<String> {
    let mut parts = path.split("::");
    let first = parts.next().unwrap();
    let both = parts.next().map(|second| format!("{first}::{second}"));
    for name in both.into_iter().chain([first.to_owned()]) {
        if modules.contains(&name) {
            return vec![name];
        }
        if let Some(origin) = exported.get(&name) {
            return modules_of(origin, modules, exported);
        }
    }
    modules.iter().filter(|module| module.starts_with(&format!("{first}::"))).cloned().collect()
}

/// Returns the names that a root re-exports, each with the path of its origin. `prefix` is the path of the
/// root, empty for that of the crate.
fn exports(prefix: &str, code: &str) -> Vec<(String, String)> {
    let export = |path: String| {
        let (path, alias) = path.split_once(" as ").map_or((path.as_str(), None), |(path, alias)| (path, Some(alias)));
        let path = path.trim_start_matches("crate::").trim_start_matches("self::");
        let name = alias.unwrap_or(path.rsplit("::").next().unwrap());
        (format!("{prefix}{name}"), format!("{prefix}{path}"))
    };
    imports(code).into_iter().map(export).filter(|(name, origin)| name != origin).collect()
}

/// Returns the imports between the modules of a crate. `files` are pairs of a path below `src` and its code;
/// `trees` are the modules whose files are modules.
fn arrows(files: &[(String, String)], trees: &[&str]) -> Arrows {
    let tree_of = |path: &str| trees.iter().find(|tree| path.trim_end_matches(".rs").split('/').next() == Some(**tree));
    let root_of = |path: &str| match tree_of(path) {
        Some(tree) if path == format!("{tree}.rs") => Some(format!("{tree}::")),
        None if path == "lib.rs" || path == "main.rs" => Some(String::new()),
        _ => None,
    };
    let module_of = |path: &str| {
        let parts = path.trim_end_matches(".rs").split('/').take(if tree_of(path).is_some() { 2 } else { 1 });
        parts.collect::<Vec<_>>().join("::")
    };
    let inner = || files.iter().filter(|(path, _)| root_of(path).is_none());
    let modules: BTreeSet<String> = inner().map(|(path, _)| module_of(path)).collect();
    let roots = files.iter().filter_map(|(path, code)| Some((root_of(path)?, code)));
    let exported: BTreeMap<String, String> = roots.flat_map(|(prefix, code)| exports(&prefix, code)).collect();
    let mut arrows: Arrows = modules.iter().map(|module| (module.clone(), BTreeSet::new())).collect();
    for (path, code) in inner() {
        let (from, level) = (module_of(path), path.split('/').count());
        let inline = code.match_indices("crate::").map(|(at, _)| code[at..].to_owned());
        for import in imports(code).into_iter().chain(inline) {
            let ups = import.split("::").take_while(|part| *part == "super").count();
            let below = match (import.strip_prefix("crate::"), tree_of(path)) {
                (Some(below), _) => below.to_owned(),
                // As many `super` as the file is deep lead to the root.
                (None, _) if ups >= level => import[ups * "super::".len()..].to_owned(),
                (None, Some(tree)) if ups + 1 == level => format!("{tree}::{}", &import[ups * "super::".len()..]),
                (None, _) => continue,
            };
            let end = below.find(|letter: char| !letter.is_alphanumeric() && !"_:".contains(letter));
            let (below, rest) = below.split_at(end.unwrap_or(below.len()));
            if rest.starts_with('{') {
                // It is among the imports too, with its braces expanded.
                continue;
            }
            let to = modules_of(below, &modules, &exported);
            arrows.get_mut(&from).unwrap().extend(to.into_iter().filter(|to| *to != from));
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
        let name = folder.file_name().unwrap().to_str().unwrap();
        let trees: Vec<&str> = TREES.iter().filter(|(of, _)| *of == name).map(|(_, tree)| *tree).collect();
        let arrows = arrows(&read(&folder.join("src")), &trees);
        let is_missing = |tree: &&str| !arrows.keys().any(|module| module.starts_with(&format!("{tree}::")));
        assert!(!trees.iter().any(is_missing), "{name} has no tree {trees:?}");
        assert!(!arrows.is_empty() || WITHOUT_IMPORTS.contains(&name), "{name}: no module imports another one");
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
        assert!(arrows(&files(code), &[])["a"].contains("b"), "{code}");
    }
    assert!(arrows(&files("use b::X; let because crate_b = 1;"), &[])["a"].is_empty());
}

#[test]
fn a_tree_is_checked_file_by_file() {
    let files = |code: &str, below: &str| {
        let roots = [
            ("lib.rs", "pub use tree::high;\npub use low::Low;"),
            ("tree.rs", "pub use high::High;\npub use deep::Deep;"),
        ];
        let rest = [("low.rs", code), ("tree/high.rs", "use crate::low::X;"), ("tree/deep.rs", "")];
        let files = roots.into_iter().chain(rest).chain([("tree/high/below.rs", below)]);
        files.map(|(path, code)| (path.to_owned(), code.to_owned())).collect::<Vec<_>>()
    };
    let of = |from: &str, code: &str, below: &str| arrows(&files(code, below), &["tree"])[from].clone();
    let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
    for code in [
        "use crate::tree::High;",
        "use crate::tree::high::Y;",
        "use crate::high::Y;",
        "use super::tree::High;",
        "use crate::tree::{High};",
    ] {
        assert_eq!(of("low", code, ""), set(&["tree::high"]), "{code}");
    }
    assert_eq!(of("low", "use crate::tree;", ""), set(&["tree::deep", "tree::high"]));
    for below in ["use super::super::Deep;", "use super::super::deep::Y;", "use crate::tree::Deep;"] {
        assert_eq!(of("tree::high", "", below), set(&["low", "tree::deep"]), "{below}");
    }
    assert_eq!(of("tree::high", "", "use super::super::super::Low;"), set(&["low"]));
}

#[test]
fn a_circle_of_four_modules_is_detected() {
    let files = [("a", "b"), ("b", "c"), ("c", "d"), ("d", "a"), ("e", "a")]
        .map(|(from, to)| (format!("{from}.rs"), format!("use crate::{to}::X;")));
    let circle = largest_circle(&arrows(&files, &[]));
    assert_eq!(circle.into_iter().collect::<Vec<_>>(), ["a", "b", "c", "d"]);
}
