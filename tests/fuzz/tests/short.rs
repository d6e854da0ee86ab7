//! Some hundred inputs of every target.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![allow(missing_docs, reason = "the names of tests are sentences")]

use std::process::Command;

/// Runs a target. Some inputs must be accepted and some refused, so that the property is actually tested.
fn fuzz(target: &str, inputs: u64) {
    let inputs = inputs.to_string();
    let output =
        Command::new(env!("CARGO_BIN_EXE_homeostat-fuzz")).args([target, "--inputs", &inputs]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    let count = said.lines().last().unwrap();
    assert!(count.starts_with(&format!("{inputs} inputs of {target}: ")), "{count}");
    assert!(count.ends_with(" refused, 0 broke a property, 0 panicked, 0 slow, 0 hung"), "{count}");
    assert!(!count.contains(" 0 accepted") && !count.contains(" 0 refused"), "{count}");
}

#[test]
fn documents_read_back_as_they_were_stored() {
    fuzz("document", 200);
}

#[test]
fn a_dry_run_of_any_write_says_what_the_write_then_does() {
    fuzz("write", 200);
}

#[test]
fn lists_have_the_resources_that_their_selector_matches() {
    fuzz("selector", 200);
}

#[test]
fn a_foreign_token_is_refused_or_goes_on_in_order() {
    fuzz("token", 200);
}

#[test]
fn a_json_patch_makes_nothing_that_is_too_large_or_too_deep() {
    fuzz("json-patch", 200);
}

#[test]
fn a_merge_patch_changes_nothing_the_second_time() {
    fuzz("merge", 200);
}

#[test]
fn what_was_applied_changes_nothing_the_second_time() {
    fuzz("apply", 200);
}

#[test]
fn a_json_path_leads_where_its_pointer_leads() {
    fuzz("jsonpath", 200);
}

#[test]
fn what_a_schema_filled_in_and_pruned_stays_as_it_is() {
    fuzz("schema", 200);
}

#[test]
fn a_definition_that_is_taken_has_all_that_a_host_asks_of_it() {
    fuzz("definition", 200);
}

#[test]
fn a_pattern_says_the_same_in_a_group() {
    fuzz("pattern", 200);
}

#[test]
fn names_and_values_that_are_taken_are_found() {
    fuzz("name", 200);
}

#[test]
fn a_component_is_refused_with_a_reason_or_loaded() {
    fuzz("component", 200);
}

#[test]
fn a_file_of_compiled_code_is_taken_whole_or_not_at_all() {
    fuzz("compiled", 60);
}

#[test]
fn a_manifest_reads_as_it_was_written_and_keeps_its_bounds() {
    fuzz("manifest", 200);
}

#[test]
fn a_request_is_answered_and_does_what_its_token_allows() {
    fuzz("request", 100);
}

#[test]
fn an_artifact_and_a_signature_are_refused_or_are_what_they_say() {
    fuzz("artifact", 2000);
}

#[test]
fn a_file_of_foreign_bytes_is_refused_or_answers() {
    fuzz("file", 60);
}

#[test]
fn a_file_of_foreign_bytes_is_checked_and_restored_from_only_when_it_is_sound() {
    fuzz("fsck", 30);
}
