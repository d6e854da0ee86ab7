use super::*;

/// mimalloc numbers its options, and another version may number them differently.
#[test]
fn the_allocator_option_has_the_expected_number() {
    assert_eq!(mi_option_get(PURGE_DELAY), 1000, "its default");
    keep_little();
    assert_eq!(mi_option_get(PURGE_DELAY), 0);
}
