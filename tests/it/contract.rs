//! The contract with guests, word by word: a change of it is a decision, and shows in a review.

use homeostat_tests::repository;

#[test]
fn the_contract_is_the_one_that_was_agreed_on() {
    for name in ["types", "guest", "host", "world"] {
        let text = std::fs::read_to_string(repository().join(format!("wit/{name}.wit"))).unwrap();
        insta::assert_snapshot!(name, text);
    }
}

/// Everything that a guest can name says since when, and the manual has a word on every function.
#[test]
fn every_item_says_since_when() {
    for name in ["types", "guest", "host", "world"] {
        let text = std::fs::read_to_string(repository().join(format!("wit/{name}.wit"))).unwrap();
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        for (number, line) in lines.iter().enumerate() {
            let declares = ["interface ", "world ", "record ", "variant ", "enum ", "type "]
                .iter()
                .any(|word| line.starts_with(word));
            if declares || line.contains(": func(") {
                assert!(
                    lines[number - 1].starts_with("@since"),
                    "{name}.wit:{}: `{line}` does not say since when",
                    number + 1
                );
            }
            if line.contains(": func(") {
                assert!(lines[number - 2].starts_with("///"), "{name}.wit:{}: `{line}` has no manual", number + 1);
            }
        }
    }
}
