use proptest::prelude::*;

use super::*;

#[test]
fn the_name_of_a_kind_stands_plain_and_all_else_in_quotes() {
    for plain in ["apps/Deployment", "demo.dev/Web", "Pod"] {
        assert_eq!(scalar(plain), plain);
    }
    for quoted in ["", "true", "No", "1.0", "-a", "a b", "a: b", "a#", "é"] {
        assert!(scalar(quoted).starts_with('"'), "{quoted}");
    }
    assert_eq!(scalar("a\"]\n\u{202e}"), "\"a\\\"]\\U0000000A\\U0000202E\"");
}

#[test]
fn a_kind_whose_name_is_a_pattern_gets_no_line() {
    for name in ["*", "Dep*", "a/b"] {
        assert!(resources(&Kind::new("apps", "v1", name), &[Verb::Watch]).starts_with("(no line can"), "{name}");
    }
}

proptest! {
    #[test]
    fn lines_grant_what_they_are_for_whatever_the_kind_is_called(group in "\\PC{0,8}", name in any::<String>()) {
        let kind = Kind::new(&group, "v1", &name);
        let lines = resources(&kind, &[Verb::Watch, Verb::Get]);
        prop_assume!(!lines.starts_with('('));
        prop_assert_eq!(lines.lines().count(), 3);
        let Some(list) = lines.split_once("kinds: [").and_then(|(_, rest)| rest.rsplit_once("], verbs: [watch, get], namespaces: [\"*\"]}")) else {
            return Err(TestCaseError::fail(lines));
        };
        prop_assert_eq!(list.1, "");
        // What JSON reads back, YAML does; but for the escapes of eight digits, which JSON does not have.
        prop_assert!(list.0.is_ascii() && !list.0.bytes().any(|byte| byte.is_ascii_control()));
        if let Some(inner) = list.0.strip_prefix('"') {
            let inner = inner.strip_suffix('"').ok_or_else(|| TestCaseError::fail("it ends"))?;
            prop_assert!(!inner.replace("\\\\", "").replace("\\\"", "").contains('"'), "{}", inner);
        }
    }
}
