//! The map of a linked program: which object files have the code of a function, and where it is.

#[cfg(test)]
mod tests;

use std::ops::Range;

use crate::trace::MAIN;

/// The code of a function in the object files of a crate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FunctionCode {
    /// The crate, as `libtokio`; `None` for the program itself.
    pub(crate) library: Option<String>,
    /// The name of its section after `.text.`: the symbol, behind `unlikely.` for a cold function.
    pub(crate) symbol: String,
    pub(crate) addresses: Range<u64>,
}

/// The code of all functions of a program.
#[derive(Debug, Default)]
pub struct LinkMap(Vec<FunctionCode>);

impl LinkMap {
    /// Reads a map that LLD has written (`-Map`). Lines that are not about functions have no effect.
    pub fn parse(text: &str) -> Self {
        Self(text.lines().filter_map(section).collect())
    }

    /// Returns the address of the function `main`.
    pub fn main(&self) -> Option<u64> {
        Some(self.0.iter().find(|function| function.symbol == MAIN)?.addresses.start)
    }

    pub(crate) fn functions(&self) -> &[FunctionCode] {
        &self.0
    }
}

/// Returns the code of a line `ADDRESS ADDRESS SIZE ALIGNMENT FILE:(.text.SYMBOL)`.
fn section(line: &str) -> Option<FunctionCode> {
    let (head, symbol) = line.strip_suffix(')')?.split_once(":(.text.")?;
    let mut numbers = head.split_whitespace().map(|number| u64::from_str_radix(number, 16));
    let (address, _, bytes) = (numbers.next()?.ok()?, numbers.next()?.ok()?, numbers.next()?.ok()?);
    let library = match head.split_once(".rlib(") {
        // The hash of the package follows the name.
        Some((archive, _)) => Some(archive.rsplit_once('/')?.1.rsplit_once('-')?.0.to_owned()),
        // The archive of a library of the system, which no pattern of the list names.
        None if head.ends_with(')') => return None,
        None => None,
    };
    Some(FunctionCode { library, symbol: symbol.to_owned(), addresses: address..address + bytes })
}
