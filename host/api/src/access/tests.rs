use super::*;

fn headers(pairs: &[(header::HeaderName, &'static str)]) -> HeaderMap {
    pairs.iter().map(|(name, value)| (name.clone(), value.parse().unwrap())).collect()
}

#[test]
fn programs_of_this_machine_may_ask() {
    for host in ["localhost", "localhost:8080", "127.0.0.1:1", "[::1]:1", "[::1]"] {
        assert!(is_from_here(&headers(&[(header::HOST, host)])), "{host}");
    }
    assert!(is_from_here(&headers(&[(header::HOST, "localhost"), (header::ORIGIN, "http://127.0.0.1:3000")])));
}

#[test]
fn pages_of_other_sites_may_not() {
    assert!(!is_from_here(&headers(&[(header::HOST, "rebound.example:8080")])));
    for origin in ["https://site.example", "null", "http://localhost.site.example"] {
        assert!(!is_from_here(&headers(&[(header::HOST, "localhost"), (header::ORIGIN, origin)])), "{origin}");
    }
}

#[test]
fn an_authority_in_place_of_the_header_is_checked_too() {
    let here = "http://localhost:1/api".parse().unwrap();
    assert!(refuse_foreign_page(&here, &HeaderMap::new()).is_ok());
    let there = "http://rebound.example:1/api".parse().unwrap();
    assert!(refuse_foreign_page(&there, &HeaderMap::new()).is_err());
}

#[test]
fn who_may_only_read_is_refused_in_the_words_of_kubernetes() {
    let alice = Caller { name: "alice".into(), access: Access::Read };
    let said =
        |method, uri: &str| may(&alice, &method, &uri.parse().unwrap()).unwrap_err().document()["message"].clone();
    for (method, uri, words) in [
        (
            Method::DELETE,
            "/apis/apps/v1/namespaces/default/deployments/web",
            "deployments.apps \"web\" is forbidden: User \"alice\" cannot delete resource \"deployments\" in API group \"apps\" in the namespace \"default\": the token is for reading",
        ),
        (
            Method::POST,
            "/api/v1/namespaces",
            "namespaces is forbidden: User \"alice\" cannot create resource \"namespaces\" in API group \"\" at the cluster scope: the token is for reading",
        ),
        (
            Method::PATCH,
            "/apis/apps/v1/namespaces/a/deployments/web/status",
            "deployments.apps \"web\" is forbidden: User \"alice\" cannot patch resource \"deployments/status\" in API group \"apps\" in the namespace \"a\": the token is for reading",
        ),
        (Method::POST, "/metrics", "forbidden: User \"alice\" cannot post path \"/metrics\": the token is for reading"),
    ] {
        assert_eq!(said(method, uri), words);
    }
}

#[test]
fn reading_is_for_every_token_and_writing_for_those_that_say_so() {
    let (reads, writes) = ("alice", "bob");
    let caller = |name: &str, access| Caller { name: name.into(), access };
    let uri = "/api/v1/namespaces".parse().unwrap();
    assert!(may(&caller(reads, Access::Read), &Method::GET, &uri).is_ok());
    assert!(may(&caller(reads, Access::Read), &Method::PUT, &uri).is_err());
    assert!(may(&caller(writes, Access::Write), &Method::DELETE, &uri).is_ok());
}
