use super::*;

static COUNTED: [AtomicU8; 3] = [const { AtomicU8::new(0) }; 3];

#[test]
fn coverage_grows_with_a_new_edge_and_a_new_range_of_counts() {
    let mut coverage = Coverage { counters: &COUNTED, reached: vec![0; 3] };
    for (at, count, is_new) in [(1, 1, true), (1, 1, false), (1, 4, true), (1, 7, false), (2, 1, true)] {
        COUNTED[at].store(count, Relaxed);
        assert_eq!(coverage.grows(), is_new, "edge {at}, {count} times");
        assert!(!coverage.grows(), "the counters start again");
    }
    assert_eq!(coverage.to_string(), "2 of 3 edges reached");
}
