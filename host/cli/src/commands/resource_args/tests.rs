use super::*;

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

fn parsed(text: &str) -> Vec<(String, String)> {
    parse(&words(text)).unwrap().into_iter().map(|named| (named.kind, named.names.join("+"))).collect()
}

fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(kind, names)| ((*kind).to_owned(), (*names).to_owned())).collect()
}

#[test]
fn resources_are_named_as_kubectl_names_them() {
    assert_eq!(parsed("deploy"), pairs(&[("deploy", "")]));
    assert_eq!(parsed("deploy a b"), pairs(&[("deploy", "a+b")]));
    assert_eq!(parsed("deploy,rs,po"), pairs(&[("deploy", ""), ("rs", ""), ("po", "")]));
    assert_eq!(parsed("deploy/a rs/b"), pairs(&[("deploy", "a"), ("rs", "b")]));
}

#[test]
fn invalid_resource_arguments_are_a_usage_error() {
    for text in ["", ",", "deploy,rs a", "deploy/a b", "deploy/", "/a", "a/b/c"] {
        assert_eq!(exit::reason_of(&parse(&words(text)).unwrap_err()), exit::ExitReason::Usage, "{text}");
    }
}

#[test]
fn one_resource_is_one_resource() {
    assert_eq!(parse_one(&words("deploy/a")).unwrap(), ("deploy".to_owned(), "a".to_owned()));
    assert!(parse_one(&words("deploy a b")).is_err());
    assert!(parse_one(&words("deploy")).is_err());
}

#[test]
fn a_controller_is_named_with_or_without_its_kind() {
    for word in
        ["web", "controller/web", "Controllers/web", "controller.homeostat.dev/web", "controllers.homeostat.dev/web"]
    {
        assert_eq!(controller(word).as_deref(), Ok("web"), "{word}");
    }
}

#[test]
fn another_kind_is_never_mistaken_for_the_controller_of_its_name() {
    for word in [
        "deployment/web",
        "deployments.apps/web",
        "controller.example.org/web",
        "pod/web",
        "/web",
        "controller/",
        "",
        "controller/web/x",
    ] {
        assert!(controller(word).is_err(), "{word}");
    }
}
