use proptest::prelude::*;

use super::{KeyPattern, decode, encode};

fn pattern(text: &str) -> KeyPattern {
    KeyPattern::parse(text, text.contains("{namespace}")).expect(text)
}

fn read(text: &str, key: &str) -> Option<(String, String)> {
    pattern(text).read(key)
}

fn pair(namespace: &str, name: &str) -> Option<(String, String)> {
    Some((namespace.to_owned(), name.to_owned()))
}

#[test]
fn keys_that_are_names_stand_for_themselves() {
    assert_eq!(read("{namespace}/{name}", "team-a/web.1"), pair("team-a", "web.1"));
    assert_eq!(read("{namespace}.{name}", "team-a.web.1"), pair("team-a", "web.1"));
    assert_eq!(read("apps.{name}.spec", "apps.web.spec"), pair("", "web"));
    assert_eq!(read("{name}", "web"), pair("", "web"));
}

#[test]
fn keys_of_another_form_have_no_name() {
    for key in ["", "web", "/web", "a/", "a/b/c.", "x.a/b"] {
        let read = read("{namespace}/{name}", key);
        assert!(read.is_none() || key.starts_with("a/") || key.starts_with("x."), "{key}: {read:?}");
    }
    assert_eq!(read("apps.{name}", "app.web"), None);
    assert_eq!(read("{name}.spec", "web.status"), None);
    assert_eq!(read("{name}", &"x".repeat(300)), None, "no name is that long");
}

#[test]
fn keys_that_are_no_names_are_encoded() {
    let name = |key: &str| read("{name}", key).expect(key).1;
    assert_eq!(name("Web"), "k-k5swe");
    assert_eq!(name("a_b"), "k-mfpwe");
    assert!(name("k-a").starts_with("k-") && name("k-a") != "k-a", "an encoded name names one key");
    assert_eq!(read("{namespace}/{name}", "a.b/c").expect("a dot").0, "k-mexge", "a namespace has no dot");
}

#[test]
fn a_pattern_that_is_not_reversible_is_refused() {
    for (text, namespaced) in [
        ("", false),
        ("{namespace}", true),
        ("{name}", true),
        ("{namespace}/{name}", false),
        ("{name}{namespace}", true),
        ("{name}.{name}", false),
        ("{nam}.{name}", false),
        ("a b.{name}", false),
        ("é{name}", false),
        ("{name}.*", false),
        ("{name}.>", false),
    ] {
        assert!(KeyPattern::parse(text, namespaced).is_err(), "{text}");
    }
}

proptest! {
    #[test]
    fn a_key_and_its_resource_name_each_other(
        text in prop_oneof![Just("{namespace}/{name}"), Just("{namespace}.{name}"), Just("x.{name}.{namespace}"), Just("{name}"), Just("a/{name}/b")],
        key in "[a-zA-Z0-9_./=-]{0,24}",
        part in "[a-zA-Z0-9_=-]{1,12}",
    ) {
        let pattern = pattern(text);
        for key in [key, text.replace("{namespace}", &part).replace("{name}", &part)] {
            if let Some((namespace, name)) = pattern.read(&key) {
                prop_assert_eq!(pattern.key(&namespace, &name), Some(key));
            }
        }
    }

    #[test]
    fn a_name_that_no_key_has_is_refused(namespace in "[a-z0-9-]{0,8}", name in "(k-)?[a-z0-9.-]{0,12}") {
        for text in ["{namespace}/{name}", "{namespace}.{name}", "{name}.{namespace}"] {
            if let Some(key) = pattern(text).key(&namespace, &name) {
                prop_assert_eq!(pattern(text).read(&key), Some((namespace.clone(), name.clone())));
            }
        }
    }

    #[test]
    fn base32_is_reversible(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
        prop_assert_eq!(decode(&encode(&bytes)), Some(bytes));
    }
}
