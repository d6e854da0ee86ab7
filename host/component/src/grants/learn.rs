//! Computes the smallest grants that would have allowed the recorded accesses. Pure.
//!
//! The result for allowed accesses is cut out of the grants that allowed them, line by line, and never
//! exceeds them. If there are too many names to list, the names of the line take their place. Denied accesses
//! are kept apart: no person has granted them yet.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::needs::{HttpNeed, NeedsSnapshot, ResourceNeed};
use super::{AddressScope, Grants, HttpGrant, ResourceGrant, Verb, covers_kind_name, pattern};

/// The maximum of listed namespaces. Above it, those of the manifest's line take their place, or `*` if there
/// is no line.
const NAMESPACES_MAX: usize = 8;
/// The maximum of listed names, likewise.
const NAMES_MAX: usize = 8;
/// The maximum of listed URL patterns for each host, likewise.
const URLS_MAX: usize = 8;

/// The grants that a controller was found to need.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LearnedGrants {
    /// Grants that would have been sufficient. A subset of the actual grants.
    pub grants: Grants,
    /// Grants that would have allowed the denied accesses.
    pub denied: Grants,
    /// Unused grants, one sentence each, beginning with the path in the grants.
    pub unused: Vec<String>,
}

type Texts = BTreeSet<String>;
/// Namespaces and names by line of the grants, kind and verb; `None` stands for no line.
type Cells = BTreeMap<(Option<usize>, String, Verb), (Texts, Texts)>;
/// A line, and its new namespaces and names.
type Place = (Option<usize>, Vec<String>, Vec<String>);
/// URL patterns by line and method, likewise.
type Urls = BTreeMap<(Option<usize>, String), Texts>;

pub(super) fn learn(grants: &Grants, seen: &NeedsSnapshot) -> LearnedGrants {
    let (mut cells, mut urls) = (Cells::new(), Urls::new());
    for need in &seen.resources {
        allowed_resource(grants, need, &mut cells);
        if need.denied > 0 {
            put(&mut cells, None, need, [need.namespace.clone()], [need.name.clone()]);
        }
    }
    for need in &seen.http {
        allowed_http(grants, need, &mut urls);
        if need.denied > 0 && !grants.http.iter().any(|grant| grant.covers(&need.method, &need.url)) {
            urls.entry((None, need.method.clone())).or_default().insert(pattern::for_url(&need.url));
        }
    }
    let (of_lines, of_none) = cells.into_iter().partition(|((line, ..), _)| line.is_some());
    let (http_of_lines, http_of_none) = urls.into_iter().partition(|((line, _), _)| line.is_some());
    LearnedGrants {
        grants: Grants {
            resources: resources(grants, of_lines),
            http: http(grants, http_of_lines),
            controllers: grants.controllers.clone(),
            limited_to: None,
        },
        denied: Grants { resources: resources(grants, of_none), http: http(grants, http_of_none), ..Grants::default() },
        unused: unused(grants, seen),
    }
}

/// Cuts an allowed access out of the lines that allowed it.
fn allowed_resource(grants: &Grants, need: &ResourceNeed, cells: &mut Cells) {
    if need.asked == need.denied {
        return;
    }
    let touching = grants.resources.iter().enumerate().filter(|(_, grant)| touches(grant, need));
    let covers = |grant: &ResourceGrant| {
        let (namespaces, names) = (&grant.namespaces, &grant.names);
        covers(namespaces, &need.namespace) && covers(names, &need.name)
    };
    // One line suffices if it covers everything. A list that was filtered was allowed by several lines, each
    // a part.
    let whole = touching.clone().find(|(_, grant)| covers(grant));
    let lines: Vec<_> = if let Some(line) = whole { vec![line] } else { touching.collect() };
    for (at, grant) in lines {
        let or = |text: &String, own: &Vec<String>| if text == "*" { own.clone() } else { vec![text.clone()] };
        put(cells, Some(at), need, or(&need.namespace, &grant.namespaces), or(&need.name, &grant.names));
    }
}

fn put(
    cells: &mut Cells,
    line: Option<usize>,
    need: &ResourceNeed,
    namespaces: impl IntoIterator<Item = String>,
    names: impl IntoIterator<Item = String>,
) {
    let cell = cells.entry((line, need.kind.clone(), need.verb)).or_default();
    cell.0.extend(namespaces);
    cell.1.extend(names);
}

fn allowed_http(grants: &Grants, need: &HttpNeed, urls: &mut Urls) {
    if need.asked == need.denied {
        return;
    }
    let of_method = |grant: &&HttpGrant| grant.has_method(&need.method);
    let mut is_first = true;
    for (at, grant) in grants.http.iter().enumerate().filter(|(_, grant)| of_method(grant)) {
        let exact: Vec<&String> =
            grant.urls.iter().filter(|pattern| pattern::matches_url(pattern, &need.url)).collect();
        // If many paths were merged, or the query string mattered, only the host can be compared.
        let is_vague =
            need.url.ends_with("/*") || !grants.http.iter().any(|grant| grant.covers(&need.method, &need.url));
        let there: Vec<&String> = if is_vague {
            grant.urls.iter().filter(|pattern| pattern::is_at(pattern, &need.url)).collect()
        } else {
            exact
        };
        // The first line determines the headers; later ones may add address ranges.
        if there.is_empty() || !(is_first || is_vague || !grant.addresses.is_empty()) {
            continue;
        }
        is_first = false;
        let beside = pattern::for_url(&need.url);
        let fits = there.iter().any(|pattern| pattern::matches_url(pattern, &beside));
        let texts = urls.entry((Some(at), need.method.clone())).or_default();
        if fits {
            texts.insert(beside);
        } else {
            texts.extend(there.into_iter().cloned());
        }
    }
}

/// Combines cells into lines: kinds with the same verbs, namespaces and names.
fn resources(grants: &Grants, cells: Cells) -> Vec<ResourceGrant> {
    let mut verbs: BTreeMap<(Place, String), Vec<Verb>> = BTreeMap::new();
    for ((line, kind, verb), (namespaces, names)) in cells {
        let own = line.map(|line| &grants.resources[line]);
        let namespaces = bounded(namespaces, NAMESPACES_MAX, own.map(|own| &own.namespaces));
        let names = bounded(names, NAMES_MAX, own.map(|own| &own.names));
        verbs.entry(((line, namespaces, names), kind)).or_default().push(verb);
    }
    let mut kinds: BTreeMap<(Place, Vec<Verb>), Vec<String>> = BTreeMap::new();
    for ((place, kind), verbs) in verbs {
        kinds.entry((place, verbs)).or_default().push(kind);
    }
    let grant = |(((_, namespaces, names), verbs), kinds)| ResourceGrant { kinds, verbs, namespaces, names };
    kinds.into_iter().map(grant).collect()
}

fn http(grants: &Grants, urls: Urls) -> Vec<HttpGrant> {
    let mut methods: BTreeMap<(Option<usize>, Vec<String>), Vec<String>> = BTreeMap::new();
    for ((line, method), urls) in urls {
        let urls = if urls.len() > URLS_MAX { widened(&urls, line.map(|line| &grants.http[line])) } else { urls };
        methods.entry((line, reduced(urls, pattern::matches_url))).or_default().push(method);
    }
    let grant = |((line, urls), methods): ((Option<usize>, Vec<String>), _)| {
        let own = line.map(|line| grants.http[line].clone());
        let literal = |url: &String| pattern::literal(url).and_then(|address| AddressScope::of(address).range());
        let addresses = match &own {
            Some(own) => own.addresses.clone(),
            None => urls.iter().filter_map(literal).collect::<BTreeSet<_>>().into_iter().collect(),
        };
        HttpGrant { urls, methods, addresses, headers: own.map(|own| own.headers).unwrap_or_default() }
    };
    methods.into_iter().map(grant).collect()
}

/// Returns patterns of whole hosts if the line allows them, otherwise the patterns of the line.
fn widened(urls: &Texts, own: Option<&HttpGrant>) -> Texts {
    let whole = |url: &String| format!("{}/*", pattern::split(url).0);
    let is_allowed =
        |url: &String| own.is_none_or(|own| own.urls.iter().any(|pattern| pattern::matches_url(pattern, &whole(url))));
    let own = own.map(|own| own.urls.clone()).unwrap_or_default();
    let of = |url: &String| {
        if is_allowed(url) {
            vec![whole(url)]
        } else {
            own.iter().filter(|pattern| pattern::is_at(pattern, url)).cloned().collect()
        }
    };
    urls.iter().flat_map(of).collect()
}

/// Returns patterns that cover `texts`: the texts themselves if they are few, otherwise those of the line,
/// otherwise `*`.
fn bounded(texts: Texts, most: usize, own: Option<&Vec<String>>) -> Vec<String> {
    if texts.len() > most {
        return own.cloned().unwrap_or_else(|| vec!["*".to_owned()]);
    }
    reduced(texts, pattern::matches_glob)
}

/// Drops patterns that another one covers. A star in a text is covered by a star alone, so this never drops
/// too much.
fn reduced(texts: Texts, covers: impl Fn(&str, &str) -> bool) -> Vec<String> {
    let all: Vec<String> = texts.into_iter().collect();
    let is_covered = |text: &String| all.iter().any(|other| other != text && covers(other, text));
    all.iter().filter(|text| !is_covered(text)).cloned().collect()
}

fn touches(grant: &ResourceGrant, need: &ResourceNeed) -> bool {
    let touches = |patterns: &[String], text: &str| {
        text == "*" || patterns.iter().any(|pattern| pattern::matches_glob(pattern, text))
    };
    has_verb(grant, need.verb)
        && grant.kinds.iter().any(|kind| covers_kind(kind, &need.kind))
        && touches(&grant.namespaces, &need.namespace)
        && touches(&grant.names, &need.name)
}

fn has_verb(grant: &ResourceGrant, verb: Verb) -> bool {
    grant.verbs.iter().any(|granted| *granted == Verb::Any || *granted == verb)
}

fn covers(patterns: &[String], text: &str) -> bool {
    patterns.iter().any(|pattern| pattern::matches_glob(pattern, text))
}

fn covers_kind(pattern: &str, kind: &str) -> bool {
    let (group, name) = kind.split_once('/').unwrap_or(("", kind));
    covers_kind_name(pattern, group, name)
}

/// Returns the unused parts of the grants.
fn unused(grants: &Grants, seen: &NeedsSnapshot) -> Vec<String> {
    let mut unused = Vec::new();
    let used: Vec<&ResourceNeed> = seen.resources.iter().filter(|need| need.asked > need.denied).collect();
    for (at, grant) in grants.resources.iter().enumerate() {
        for kind in &grant.kinds {
            let of_kind = |need: &&&ResourceNeed| touches(grant, need) && covers_kind(kind, &need.kind);
            let used: BTreeSet<Verb> = used.iter().filter(of_kind).map(|need| need.verb).collect();
            let words = |verbs: &mut dyn Iterator<Item = Verb>| verbs.map(Verb::as_str).collect::<Vec<_>>().join(", ");
            let path = format!("resources[{at}]");
            if used.is_empty() {
                unused.push(format!("{path}: {kind}, every verb"));
            } else if grant.verbs.contains(&Verb::Any) {
                let used = words(&mut used.into_iter());
                unused.push(format!("{path}: {kind}, every verb but {used}"));
            } else if grant.verbs.iter().any(|verb| !used.contains(verb)) {
                let rest = words(&mut grant.verbs.iter().copied().filter(|verb| !used.contains(verb)));
                unused.push(format!("{path}: {kind}, to {rest}"));
            }
        }
    }
    for (at, grant) in grants.http.iter().enumerate() {
        let is_used = |url: &&String| {
            let of = |need: &HttpNeed| pattern::matches_url(url, &need.url) || pattern::is_at(url, &need.url);
            seen.http.iter().any(|need| need.asked > need.denied && grant.has_method(&need.method) && of(need))
        };
        unused.extend(grant.urls.iter().filter(|url| !is_used(url)).map(|url| format!("http[{at}]: {url}")));
    }
    unused
}

#[cfg(test)]
mod tests;
