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
