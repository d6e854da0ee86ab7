//! A few cycles of every campaign.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![allow(missing_docs, reason = "the names of tests are sentences")]

use std::process::Command;

/// Runs a campaign and returns its last line.
fn campaign(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_homeostat-campaign")).args(arguments).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    said.lines().last().unwrap().to_owned()
}

/// S8, S9, S10: a watch delivers every later change, in order, once; no event is lost silently; all
/// acknowledged writes survive, and no partial one.
#[test]
fn a_process_that_is_ended_at_any_moment_loses_no_acknowledged_write() {
    let count = campaign(&["kill", "--cycles", "4"]);
    assert!(count.starts_with("4 kills") && count.ends_with("0 lost, 0 half, 0 watch gaps"), "{count}");
    assert!(!count.contains(" 0 acknowledged"), "{count}");
}

/// S10: all acknowledged writes survive, and no partial one.
#[test]
fn a_power_loss_at_any_moment_loses_no_acknowledged_write() {
    let count = campaign(&["power-loss", "--crashes", "12"]);
    assert!(count.starts_with("12 power losses") && count.ends_with("0 lost, 0 half, 0 watch gaps"), "{count}");
    assert!(!count.contains(" 0 acknowledged"), "{count}");
}

/// S10: all acknowledged writes survive, and no partial one.
#[test]
fn a_disk_that_fails_is_told_and_loses_no_acknowledged_write() {
    let count = campaign(&["disk", "--cycles", "12"]);
    assert!(count.contains("in 12 cycles") && count.ends_with("0 lost, 0 half, 0 watch gaps"), "{count}");
    assert!(!count.starts_with("0 faults"), "{count}");
}

#[test]
fn a_damaged_file_is_refused_or_answers_rightly_or_with_errors() {
    let count = campaign(&["damage", "--cycles", "8"]);
    assert!(count.ends_with("0 with wrong answers, 0 refused but changed, 0 panicked, 0 hung"), "{count}");
}

/// C7: a singleton runs on one host at a time.
#[test]
fn a_simulated_fleet_keeps_its_promises() {
    let count = campaign(&["fleet", "--hours", "4"]);
    assert!(count.starts_with("4 simulated hours") && count.ends_with("0 runs with a broken promise"), "{count}");
    assert!(!count.contains(" 0 terms") && !count.contains(" 0 writes"), "{count}");
}
