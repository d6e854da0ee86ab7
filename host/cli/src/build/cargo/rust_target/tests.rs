use serde_json::json;

use super::*;

#[test]
fn a_package_is_compiled_without_a_system_unless_its_metadata_name_wasi() {
    let target = |metadata| PackageMetadata::parse(&metadata).map(|metadata| metadata.target());
    for metadata in [json!(null), json!({"docs.rs": {}}), json!({"homeostat": {}})] {
        assert_eq!(target(metadata).expect("it is valid"), Target::Unknown);
    }
    assert_eq!(target(json!({"homeostat": {"target": "wasm32-wasip2"}})).expect("it is valid"), Target::Wasip2);
    let error = target(json!({"homeostat": {"target": "wasm32-wasip1"}})).expect_err("there is no such target");
    assert!(error.to_string().contains("wasm32-unknown-unknown"), "the error lists the targets: {error}");
    target(json!({"homeostat": {"tarket": "wasm32-wasip2"}})).expect_err("there is no such setting");
}

#[test]
fn an_output_that_blames_the_target_gets_a_hint_with_the_other_one() {
    let output = "error: the wasm32-unknown-unknown targets are not supported by default";
    let hint = Target::Unknown.hint(output).expect("the target is blamed");
    assert!(hint.contains("target = \"wasm32-wasip2\""), "{hint}");
    assert_eq!(Target::Unknown.hint("error[E0308]: mismatched types"), None);
    assert_eq!(Target::Wasip2.hint(output), None);
}
