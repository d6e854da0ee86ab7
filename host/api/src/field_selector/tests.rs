use super::*;

/// Returns the terms of a selector as triples.
fn terms(selector: &str) -> Vec<(String, bool, String)> {
    parse(selector).unwrap().into_iter().map(|term| (term.path, term.is_equal, term.value)).collect()
}

fn term(path: &str, is_equal: bool, value: &str) -> (String, bool, String) {
    (path.to_owned(), is_equal, value.to_owned())
}

#[test]
fn a_selector_has_equal_and_unequal_terms() {
    assert_eq!(terms(""), []);
    assert_eq!(
        terms("a=1,,b==2,c!=3,d="),
        [term("a", true, "1"), term("b", true, "2"), term("c", false, "3"), term("d", true, "")]
    );
    assert_eq!(terms("a!=b!"), [term("a", false, "b!")]);
    assert_eq!(parse("a.b=1").unwrap()[0].pointer(), "/a/b");
}

#[test]
fn spaces_belong_to_a_path_and_to_a_value() {
    assert_eq!(terms("a= 1, b=2 "), [term(" b", true, "2 "), term("a", true, " 1")]);
}

#[test]
fn a_value_may_have_escaped_commas_equals_signs_and_backslashes() {
    assert_eq!(terms(r"a=1\,2\=3\\,b=4"), [term("a", true, r"1,2=3\"), term("b", true, "4")]);
}

#[test]
fn a_malformed_selector_is_refused_in_the_words_of_kubernetes() {
    for (selector, words) in [
        ("z=1,a", "invalid selector: 'z=1,a'; can't understand 'a'"),
        ("a!b", "invalid selector: 'a!b'; can't understand 'a!b'"),
        (r"a=\x", r"invalid field selector: invalid escape sequence: \x"),
        (r"a=\", r"invalid field selector: invalid escape sequence: \"),
        ("a===b", "invalid field selector: unescaped character in value: 61"),
        ("a=b=c", "invalid field selector: unescaped character in value: 61"),
    ] {
        let failure = parse(selector).unwrap_err();
        assert_eq!((failure.code(), failure.document()["message"].as_str()), (400, Some(words)), "{selector}");
    }
}
