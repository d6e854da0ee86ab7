use std::time::Duration;

use super::{SAMPLES, Watermarks};

fn minutes(number: u64) -> Duration {
    Duration::from_secs(number * 60)
}

#[test]
fn a_sequence_is_recent_while_the_bucket_had_it_within_the_age() {
    let mut marks = Watermarks::new(minutes(30));
    assert!(!marks.is_recent(minutes(0), 100), "nothing is known");
    marks.note(minutes(0), 10);
    marks.note(minutes(10), 20);
    marks.note(minutes(20), 30);
    assert!(marks.is_recent(minutes(20), 10));
    assert!(!marks.is_recent(minutes(20), 9), "it may be of any age");
    assert!(!marks.is_recent(minutes(31), 19));
    assert!(marks.is_recent(minutes(31), 20));
    assert!(marks.is_recent(minutes(50), 1000));
    assert!(!marks.is_recent(minutes(51), 1000), "the bucket may have gone on unseen");
}

#[test]
fn many_samples_are_kept_as_few() {
    let mut marks = Watermarks::new(minutes(30));
    for second in 0..100_000 {
        marks.note(Duration::from_secs(second), second);
    }
    assert!(marks.samples.len() <= SAMPLES as usize + 1, "{}", marks.samples.len());
    let now = Duration::from_secs(99_999);
    assert!(marks.is_recent(now, 99_999 - 60 * 28), "most of the age is covered");
    assert!(!marks.is_recent(now, 99_999 - 60 * 31));
}

#[test]
fn another_bucket_has_no_samples() {
    let mut marks = Watermarks::new(minutes(30));
    marks.note(minutes(0), 10);
    marks.clear();
    assert!(!marks.is_recent(minutes(0), 10));
}
