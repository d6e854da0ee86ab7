//! The list of functions, and the linker script that it becomes.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use crate::LinkMap;
use crate::link_map::FunctionCode;

/// Stands before the name of a library in the list.
const LIBRARY: &str = "crate ";
/// The library of the program's own object files, in the list.
const PROGRAM: &str = "program";
/// Stands before the symbol of a cold function.
const COLD: &str = "unlikely.";
/// Digits of the hash at the end of a symbol.
const HASH_DIGITS: usize = 16;
/// Bytes of a generic function in a crate for each byte of it that was run, up to which the list has all instances of the
/// function. The linker finds them whatever their hashes are.
const BYTES_PER_RUN_BYTE_MAX: u64 = 2;

/// A function, or instances of a generic function in the object files of one crate.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Function {
    /// The crate, as `libtokio`; `None` for the program itself.
    library: Option<String>,
    /// The symbol: of all instances without their hashes, which other versions and settings change, or of one with its own.
    symbol: String,
}

/// The instances of a generic function in one crate, and the runs that have run them.
#[derive(Debug, Default)]
struct Instances<'m> {
    run: BTreeMap<&'m str, BTreeSet<usize>>,
    bytes: u64,
    run_bytes: u64,
}

/// Writes the list of the functions that were run. Each run has the addresses in the map of the code that it has run.
///
/// Functions that the same runs have run stand together, so that a host that only does the work of one run has few others in
/// memory. Those of most runs come first.
pub fn write_list(runs: &[BTreeSet<u64>], map: &LinkMap) -> String {
    let runs_of = runs_of(runs, map);
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

/// Returns the functions of the list, with the runs that have run each.
fn runs_of(runs: &[BTreeSet<u64>], map: &LinkMap) -> BTreeMap<Function, BTreeSet<usize>> {
    let mut functions: BTreeMap<Function, Instances<'_>> = BTreeMap::new();
    for FunctionCode { library, symbol, addresses } in map.functions() {
        let bytes = addresses.end - addresses.start;
        let function = Function { library: library.clone(), symbol: without_hashes(symbol) };
        let instances = functions.entry(function).or_default();
        instances.bytes += bytes;
        let has_run = |run: &usize| runs[*run].range(addresses.clone()).next().is_some();
        let runs_of: BTreeSet<usize> = (0..runs.len()).filter(has_run).collect();
        if !runs_of.is_empty() {
            instances.run_bytes += bytes;
            instances.run.entry(without_suffix(symbol)).or_default().extend(runs_of);
        }
    }
    let mut found: BTreeMap<Function, BTreeSet<usize>> = BTreeMap::new();
    for (function, Instances { run, bytes, run_bytes }) in functions {
        for (symbol, runs_of) in run {
            let is_dense = bytes <= run_bytes * BYTES_PER_RUN_BYTE_MAX;
            let symbol = if is_dense { function.symbol.clone() } else { symbol.to_owned() };
            found.entry(Function { symbol, ..function.clone() }).or_default().extend(runs_of);
        }
    }
    found
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
            let rest = match hash_begin(symbol) {
                // One instance. The compiler may have made it visible in other object files.
                Some(_) => "*",
                None if mangled(symbol).starts_with("_ZN") => "17h*",
                None => "",
            };
            script += &format!(" .text.{symbol}{rest}");
        }
        script += ")\n";
    }
    script + "  }\n} INSERT BEFORE .text;\n"
}

/// Removes the hash at the end of a symbol, or puts an asterisk in place of the hash of each crate in it.
///
/// Source: the mangling schemes `legacy` and `v0` of rustc. The standard library is compiled with the second one.
fn without_hashes(symbol: &str) -> String {
    let symbol = without_suffix(symbol);
    if !mangled(symbol).starts_with("_R") {
        return hash_begin(symbol).map_or(symbol, |begin| &symbol[..begin]).to_owned();
    }
    let mut parts = symbol.split("Cs");
    let mut general = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let rest = part.split_once('_').filter(|(hash, _)| hash.bytes().all(|byte| byte.is_ascii_alphanumeric()));
        general += &rest.map_or_else(|| format!("Cs{part}"), |(_, rest)| format!("Cs*_{rest}"));
    }
    general
}

/// Returns the symbol of a function that may be cold.
fn mangled(symbol: &str) -> &str {
    symbol.strip_prefix(COLD).unwrap_or(symbol)
}

/// Returns where the hash at the end of a symbol of the scheme `legacy` begins.
fn hash_begin(symbol: &str) -> Option<usize> {
    let (name, hash) = symbol.strip_suffix('E')?.rsplit_once("17h")?;
    (hash.len() == HASH_DIGITS).then_some(name.len())
}

/// Removes what the compiler appends to a local symbol that it makes visible in other object files.
fn without_suffix(symbol: &str) -> &str {
    symbol.split_once(".llvm.").map_or(symbol, |(symbol, _)| symbol)
}
