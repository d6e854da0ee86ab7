use super::Pattern;

#[track_caller]
fn pattern(text: &str, good: &[&str], bad: &[&str]) {
    let pattern = Pattern::new(text).expect("well formed");
    assert_eq!(pattern.text(), text);
    for text in good {
        assert!(pattern.is_in(text), "{text:?}");
    }
    for text in bad {
        assert!(!pattern.is_in(text), "{text:?}");
    }
}

#[test]
fn a_pattern_means_what_it_means_in_kubernetes() {
    pattern(r"^\d+$", &["12"], &["١٢", "", "a"]);
    pattern(r"^\w+\s\W$", &["a_1 -"], &["ä a", "a b"]);
    pattern(r"^[\w.-]+$", &["a.b-c"], &["a b"]);
    pattern(r"^[^\s]+$", &["ä"], &["a b"]);
    pattern(r"^[[]$", &["["], &["]"]);
    pattern(r"^[]a]$", &["]", "a"], &["["]);
    pattern(r"^[^]a]$", &["b"], &["]"]);
    pattern(r"^[[:alpha:]_]+$", &["a_"], &["1", ":"]);
    pattern(r"^[a&&b]$", &["&", "a"], &["c"]);
    pattern(r"^[+--]$", &["+", ",", "-"], &["."]);
    pattern(r"^{{[a-z]+}}$", &["{{a}}"], &["a"]);
    pattern(r"^a{2}b{1,}c{0,1}$", &["aab", "aabbc"], &["ab"]);
    pattern(r"^a{,2}$", &["a{,2}"], &["aa"]);
    pattern(r"^\<a\>$", &["<a>"], &["a"]);
    pattern(r"^\p{Lu}$", &["Ä"], &["ä"]);
    pattern(r"^[\P{Lu}\x{41}]\x{42}$", &["aB", "AB"], &["BB", "ab"]);
    pattern(r"^(?i)a\/b\.$", &["A/b."], &["a/bc"]);
    pattern(r"\ba\b", &["x a x", "äa"], &["xa"]);
    pattern(r"^[A-Za-z0-9!#$%&'*+\-.^_\x60|~]+$", &["x-a~&`"], &["a b"]);
    pattern(r"^a$", &["a"], &["a\n", "b\na"]);
}

#[test]
fn a_pattern_prone_to_backtracking_takes_no_time() {
    pattern(r"^(a+)+$", &["a"], &[&format!("{}b", "a".repeat(10_000))]);
}

#[test]
fn a_pattern_that_cannot_be_compiled_says_why() {
    for (text, wanted) in [
        ("(", "is not a regular expression: unclosed group"),
        ("a{1000}{1000}{100}", "is too large, the limit is 1048576 bytes when compiled"),
        ("(?=a)", "is not a regular expression: look-around, including look-ahead and look-behind, is not supported"),
    ] {
        assert_eq!(Pattern::new(text).map(drop), Err(wanted.to_owned()));
    }
    for text in ["\\", "[", "[^", "[]", "[[:", "{", &"(".repeat(1000), &"a".repeat(5000)] {
        drop(Pattern::new(text));
    }
}
