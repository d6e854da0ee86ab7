//! A caught panic of redb is reported only by the code that catches it.

use std::process::Command;
use std::thread;

use super::*;
use crate::embedded::open::{OpenResult, catch_panics};

/// The part of the next test that runs in its own process: all its output is of this test.
#[test]
#[ignore = "it is run by `a_panic_that_is_caught_is_not_printed`"]
fn one_panic_is_caught_and_another_one_is_printed() {
    let caught: OpenResult<()> = catch_panics(Path::new("store"), || panic!("of the engine"));
    assert!(matches!(caught, Err(OpenError::Damaged { .. })));
    let other = thread::spawn(|| panic!("of somebody else")).join();
    assert!(other.is_err());
}

#[test]
fn a_panic_that_is_caught_is_not_printed() {
    let mut test = Command::new(std::env::current_exe().expect("it runs"));
    test.args(["--exact", "embedded::tests::muted::one_panic_is_caught_and_another_one_is_printed"]);
    let output = test.args(["--ignored", "--nocapture"]).output().expect("it can be run again");
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}");
    assert!(told.contains("of somebody else") && !told.contains("of the engine"), "{told}");
}
