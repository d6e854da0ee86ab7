use super::*;

#[test]
fn plurals_of_regular_words_are_english() {
    let words = [("greeting", "greetings"), ("policy", "policies"), ("gateway", "gateways"), ("ingress", "ingresses")];
    let more = [("index", "indexes"), ("batch", "batches"), ("key", "keys"), ("lease", "leases")];
    for (singular, expected) in words.into_iter().chain(more) {
        assert_eq!(plural(singular), expected);
    }
}

#[test]
fn names_follow_the_rules_of_kubernetes() {
    assert!(is_label("v1beta1") && is_label("a-b"));
    assert!(!is_label("") && !is_label("V1") && !is_label("1v") && !is_label("a-") && !is_label(&"a".repeat(64)));
    assert!(is_group("") && is_group("apps") && is_group("demo.example.dev"));
    assert!(!is_group("Apps") && !is_group("a..b") && !is_group("a.") && !is_group("-a"));
    assert!(is_kind("Greeting") && !is_kind("greeting") && !is_kind("A_B") && !is_kind(""));
}
