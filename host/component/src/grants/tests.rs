use homeostat_store::{Key, Kind};
use proptest::prelude::*;

use super::pattern::{for_url, matches_glob, matches_url};
use super::{
    AccessRequest, AddressRange, Grants, HeaderSource, HttpGrant, ResourceGrant, Verb, missing_http, safe_methods,
};

fn deployment() -> Kind {
    Kind::new("apps", "v1", "Deployment")
}

fn grant(kinds: &[&str], verbs: &[Verb], namespaces: &[&str], names: &[&str]) -> Grants {
    let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
    let resources = vec![ResourceGrant {
        kinds: texts(kinds),
        verbs: verbs.to_vec(),
        namespaces: texts(namespaces),
        names: texts(names),
    }];
    Grants { resources, ..Grants::default() }
}

fn request<'a>(verb: Verb, kind: &'a Kind, namespace: Option<&'a str>, name: Option<&'a str>) -> AccessRequest<'a> {
    AccessRequest { verb, kind, namespace, name }
}

#[test]
fn nothing_is_granted_by_default() {
    let kind = deployment();
    assert!(!Grants::default().allows(&request(Verb::Get, &kind, Some("default"), Some("web"))));
    assert!(Grants::default().http_grant("GET", "https://a.example/").is_none());
}

#[test]
fn a_grant_covers_its_verbs_kinds_namespaces_and_names_and_nothing_else() {
    let grants = grant(&["apps/Deployment"], &[Verb::Get], &["team-*"], &["web*"]);
    let (own, pod) = (deployment(), Kind::new("", "v1", "Pod"));
    assert!(grants.allows(&request(Verb::Get, &own, Some("team-a"), Some("web-1"))));
    assert!(!grants.allows(&request(Verb::Delete, &own, Some("team-a"), Some("web-1"))));
    assert!(!grants.allows(&request(Verb::Get, &pod, Some("team-a"), Some("web-1"))));
    assert!(!grants.allows(&request(Verb::Get, &own, Some("other"), Some("web-1"))));
    assert!(!grants.allows(&request(Verb::Get, &own, Some("team-a"), Some("db"))));
}

#[test]
fn the_version_of_a_kind_does_not_matter() {
    let grants = grant(&["apps/Deployment"], &[Verb::Any], &["*"], &["*"]);
    let beta = Kind::new("apps", "v1beta1", "Deployment");
    assert!(grants.allows(&request(Verb::Apply, &beta, Some("default"), Some("web"))));
}

#[test]
fn a_kind_without_a_group_is_of_the_core_group() {
    let grants = grant(&["Pod"], &[Verb::Get], &["*"], &["*"]);
    assert!(grants.allows(&request(Verb::Get, &Kind::new("", "v1", "Pod"), Some("default"), Some("a"))));
    assert!(!grants.allows(&request(Verb::Get, &Kind::new("evil", "v1", "Pod"), Some("default"), Some("a"))));
}

#[test]
fn all_namespaces_are_covered_by_the_star_alone() {
    let (all, some) = (grant(&["*"], &[Verb::List], &["*"], &["*"]), grant(&["*"], &[Verb::List], &["team-*"], &["*"]));
    let kind = deployment();
    let everywhere = request(Verb::List, &kind, None, None);
    assert!(all.allows(&everywhere));
    assert!(!some.allows(&everywhere));
    assert!(some.allows_some(&everywhere));
    assert!(!some.allows_some(&request(Verb::List, &kind, Some("other"), None)));
}

#[test]
fn a_missing_grant_is_named_in_the_words_of_the_manifest() {
    let kind = deployment();
    let missing = request(Verb::UpdateStatus, &kind, Some("default"), Some("web")).missing();
    for part in ["kinds: [apps/Deployment]", "verbs: [update-status]", "namespaces: [\"default\"]"] {
        assert!(missing.contains(part), "{missing}");
    }
    let missing = missing_http("POST", "https://a.example/v1/items?all=1");
    assert!(missing.contains("urls: [\"https://a.example/v1/*\"], methods: [POST]}"), "{missing}");
    let missing = missing_http("GET", "http://10.0.0.1/v1/items");
    assert!(missing.contains("methods: [GET], addresses: [private]}"), "{missing}");
}

#[test]
fn an_address_without_its_range_is_a_problem() {
    let problems = |urls: &[&str], addresses: &[AddressRange]| {
        let urls = urls.iter().map(|url| (*url).to_owned()).collect();
        let http = HttpGrant { urls, methods: vec!["GET".into()], addresses: addresses.to_vec(), headers: [].into() };
        Grants { http: vec![http], ..Grants::default() }.problems()
    };
    let inside = ["http://127.0.0.1:*/*", "http://[::1]/*"];
    assert_eq!(problems(&inside, &[]).len(), 2);
    assert!(problems(&inside, &[AddressRange::Private])[0].contains("addresses: [loopback]"));
    assert_eq!(problems(&inside, &[AddressRange::Loopback]), Vec::<String>::new());
    assert_eq!(problems(&["http://1.1.1.1/*", "https://*/*"], &[]), Vec::<String>::new());
    assert!(problems(&["http://0.0.0.0/*"], &AddressRange::ALL)[0].contains("no single machine"));
}

#[test]
fn the_grant_that_a_refusal_names_covers_the_call() {
    let kind = deployment();
    for (namespace, name) in [(Some("default"), Some("web")), (None, None), (Some(""), Some("a"))] {
        let request = request(Verb::Watch, &kind, namespace, name);
        let missing = request.missing();
        let namespaces = if missing.contains("[\"*\"]") { "*" } else { "default" };
        assert!(grant(&["apps/Deployment"], &[Verb::Watch], &[namespaces], &["*"]).allows(&request), "{missing}");
    }
    let url = "https://a.example:8080/v1/items?all=1";
    assert!(matches_url(&for_url(url), url));
    assert!(matches_url(&for_url("https://a.example"), "https://a.example"));
}

#[test]
fn a_pattern_of_a_path_never_reaches_into_the_host() {
    let pattern = "https://a.example/*";
    for url in ["https://a.example/x", "https://A.example/x?y=/../z", "https://a.example:443/x", "https://a.example"] {
        assert!(matches_url(pattern, url), "{url}");
    }
    for url in [
        "http://a.example/x",
        "https://a.example.evil/x",
        "https://a.example@evil/x",
        "https://evil/https://a.example/x",
        "https://a.example:444/x",
        "https://a.example\\@evil/x",
        "ftp://a.example/x",
        "//a.example/x",
        "",
    ] {
        assert!(!matches_url(pattern, url), "{url}");
    }
}

#[test]
fn paths_with_parent_segments_are_covered_by_no_grant() {
    let pattern = "https://a.example/v1/*";
    assert!(matches_url(pattern, "https://a.example/v1/x..y"));
    for url in ["/v1/../admin", "/v1/%2e%2e/admin", "/v1/.%2E%2fadmin", "/v1/..%5cadmin", "/v1/./x"] {
        assert!(!matches_url(pattern, &format!("https://a.example{url}")), "{url}");
    }
}

#[test]
fn a_star_before_a_host_matches_labels() {
    assert!(matches_url("https://*.example.com/*", "https://a.b.example.com/x"));
    assert!(!matches_url("https://*.example.com/*", "https://example.com/x"));
    assert!(!matches_url("https://*.example.com/*", "https://evilexample.com/x"));
    assert!(matches_url("http://*/*", "http://anything/x"));
}

#[test]
fn http_grants_cover_safe_methods_by_default() {
    let grants: Grants = serde_json::from_str(r#"{"http": [{"urls": ["https://a.example/*"]}]}"#).unwrap();
    assert!(grants.http_grant("get", "https://a.example/x").is_some());
    assert!(grants.http_grant("POST", "https://a.example/x").is_none());
}

#[test]
fn trace_and_connect_are_granted_to_nobody() {
    let text = r#"{"http": [{"urls": ["https://a.example/*"], "methods": ["*", "trace"]}]}"#;
    let grants: Grants = serde_json::from_str(text).unwrap();
    for method in ["TRACE", "trace", "TRACK", "CONNECT", "Connect"] {
        assert!(grants.http_grant(method, "https://a.example/x").is_none(), "{method}");
    }
    assert!(grants.http_grant("POST", "https://a.example/x").is_some());
    assert_eq!(grants.problems(), ["http[0].methods[1]: \"trace\" is never granted"]);
}

#[test]
fn an_ambiguous_path_is_covered_by_no_grant() {
    for path in [
        "..;/admin",
        "..;a=b/admin",
        "%2e%2e;/admin",
        "%252e%252e/admin",
        "%25252e%25252e/admin",
        "%2525252525252e/admin",
        "..%00/admin",
        "a%00",
        "a%0d%0aHost:%20b",
        "..%20/admin",
        "%c0%ae%c0%ae/admin",
        "%u002e%u002e/admin",
        "a%",
        "a%4",
        "a%zz",
        "%25zz/%252e%252e/admin",
        "..%5cadmin",
        "a%2f..%2fadmin",
    ] {
        let url = format!("https://a.example/v1/{path}");
        assert!(!matches_url("https://a.example/v1/*", &url), "{url}");
    }
    for path in ["a", "a;b=c/d", "a%20b", "a%2Fb", "%C3%BC", "100%25", "...", "a..b", "a?x=..%2f%00", "caf\u{e9}"] {
        let url = format!("https://a.example/v1/{path}");
        assert!(matches_url("https://a.example/v1/*", &url), "{url}");
    }
}

#[test]
fn grants_parse_in_the_form_of_a_manifest() {
    let text = r#"{
        "resources": [{"kinds": ["apps/Deployment"], "verbs": ["get", "update-status"]}],
        "http": [{"urls": ["https://a.example/*"], "methods": ["*"], "headers": {"authorization": {"secret": "t"}}}]
    }"#;
    let grants: Grants = serde_json::from_str(text).unwrap();
    assert_eq!(grants.problems(), Vec::<String>::new());
    assert_eq!(serde_json::from_str::<Grants>(&serde_json::to_string(&grants).unwrap()).unwrap(), grants);
    assert!(serde_json::from_str::<Grants>(r#"{"resource": []}"#).is_err());
    assert!(serde_json::from_str::<Grants>(r#"{"resources": [{"kinds": [], "verbs": ["fly"]}]}"#).is_err());
}

#[test]
fn grants_that_can_never_cover_anything_are_problems() {
    let mut grants = grant(&["apps/v1/Deployment", "apps/"], &[], &["*"], &["*"]);
    grants.http = vec![HttpGrant {
        urls: vec!["a.example".into()],
        methods: vec!["GET".into()],
        addresses: vec![],
        headers: [].into(),
    }];
    let problems = grants.problems().join("\n");
    for part in ["kinds[0]", "apps/Deployment", "kinds[1]", "resources[0].verbs", "http[0].urls[0]"] {
        assert!(problems.contains(part), "{part} in\n{problems}");
    }
}

proptest! {
    #[test]
    fn a_glob_matches_what_its_stars_are_replaced_with(parts in prop::collection::vec("[a-c]{0,3}", 1..5), fill in "[a-c]{0,3}") {
        let pattern = parts.join("*");
        prop_assert!(matches_glob(&pattern, &parts.join(&fill)), "{pattern}");
    }

    #[test]
    fn a_glob_agrees_with_its_definition(pattern in "[ab*]{0,6}", text in "[ab]{0,6}") {
        fn defined(pattern: &[u8], text: &[u8]) -> bool {
            match pattern.split_first() {
                None => text.is_empty(),
                Some((b'*', rest)) => (0..=text.len()).any(|at| defined(rest, &text[at..])),
                Some((byte, rest)) => text.split_first().is_some_and(|(first, tail)| first == byte && defined(rest, tail)),
            }
        }
        prop_assert_eq!(matches_glob(&pattern, &text), defined(pattern.as_bytes(), text.as_bytes()));
    }
}

#[test]
fn grants_limited_to_others_cover_what_both_cover() {
    let own = grant(&["*"], &[Verb::Get, Verb::List], &["a", "b"], &["*"]);
    let wanted = grant(&["Pod"], &[Verb::Any], &["b", "c"], &["*"]);
    let kept = own.limited_to(&wanted);
    let may = |grants: &Grants, kind: &str, verb, namespace: &str| {
        let kind = Kind::new("", "v1", kind);
        let request = AccessRequest { verb, kind: &kind, namespace: Some(namespace), name: Some("one") };
        let key = Key::new(kind.clone(), namespace, "one");
        let said = (grants.allows(&request), grants.allows_some(&request));
        assert_eq!(said.0, said.1, "{request:?}");
        said.0 && grants.allows_any(&key)
    };
    for kind in ["Pod", "Secret"] {
        for verb in [Verb::Get, Verb::List, Verb::Delete] {
            for namespace in ["a", "b", "c"] {
                let both = may(&own, kind, verb, namespace) && may(&wanted, kind, verb, namespace);
                assert_eq!(may(&kept, kind, verb, namespace), both, "{kind} {verb} {namespace}");
            }
        }
    }
    assert!(may(&kept, "Pod", Verb::Get, "b"), "some are left");
    assert_eq!(kept.limited_to(&own), own, "what is granted again is there again");
    assert_eq!(own.limited_to(&grant(&[], &[], &[], &[])).limited_to, Some(grant(&[], &[], &[], &[]).into()));
    let pods = Kind::new("", "v1", "Pod");
    assert_ne!(kept.for_kinds(&[&pods]), own.for_kinds(&[&pods]), "who is told something else is asked again");
}

#[test]
fn a_request_under_limited_grants_needs_both() {
    let http = |url: &str, addresses: &[AddressRange], header: &str| {
        let headers = [("x-key".to_owned(), HeaderSource::Value(header.to_owned()))].into();
        let grant = HttpGrant { urls: vec![url.into()], methods: safe_methods(), addresses: addresses.into(), headers };
        Grants { http: vec![grant], ..Grants::default() }
    };
    let own = http("https://*/*", &[AddressRange::Private, AddressRange::Loopback], "old");
    let kept = own.limited_to(&http("https://a.example/*", &[AddressRange::Private], "new"));
    assert_eq!(kept.http_grant("GET", "https://b.example/"), None);
    let header = &kept.http_grant("GET", "https://a.example/x").unwrap().headers["x-key"];
    assert_eq!(*header, HeaderSource::Value("new".to_owned()));
    assert_eq!(kept.http_addresses("GET", "https://a.example/x"), [AddressRange::Private].into());
    let nothing = own.limited_to(&Grants::default());
    assert_eq!((nothing.http_grant("GET", "https://a.example/"), kept.limited_to(&own)), (None, own));
}
