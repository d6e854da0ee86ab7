use super::*;

/// mimalloc numbers its options, and another version may number them differently.
#[test]
fn the_option_of_the_allocator_is_the_one_that_is_meant() {
    assert_eq!(mi_option_get(PURGE_DELAY), 1000, "its default");
    keep_little();
    assert_eq!(mi_option_get(PURGE_DELAY), 0);
}
