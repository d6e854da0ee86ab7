//! The map of a linked program: which object files have the code of a function.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

/// The crates that have code of each function of a program.
#[derive(Debug, Default)]
pub struct LinkMap(BTreeMap<String, BTreeSet<Option<String>>>);

impl LinkMap {
    /// Reads a map that LLD has written (`-Map`). Lines that are not about functions have no effect.
    pub fn parse(text: &str) -> Self {
        let mut functions: BTreeMap<String, BTreeSet<_>> = BTreeMap::new();
        for (library, symbol) in text.lines().filter_map(section) {
            functions.entry(symbol.to_owned()).or_default().insert(library);
        }
        Self(functions)
    }

    /// Returns the crates whose object files have code of a function; `None` is the program's own.
    pub(crate) fn libraries(&self, symbol: &str) -> impl Iterator<Item = &Option<String>> {
        self.0.get(symbol).into_iter().flatten()
    }
}

/// Returns the library and the function of a line `ADDRESS ADDRESS SIZE ALIGNMENT FILE:(.text.SYMBOL)`.
fn section(line: &str) -> Option<(Option<String>, &str)> {
    let (file, symbol) = line.strip_suffix(')')?.split_once(":(.text.")?;
    if file.ends_with(')') && !file.contains(".rlib(") {
        // The archive of a library of the system, which no pattern of the list names.
        return None;
    }
    let Some((archive, _)) = file.split_once(".rlib(") else { return Some((None, symbol)) };
    // The hash of the package follows the name.
    let (library, _) = archive.rsplit_once('/')?.1.rsplit_once('-')?;
    Some((Some(library.to_owned()), symbol))
}
