//! The contract with guests as snapshots, so that a review shows every change of it.

use homeostat_tests::repository;

#[test]
fn the_contract_equals_its_snapshots() {
    for name in ["types", "guest", "host", "world"] {
        let text = std::fs::read_to_string(repository().join(format!("wit/{name}.wit"))).unwrap();
        insta::assert_snapshot!(name, text);
    }
}

/// Every item of the contract has an `@since`, and every function is documented.
#[test]
fn every_item_has_since_and_every_function_is_documented() {
    for name in ["types", "guest", "host", "world"] {
        let text = std::fs::read_to_string(repository().join(format!("wit/{name}.wit"))).unwrap();
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        for (number, line) in lines.iter().enumerate() {
            let declares = ["interface ", "world ", "record ", "variant ", "enum ", "type "]
                .iter()
                .any(|word| line.starts_with(word));
            if declares || line.contains(": func(") {
                assert!(lines[number - 1].starts_with("@since"), "{name}.wit:{}: `{line}` has no @since", number + 1);
            }
            if line.contains(": func(") {
                assert!(
                    lines[number - 2].starts_with("///"),
                    "{name}.wit:{}: `{line}` has no documentation",
                    number + 1
                );
            }
        }
    }
}
