use super::*;

const DIGEST: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

#[test]
fn reference_prints_as_it_was_written() {
    for text in [
        "ghcr.io/acme/greeter:1.2".to_owned(),
        "localhost:5000/a:latest".to_owned(),
        "localhost/a-b/c__d/e.f:x".to_owned(),
        format!("registry.example:8443/team/tool@{DIGEST}"),
        format!("ghcr.io/acme/greeter:v1@{DIGEST}"),
        "[::1]:5000/a:1".to_owned(),
        "docker.io/library/a:1".to_owned(),
    ] {
        let read: Reference = text.parse().unwrap();
        assert_eq!(read.to_string(), text);
    }
    let read: Reference = format!("ghcr.io/acme/greeter:v1@{DIGEST}").parse().unwrap();
    assert_eq!((read.registry(), read.repository()), ("ghcr.io", "acme/greeter"));
    assert_eq!((read.tag(), read.digest().map(Digest::as_str)), (Some("v1"), Some(DIGEST)));
}

#[test]
fn invalid_reference_is_refused() {
    for text in [
        "",
        "greeter.wasm",
        "acme/greeter:1",
        "ghcr.io/acme/greeter",
        "ghcr.io/Acme/greeter:1",
        "ghcr.io/acme//greeter:1",
        "ghcr.io/acme/greeter:",
        "ghcr.io/acme/greeter:.1",
        "ghcr.io/../greeter:1",
        "ghcr.io/a_-b:1",
        "ghcr.io:0/a:1",
        "ghcr.io:99999/a:1",
        "user@ghcr.io/a:1",
        "https://ghcr.io/a:1",
        "ghcr.io/a@sha256:12",
        "ghcr.io/a@sha512:12",
        "ghcr.io?/a:1",
        "-a.io/a:1",
        "ghcr.io/a:1/b",
        "ghcr.io/a%2fb:1",
        &format!("ghcr.io/{}:1", "a".repeat(300)),
    ] {
        let read = text.parse::<Reference>();
        assert!(read.is_err(), "{text:?} is {read:?}");
    }
}

#[test]
fn plain_http_is_for_this_machine_alone() {
    let base = |text: &str| text.parse::<Reference>().unwrap().base();
    assert_eq!(base("localhost:5000/a:1"), "http://localhost:5000");
    assert_eq!(base("127.0.0.1:5000/a:1"), "http://127.0.0.1:5000");
    assert_eq!(base("[::1]:5000/a:1"), "http://[::1]:5000");
    for elsewhere in ["10.0.0.1:5000/a:1", "localhost.example/a:1", "127.0.0.1.example/a:1", "[fe80::1]:5000/a:1"] {
        assert!(base(elsewhere).starts_with("https://"), "{elsewhere}");
    }
    assert_eq!(base("docker.io/library/a:1"), "https://registry-1.docker.io");
}
