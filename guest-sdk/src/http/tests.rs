use super::*;

fn parts(url: &str) -> Option<(String, String, String)> {
    Address::parse(url).map(|Address { scheme, authority, path }| (format!("{scheme:?}"), authority.to_owned(), path))
}

#[test]
fn an_address_is_taken_apart() {
    let some =
        |scheme: &str, authority: &str, path: &str| Some((scheme.to_owned(), authority.to_owned(), path.to_owned()));
    assert_eq!(parts("https://example.com"), some("Scheme::Https", "example.com", "/"));
    assert_eq!(parts("HTTP://127.0.0.1:8080/a/b?c=d#e"), some("Scheme::Http", "127.0.0.1:8080", "/a/b?c=d"));
    assert_eq!(parts("http://example.com?q"), some("Scheme::Http", "example.com", "/?q"));
}

#[test]
fn malformed_addresses_are_refused() {
    for url in [
        "",
        "example.com",
        "ftp://example.com",
        "http://",
        "http:///path",
        "http://user:word@example.com",
        "http://a b/",
    ] {
        assert_eq!(parts(url), None, "{url:?} was taken");
    }
}

#[test]
fn a_header_is_found_by_its_name() {
    let response =
        Response { status: 200, headers: vec![("etag".to_owned(), b"x".to_vec())], body: b"{\"a\":1}".to_vec() };
    assert_eq!(response.header("etag"), Some("x"));
    assert_eq!(response.header("age"), None);
    assert_eq!(response.json::<serde_json::Value>().unwrap()["a"], 1);
}
