//! Whether the grants of one controller are included in those of another one. Pure.
//!
//! Each line of the smaller grants must be included in one line of the larger ones. So some grants are refused that
//! allow no more together, and none is accepted that does.

use super::pattern::{includes_url, matches_glob};
use super::{Grants, HttpGrant, ResourceGrant, Verb};

/// Returns the first line of `small` that `large` does not include, as a path: `resources[0]`. The controllers that
/// `small` may create count as well.
pub(super) fn first_excess(large: &Grants, small: &Grants) -> Option<String> {
    let Grants { resources, http, controllers, limited_to: _ } = small;
    let of_resources = |grant: &&ResourceGrant| !large.resources.iter().any(|line| includes(line, grant));
    let of_http = |grant: &&HttpGrant| !large.http.iter().any(|line| includes_http(line, grant));
    if let Some(at) = resources.iter().position(|grant| of_resources(&grant)) {
        return Some(format!("resources[{at}]"));
    }
    if let Some(at) = http.iter().position(|grant| of_http(&grant)) {
        return Some(format!("http[{at}]"));
    }
    controllers.iter().position(|grant| !large.controllers.contains(grant)).map(|at| format!("controllers[{at}]"))
}

fn includes(large: &ResourceGrant, small: &ResourceGrant) -> bool {
    let ResourceGrant { kinds, verbs, namespaces, names } = small;
    kinds.iter().all(|kind| large.kinds.iter().any(|pattern| includes_kind(pattern, kind)))
        && verbs.iter().all(|verb| large.verbs.contains(verb) || large.verbs.contains(&Verb::Any))
        && includes_texts(&large.namespaces, namespaces)
        && includes_texts(&large.names, names)
}

/// Returns whether each of `small` is included in one of `large`. A `*` in a pattern is matched by a `*` alone, so a
/// pattern that matches another pattern as a text matches all texts of it.
fn includes_texts(large: &[String], small: &[String]) -> bool {
    // `*` alone stands for all texts at once, which no other pattern does.
    let includes = |large: &str, small: &str| if small == "*" { large == "*" } else { matches_glob(large, small) };
    small.iter().all(|small| large.iter().any(|large| includes(large, small)))
}

fn includes_kind(large: &str, small: &str) -> bool {
    if large == "*" || small == "*" {
        return large == "*";
    }
    let parts = |pattern: &str| {
        let (group, name) = pattern.split_once('/').unwrap_or(("", pattern));
        (group.to_owned(), name.to_owned())
    };
    let ((large_group, large_name), (small_group, small_name)) = (parts(large), parts(small));
    matches_glob(&large_group, &small_group) && matches_glob(&large_name, &small_name)
}

fn includes_http(large: &HttpGrant, small: &HttpGrant) -> bool {
    let HttpGrant { urls, methods, addresses, headers } = small;
    urls.iter().all(|url| large.urls.iter().any(|pattern| includes_url(pattern, url)))
        && methods.iter().all(|method| method != "*" && large.has_method(method) || large.methods.contains(method))
        && addresses.iter().all(|range| large.addresses.contains(range))
        // The host adds the header of the larger grant to each of its requests, so the smaller one must not lack it.
        && *headers == large.headers
}

#[cfg(test)]
mod tests {
    use homeostat_store::Kind;
    use proptest::prelude::*;

    use super::super::{AccessRequest, AddressRange, HeaderSource, Verb};
    use super::*;

    const TEXTS: [&str; 8] = ["*", "a*", "*b", "a*b", "ab", "a", "b", ""];
    const KINDS: [&str; 8] = ["*", "*/*", "a/*", "a/B", "*/B", "B", "a*/B", "ab/B"];
    const VERBS: [Verb; 4] = [Verb::Any, Verb::Get, Verb::List, Verb::Apply];
    const URLS: [&str; 10] = [
        "https://a.example/*",
        "https://a.example/v1/*",
        "https://a.example/v1/x",
        "https://*.a.example/*",
        "https://b.a.example/*",
        "https://*/*",
        "https://a.example:*/v1/*",
        "https://a.example:8443/v1/x",
        "http://a.example/*",
        "https://A.example/v1/*",
    ];

    fn texts() -> impl Strategy<Value = Vec<String>> {
        prop::collection::vec(prop::sample::select(TEXTS.map(str::to_owned).to_vec()), 1..3)
    }

    fn resources() -> impl Strategy<Value = ResourceGrant> {
        let kinds = prop::collection::vec(prop::sample::select(KINDS.map(str::to_owned).to_vec()), 1..3);
        let verbs = prop::collection::vec(prop::sample::select(VERBS.to_vec()), 1..3);
        (kinds, verbs, texts(), texts()).prop_map(|(kinds, verbs, namespaces, names)| ResourceGrant {
            kinds,
            verbs,
            namespaces,
            names,
        })
    }

    fn http() -> impl Strategy<Value = HttpGrant> {
        let urls = prop::collection::vec(prop::sample::select(URLS.map(str::to_owned).to_vec()), 1..3);
        let methods = prop::sample::subsequence(vec!["GET".to_owned(), "POST".to_owned(), "*".to_owned()], 1..3);
        let addresses = prop::sample::subsequence(vec![AddressRange::ALL[0], AddressRange::ALL[1]], 0..2);
        (urls, methods, addresses).prop_map(|(urls, methods, addresses)| HttpGrant {
            urls,
            methods,
            addresses,
            headers: Default::default(),
        })
    }

    fn grants() -> impl Strategy<Value = Grants> {
        (prop::collection::vec(resources(), 0..3), prop::collection::vec(http(), 0..3))
            .prop_map(|(resources, http)| Grants { resources, http, ..Grants::default() })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn included_grants_allow_nothing_that_the_larger_ones_refuse(large in grants(), small in grants()) {
            if first_excess(&large, &small).is_some() {
                return Ok(());
            }
            for (group, name) in [("", "B"), ("a", "B"), ("a", "C"), ("ab", "B"), ("c", "D")] {
                let kind = Kind::new(group, "v1", name);
                for verb in [Verb::Get, Verb::List, Verb::Apply, Verb::Delete] {
                    for text in [None, Some(""), Some("a"), Some("ab"), Some("acb"), Some("c")] {
                        for name in [None, Some("a"), Some("ab"), Some("cb")] {
                            let request = AccessRequest { verb, kind: &kind, namespace: text, name };
                            prop_assert!(!small.allows(&request) || large.allows(&request), "{request:?}");
                        }
                    }
                }
            }
            let urls = ["https://a.example/", "https://a.example/v1/x", "https://a.example/v1/x/y", "https://b.a.example/v1/x",
                "https://c.b.a.example/", "https://a.example:8443/v1/x", "http://a.example/v1/x", "https://other.example/"];
            for url in urls {
                for method in ["GET", "POST", "DELETE"] {
                    let granted = small.http_grant(method, url).is_none() || large.http_grant(method, url).is_some();
                    prop_assert!(granted, "{method} {url}");
                    prop_assert!(small.http_addresses(method, url).is_subset(&large.http_addresses(method, url)));
                }
            }
        }
    }

    #[test]
    fn every_grant_includes_itself() {
        let everything = Grants::everything();
        assert_eq!(first_excess(&everything, &everything), None);
        for kind in KINDS {
            assert!(includes_kind(kind, kind) && includes_kind("*", kind));
        }
        for url in URLS {
            assert!(includes_url(url, url), "{url}");
        }
    }

    #[test]
    fn a_header_that_the_host_adds_belongs_to_the_grant() {
        let line = |header: Option<&str>| HttpGrant {
            urls: vec!["https://a.example/*".to_owned()],
            methods: vec!["GET".to_owned()],
            addresses: Vec::new(),
            headers: header.map(|name| ("x".to_owned(), HeaderSource::Secret(name.to_owned()))).into_iter().collect(),
        };
        assert!(includes_http(&line(Some("a")), &line(Some("a"))));
        assert!(!includes_http(&line(Some("a")), &line(Some("b"))));
        assert!(!includes_http(&line(None), &line(Some("a"))));
        assert!(!includes_http(&line(Some("a")), &line(None)));
    }
}
