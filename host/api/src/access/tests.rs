use super::*;

fn headers(pairs: &[(header::HeaderName, &'static str)]) -> HeaderMap {
    pairs.iter().map(|(name, value)| (name.clone(), value.parse().unwrap())).collect()
}

fn is_answered(method: &Method, uri: &str, pairs: &[(header::HeaderName, &'static str)]) -> bool {
    refuse_foreign_page("http", method, &uri.parse().unwrap(), &headers(pairs)).is_ok()
}

#[test]
fn requests_of_local_programs_are_allowed() {
    for host in ["localhost", "localhost:8080", "127.0.0.1:1", "[::1]:1", "[::1]"] {
        assert!(is_answered(&Method::GET, "/api", &[(header::HOST, host)]), "{host}");
    }
}

#[test]
fn requests_of_pages_of_other_sites_are_refused() {
    assert!(!is_answered(&Method::GET, "/api", &[(header::HOST, "rebound.example:8080")]));
    for origin in ["https://site.example", "null", "http://localhost.site.example", "localhost", ""] {
        assert!(
            !is_answered(&Method::GET, "/api", &[(header::HOST, "localhost"), (header::ORIGIN, origin)]),
            "{origin}"
        );
    }
}

#[test]
fn pages_of_this_server_may_send_requests_and_those_of_other_ports_not() {
    let host = (header::HOST, "127.0.0.1:8080");
    assert!(is_answered(&Method::GET, "/api", &[host.clone(), (header::ORIGIN, "http://127.0.0.1:8080")]));
    for origin in ["http://127.0.0.1:3000", "http://127.0.0.1", "http://localhost:8080", "https://127.0.0.1:8080"] {
        assert!(!is_answered(&Method::GET, "/api", &[host.clone(), (header::ORIGIN, origin)]), "{origin}");
        let over_http2 = "http://127.0.0.1:8080/api";
        assert!(!is_answered(&Method::GET, over_http2, &[(header::ORIGIN, origin)]), "{origin}");
    }
}

#[test]
fn cross_site_request_without_an_origin_is_refused() {
    for (site, answered) in [("same-origin", true), ("none", true), ("same-site", false), ("cross-site", false)] {
        let asked = [(header::HOST, "localhost:8080"), (FETCH_SITE, site)];
        assert_eq!(is_answered(&Method::GET, "/api", &asked), answered, "{site}");
    }
}

#[test]
fn body_types_without_a_preflight_are_refused() {
    let host = (header::HOST, "localhost");
    let post = |types: &[&'static str]| {
        let mut headers = headers(std::slice::from_ref(&host));
        for value in types {
            headers.append(header::CONTENT_TYPE, value.parse().unwrap());
        }
        refuse_foreign_page("http", &Method::POST, &"/api".parse().unwrap(), &headers)
    };
    for content_type in ["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"] {
        assert!(post(&[content_type]).is_ok(), "{content_type}");
    }
    let form = "multipart/form-data; boundary=x";
    for refused in [&["text/plain"][..], &["Text/Plain ; charset=utf-8"], &[form], &["application/json", "text/plain"]]
    {
        assert_eq!(post(refused).unwrap_err().code(), 415, "{refused:?}");
    }
    // A browser sends a preflight before these.
    for method in [Method::PUT, Method::PATCH, Method::DELETE] {
        assert!(is_answered(&method, "/api", std::slice::from_ref(&host)), "{method}");
    }
}

#[test]
fn a_post_without_a_type_is_taken_from_programs_and_not_from_pages_of_others() {
    let host = (header::HOST, "localhost:8080");
    let post = |more: &[(HeaderName, &'static str)]| {
        is_answered(&Method::POST, "/api", &[std::slice::from_ref(&host), more].concat())
    };
    assert!(post(&[]), "a program says nothing of itself");
    assert!(post(&[(header::ORIGIN, "http://localhost:8080"), (FETCH_SITE, "same-origin")]));
    // A browser sends at least one of these with every POST, and a page cannot remove them.
    for headers in [
        (header::ORIGIN, "https://site.example"),
        (header::ORIGIN, "http://localhost:3000"),
        (header::ORIGIN, "null"),
        (FETCH_SITE, "cross-site"),
        (FETCH_SITE, "same-site"),
    ] {
        assert!(!post(std::slice::from_ref(&headers)), "{headers:?}");
    }
}

#[test]
fn an_authority_in_place_of_the_header_is_checked_too() {
    assert!(is_answered(&Method::GET, "http://localhost:1/api", &[]));
    assert!(!is_answered(&Method::GET, "http://rebound.example:1/api", &[]));
}

#[test]
fn read_only_caller_is_refused_in_the_words_of_kubernetes() {
    let alice = Caller::with("alice", Access::Read);
    let message = |method, uri: &str| refusal(&alice, &method, uri).unwrap_err().document()["message"].clone();
    for (method, uri, words) in [
        (
            Method::DELETE,
            "/apis/apps/v1/namespaces/default/deployments/web",
            "deployments.apps \"web\" is forbidden: User \"alice\" cannot delete resource \"deployments\" in API group \"apps\" in the namespace \"default\": the token is read-only",
        ),
        (
            Method::POST,
            "/api/v1/namespaces",
            "namespaces is forbidden: User \"alice\" cannot create resource \"namespaces\" in API group \"\" at the cluster scope: the token is read-only",
        ),
        (
            Method::PATCH,
            "/apis/apps/v1/namespaces/a/deployments/web/status",
            "deployments.apps \"web\" is forbidden: User \"alice\" cannot patch resource \"deployments/status\" in API group \"apps\" in the namespace \"a\": the token is read-only",
        ),
        (Method::POST, "/metrics", "forbidden: User \"alice\" cannot post path \"/metrics\": the token is read-only"),
    ] {
        assert_eq!(message(method, uri), words);
    }
}

#[test]
fn every_token_may_read_and_only_write_tokens_may_write() {
    let (reads, writes) = ("alice", "bob");
    let uri = "/api/v1/namespaces";
    assert!(refusal(&Caller::with(reads, Access::Read), &Method::GET, uri).is_ok());
    assert!(refusal(&Caller::with(reads, Access::Read), &Method::PUT, uri).is_err());
    assert!(refusal(&Caller::with(writes, Access::Write), &Method::DELETE, uri).is_ok());
}

fn refusal(caller: &Caller, method: &Method, uri: &str) -> Result<(), Failure> {
    may(caller, &RoleBook::default(), method, &uri.parse().unwrap())
}

#[test]
fn a_request_has_the_verb_and_the_resource_that_roles_name() {
    let attributes_of = |method: Method, uri: &str| {
        let uri: Uri = uri.parse().unwrap();
        let route = path::parse(uri.path());
        let params = Params::of(&uri).unwrap_or_default();
        let Attributes { verb, about } = attributes(&method, &uri, route.as_ref(), &params);
        format!("{verb} {about:?}")
    };
    let pods = "/api/v1/namespaces/a/pods";
    for (method, uri, verb) in [
        (Method::GET, pods.to_owned(), "list"),
        (Method::GET, format!("{pods}?watch=true&x=1"), "watch"),
        (Method::GET, format!("{pods}?watch=false"), "list"),
        (Method::GET, format!("{pods}/x"), "get"),
        (Method::HEAD, format!("{pods}/x"), "get"),
        (Method::POST, pods.to_owned(), "create"),
        (Method::DELETE, pods.to_owned(), "deletecollection"),
        (Method::DELETE, format!("{pods}/x"), "delete"),
    ] {
        let found = attributes_of(method, &uri);
        assert!(found.starts_with(&format!("{verb} ")) && found.contains("namespace: Some(\"a\")"), "{uri}: {found}");
    }
    let one = attributes_of(Method::GET, &format!("{pods}?fieldSelector=metadata.name%3Dx&watch=1"));
    assert!(one.starts_with("watch ") && one.contains("name: Some(\"x\")"), "{one}");
    let two = attributes_of(Method::GET, &format!("{pods}?fieldSelector=metadata.name%3Dx,status.phase%3Dy"));
    assert!(two.contains("name: None"), "{two}");
    // A repeated parameter means nothing here, and the handler refuses it.
    let repeated = attributes_of(Method::GET, &format!("{pods}?fieldSelector=&field%53elector=metadata.name%3Dx"));
    assert!(repeated.contains("name: None"), "{repeated}");
    let namespace = attributes_of(Method::GET, "/api/v1/namespaces/a");
    assert!(namespace.contains("namespace: Some(\"a\"), name: Some(\"a\")"), "{namespace}");
    let part = attributes_of(Method::PUT, "/apis/apps/v1/namespaces/a/deployments/x/scale");
    assert!(part.starts_with("update ") && part.contains("subresource: Some(\"scale\")"), "{part}");
    assert!(attributes_of(Method::POST, "/homeostat/v1/drain").starts_with("post Path"));
}
