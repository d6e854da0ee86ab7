//! The list of functions, and the linker script that it becomes.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use crate::LinkMap;

/// Stands before the name of a library in the list.
const LIBRARY: &str = "crate ";
/// The library of the program's own object files, in the list.
const PROGRAM: &str = "program";
/// Digits of the hash at the end of a symbol.
const HASH_DIGITS: usize = 16;

/// A function, or all instances of a generic function in the object files of one crate.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Function {
    /// The crate, as `libtokio`; `None` for the program itself.
    library: Option<String>,
    /// The symbol without the hashes that other versions and settings change.
    symbol: String,
}

/// Writes the list of the functions that were run. Functions that the same runs have run stand together, so that a host
/// that only does the work of one run has few others in memory. Those of most runs come first.
pub fn write_list(runs: &[BTreeSet<String>], map: &LinkMap) -> String {
    let mut runs_of: BTreeMap<Function, BTreeSet<usize>> = BTreeMap::new();
    for (number, symbols) in runs.iter().enumerate() {
        for symbol in symbols {
            for library in map.libraries(symbol) {
                let function = Function { library: library.clone(), symbol: without_hashes(symbol) };
                runs_of.entry(function).or_default().insert(number);
            }
        }
    }
    let mut parts: BTreeMap<(usize, &BTreeSet<usize>), BTreeMap<_, Vec<&str>>> = BTreeMap::new();
    for (Function { library, symbol }, runs_of) in &runs_of {
        let part = parts.entry((runs.len() - runs_of.len(), runs_of)).or_default();
        part.entry(library).or_default().push(symbol);
    }
    let mut list = String::new();
    for (library, symbols) in parts.into_values().flatten() {
        list += &format!("{LIBRARY}{}\n", library.as_deref().unwrap_or(PROGRAM));
        list.extend(symbols.iter().flat_map(|symbol| [*symbol, "\n"]));
    }
    list
}

/// Returns the linker script that puts the functions of a list before all others, in its order.
pub(crate) fn linker_script(list: &str) -> String {
    let mut script = "SECTIONS {\n  .text.start : {\n".to_owned();
    let mut lines = list.lines().peekable();
    while let Some(line) = lines.next() {
        let files = match line.strip_prefix(LIBRARY) {
            // A file that is in no archive.
            Some(PROGRAM) => ":*".to_owned(),
            Some(library) => format!("*{library}-*.rlib:"),
            None => continue,
        };
        script += &format!("    {files}(");
        while let Some(symbol) = lines.next_if(|line| !line.starts_with(LIBRARY)) {
            let hash = if symbol.starts_with("_ZN") { "17h*" } else { "" };
            script += &format!(" .text.{symbol}{hash}");
        }
        script += ")\n";
    }
    script + "  }\n} INSERT BEFORE .text;\n"
}

/// Removes the hash at the end of a symbol, or puts an asterisk in place of the hash of each crate in it.
///
/// Source: the mangling schemes `legacy` and `v0` of rustc. The standard library is compiled with the second one.
fn without_hashes(symbol: &str) -> String {
    let symbol = symbol.split_once(".llvm.").map_or(symbol, |(symbol, _)| symbol);
    if !symbol.starts_with("_R") {
        let name = symbol.strip_suffix('E').and_then(|symbol| symbol.rsplit_once("17h"));
        return name.filter(|(_, hash)| hash.len() == HASH_DIGITS).map_or(symbol, |(name, _)| name).to_owned();
    }
    let mut parts = symbol.split("Cs");
    let mut general = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let rest = part.split_once('_').filter(|(hash, _)| hash.bytes().all(|byte| byte.is_ascii_alphanumeric()));
        general += &rest.map_or_else(|| format!("Cs{part}"), |(_, rest)| format!("Cs*_{rest}"));
    }
    general
}
