//! The published definitions. They stay in the binary as text, of which the system loads the pages that are read: an idle host has
//! none of them in memory.

use std::cmp::Ordering;

use serde_json::Value;

/// A line per definition: its name, a tab, and its JSON. The lines are in the order of the names.
static DEFINITIONS: &str = include_str!("../data/definitions.txt");

/// Returns the definition of this name; `None` for an unknown one.
pub(crate) fn definition(name: &str) -> Option<Value> {
    let text = find(DEFINITIONS, name)?;
    Some(serde_json::from_str(text).expect("the data is JSON"))
}

/// Returns what follows a name in a text of ordered lines.
fn find<'t>(mut lines: &'t str, name: &str) -> Option<&'t str> {
    while !lines.is_empty() {
        let middle = lines.floor_char_boundary(lines.len() / 2);
        let start = lines[..middle].rfind('\n').map_or(0, |end| end + 1);
        let end = lines[middle..].find('\n').map_or(lines.len(), |length| middle + length);
        let (found, text) = lines[start..end].split_once('\t')?;
        match name.cmp(found) {
            Ordering::Less => lines = &lines[..start],
            Ordering::Equal => return Some(text),
            Ordering::Greater => lines = lines.get(end + 1..)?,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_definition_is_found_by_its_name() {
        for line in DEFINITIONS.lines() {
            let (name, text) = line.split_once('\t').unwrap();
            assert_eq!(find(DEFINITIONS, name), Some(text), "{name}");
        }
        for unknown in ["", "io", "io.k8s.api.core.v1.Po", "io.k8s.api.core.v1.Pod\t", "zz"] {
            assert_eq!(find(DEFINITIONS, unknown), None, "{unknown}");
        }
    }

    #[test]
    fn a_text_with_or_without_a_last_line_break_is_searched() {
        for text in ["a\t1\nb\t2\nc\t3", "a\t1\nb\t2\nc\t3\n"] {
            let found = ["a", "b", "c", "d", ""].map(|name| find(text, name));
            assert_eq!(found, [Some("1"), Some("2"), Some("3"), None, None], "{text:?}");
        }
    }
}
