use std::thread;
use std::time::{Duration, Instant};

use super::{Judge, Verdict};
use crate::target::{Acceptance, Outcome};

const LONG: Duration = Duration::from_secs(10);
const SHORT: Duration = Duration::from_millis(10);

/// A target that follows its input.
fn reader(input: &[u8]) -> Outcome {
    match input {
        b"panic" => panic!("as it was told"),
        b"break" => Err("as it was told".to_owned()),
        b"spin" => {
            let from = Instant::now();
            while from.elapsed() <= SHORT {
                thread::yield_now();
            }
            Ok(Acceptance::Accepted)
        }
        b"hang" => loop {
            thread::park();
        },
        _ => Ok(Acceptance::Rejected),
    }
}

#[test]
fn a_panic_and_a_broken_law_are_told_and_the_next_input_is_judged() {
    let judge = Judge::start(reader, LONG).expect("a thread");
    assert_eq!(judge.judge(b"panic"), Verdict::Panicked("as it was told".to_owned()));
    assert_eq!(judge.judge(b"break"), Verdict::Broken("as it was told".to_owned()));
    assert_eq!(judge.judge(b"else"), Verdict::Passed(Acceptance::Rejected));
}

#[test]
fn an_input_that_takes_too_long_is_told() {
    let judge = Judge::start(reader, SHORT).expect("a thread");
    assert!(matches!(judge.judge(b"spin"), Verdict::Slow(time) if time > SHORT));
    assert_eq!(judge.judge(b"hang"), Verdict::Hung);
}
