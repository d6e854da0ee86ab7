use super::*;

fn target(path: &str) -> Target<'_> {
    match parse(path) {
        Some(Route::Resources(target)) => target,
        other => panic!("{path}: {other:?}"),
    }
}

#[test]
fn only_needless_escapes_are_removed() {
    let plain = |uri: &'static str| unescaped(&Uri::from_static(uri)).map(|plain| plain.to_string());
    assert_eq!(plain("/api/v1/a%3Ab/%63?x=%2F"), Some("/api/v1/a:b/c?x=%2F".to_owned()));
    for kept in
        ["/api/v1/a:b?x=%3A", "/api/v1/a%2Fb", "/api/v1/a%25b", "/api/v1/a%", "/api/v1/%0A", "/api/v1/%+A", "/%C3%A4"]
    {
        assert_eq!(plain(kept), None, "{kept}");
    }
}

#[test]
fn an_old_path_of_a_watch_is_that_of_a_list() {
    let list = |uri: &'static str| watched(&Uri::from_static(uri)).map(|list| list.to_string());
    for (old, new) in [
        ("/api/v1/watch/pods", "/api/v1/pods?watch=true"),
        ("/api/v1/watch/namespaces/a/pods/?limit=1", "/api/v1/namespaces/a/pods?watch=true&limit=1"),
        ("/apis/apps/v1/watch/deployments?x=y", "/apis/apps/v1/deployments?watch=true&x=y"),
        (
            "/apis/apps/v1/watch/namespaces/a/deployments/b",
            "/apis/apps/v1/namespaces/a/deployments?watch=true&fieldSelector=metadata.name%3Db",
        ),
    ] {
        assert_eq!(list(old).as_deref(), Some(new), "{old}");
    }
    for other in
        ["/api/v1/watch", "/api/v1/namespaces/watch/pods", "/apis/apps/watch/v1/deployments", "/watch/api/v1/pods"]
    {
        assert_eq!(list(other), None, "{other}");
    }
}

#[test]
fn a_resource_in_a_namespace_is_found_by_its_path() {
    let found = target("/apis/apps/v1/namespaces/default/deployments/web/status");
    assert_eq!((found.group, found.version, found.namespace), ("apps", "v1", Some("default")));
    assert_eq!((found.plural, found.name, found.subresource), ("deployments", Some("web"), Some("status")));
}

#[test]
fn kinds_across_namespaces_and_outside_of_them_have_short_paths() {
    let found = target("/api/v1/pods");
    assert_eq!((found.group, found.version, found.namespace, found.plural), ("", "v1", None, "pods"));
    let found = target("/apis/homeostat.dev/v1alpha1/controllers/web/queue/retry");
    assert_eq!((found.namespace, found.name, found.subresource), (None, Some("web"), Some("queue/retry")));
}

#[test]
fn namespaces_are_resources_too() {
    assert_eq!(target("/api/v1/namespaces").plural, "namespaces");
    let found = target("/api/v1/namespaces/default");
    assert_eq!((found.namespace, found.plural, found.name), (None, "namespaces", Some("default")));
    let found = target("/api/v1/namespaces/default/status");
    assert_eq!((found.plural, found.name, found.subresource), ("namespaces", Some("default"), Some("status")));
    let found = target("/api/v1/namespaces/default/pods");
    assert_eq!((found.namespace, found.plural, found.name), (Some("default"), "pods", None));
}

#[test]
fn discovery_has_its_own_paths() {
    assert_eq!(parse("/api"), Some(Route::Versions));
    assert_eq!(parse("/apis/"), Some(Route::Groups));
    assert_eq!(parse("/apis/apps"), Some(Route::Group("apps")));
    assert_eq!(parse("/apis/apps/v1"), Some(Route::Kinds { group: "apps", version: "v1" }));
    assert_eq!(parse("/api/v1"), Some(Route::Kinds { group: "", version: "v1" }));
}

#[test]
fn meaningless_path_does_not_parse() {
    for path in ["/", "/apix", "/api/v1//x", "/api/v1/pods//status", "/api/v1/pods/%2e%2e"] {
        assert_eq!(parse(path), None, "{path}");
    }
}
