//! The members of the contract's types, read from `wit/` itself.

use std::collections::BTreeMap;
use std::sync::LazyLock;

/// The files of the contract that define types.
const TEXTS: [&str; 3] = [
    include_str!("../../../../wit/types.wit"),
    include_str!("../../../../wit/guest.wit"),
    include_str!("../../../../wit/host.wit"),
];

/// The names of the fields of each record, and of the cases of each variant and enum. Type names are unique
/// across all interfaces.
static MEMBERS: LazyLock<BTreeMap<&str, Vec<&str>>> = LazyLock::new(|| TEXTS.into_iter().flat_map(types).collect());

/// Returns the members of a contract type; `None` for other names.
pub(super) fn of(type_name: &str) -> Option<&'static [&'static str]> {
    MEMBERS.get(type_name).map(Vec::as_slice)
}

/// The names of the functions of each interface.
static FUNCTIONS: LazyLock<BTreeMap<&str, Vec<&str>>> =
    LazyLock::new(|| TEXTS.into_iter().flat_map(interfaces).collect());

/// Returns the functions of a contract interface, by its name without the package; `None` for other names.
pub(super) fn functions_of(interface: &str) -> Option<&'static [&'static str]> {
    FUNCTIONS.get(interface).map(Vec::as_slice)
}

/// Reads the interfaces of one file and their functions.
fn interfaces(text: &'static str) -> Vec<(&'static str, Vec<&'static str>)> {
    let mut found: Vec<(&str, Vec<&str>)> = Vec::new();
    for line in text.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix("interface ") {
            found.push((name.trim_end_matches(" {"), Vec::new()));
        } else if let (Some((name, _)), Some((_, functions))) = (line.split_once(": func("), found.last_mut()) {
            functions.push(plain(name));
        }
    }
    found
}

/// Reads the types of one file. The files are ours, so the parser only knows our formatting.
fn types(text: &'static str) -> Vec<(&'static str, Vec<&'static str>)> {
    let mut found = Vec::new();
    let mut open: Option<(&str, Vec<&str>)> = None;
    for line in text.lines().map(str::trim).filter(|line| !line.starts_with("//") && !line.starts_with('@')) {
        let rest = match (&open, line.split_once('{')) {
            (None, Some((head, rest))) => {
                let mut words = head.split_whitespace();
                let (Some("record" | "variant" | "enum"), Some(name)) = (words.next(), words.next()) else { continue };
                open = Some((plain(name), Vec::new()));
                rest
            }
            (None, None) => continue,
            (Some(_), _) => line,
        };
        let (members, is_end) = rest.split_once('}').map_or((rest, false), |(members, _)| (members, true));
        if let Some((_, names)) = &mut open {
            names.extend(names_in(members));
        }
        if is_end {
            found.extend(open.take());
        }
    }
    found
}

/// Returns the names in a list like `a, b`, or the one name in a line like `a: list<tuple<string, string>>,`
/// or `a(string),`.
fn names_in(members: &str) -> impl Iterator<Item = &str> {
    let says_more = members.contains([':', '(']);
    let names = members.split([':', '(', ',']).map(|name| plain(name.trim()));
    names.take(if says_more { 1 } else { usize::MAX }).filter(|name| !name.is_empty())
}

/// Removes the escape `%` of a name that is a WIT keyword.
fn plain(name: &str) -> &str {
    name.trim_start_matches('%')
}

#[cfg(test)]
mod tests {
    use super::{functions_of, of};

    #[test]
    fn functions_of_an_interface_are_parsed_from_the_contract() {
        assert_eq!(functions_of("reconciler").unwrap(), ["describe", "reconcile"]);
        assert_eq!(functions_of("mapper").unwrap(), ["map"]);
        assert_eq!(functions_of("lifecycle").unwrap(), ["start", "stop"]);
        assert_eq!(functions_of("watches").unwrap(), ["follow", "follow-all"]);
        assert!(functions_of("store").unwrap().contains(&"list"));
        assert_eq!(functions_of("types").map(<[_]>::len), Some(0));
        assert_eq!(functions_of("wasi"), None);
    }

    #[test]
    fn members_of_every_form_of_type_are_parsed_from_the_contract() {
        assert_eq!(of("kind-declaration").unwrap(), ["kind", "plural", "namespaced", "keys-only", "schema"]);
        assert_eq!(of("resource").unwrap(), ["key", "uid", "revision", "generation", "json"]);
        assert_eq!(of("mapping").unwrap(), ["owner", "same-name", "label", "annotation", "field", "guest"]);
        assert_eq!(of("selector").unwrap(), ["namespace", "labels", "fields", "owner"]);
        assert_eq!(of("level").unwrap(), ["trace", "debug", "info", "warn", "error"]);
        assert_eq!(of("during-delay").unwrap(), ["run-now", "hold"]);
        assert_eq!(of("duration-ms"), None);
    }
}
