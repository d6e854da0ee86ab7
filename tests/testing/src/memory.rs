//! Measures the memory behind a bound: a test fills a structure beyond its bound, and compares the memory of
//! the process.
//!
//! Each test runs alone in a process of its own.

use std::process::Command;

/// Returns the bytes that a process may take for `bytes` in use. The allocator keeps half as much again.
pub const fn with_slack(bytes: u64) -> u64 {
    bytes / 2 * 3
}

/// Returns the anonymous resident memory of this process, in bytes: its heap and stacks. Pages of the program
/// itself do not count, because the system maps them when it likes.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux tells what a process takes");
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("every process has a size");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a size is a number of kB") * 1024
}

/// Calls `fill`, and asserts that the process has grown by at most `bytes`. Drops the result of `fill`
/// afterwards.
///
/// # Panics
/// When the process has grown by more, or by less than a 32nd of `bytes`, which means that `fill` filled
/// nothing.
pub fn grows_by_at_most<T>(bytes: u64, fill: impl FnOnce() -> T) {
    let before = resident();
    let filled = fill();
    let grown = resident().saturating_sub(before);
    drop(filled);
    assert!(grown <= bytes, "grown by {grown} bytes, and {bytes} are allowed");
    assert!(grown > bytes / 32, "grown by {grown} bytes of {bytes}: nothing was measured");
}

/// Runs an ignored test of a module in a process of its own.
///
/// # Panics
/// When the test fails, or no test has that name.
pub fn alone(module: &str, test: &str) {
    let path = module.split_once("::").map_or("", |(_, path)| path);
    let name = format!("{path}::{test}");
    let program = std::env::current_exe().expect("a test has a program");
    let output = Command::new(program)
        .args(["--exact", &name, "--ignored", "--test-threads", "1"])
        .output()
        .expect("a test can run its own program");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{name}:\n{said}");
}

/// Declares an ignored test that measures, and a test that runs it alone: `fn promise measure_name { … }`.
#[macro_export]
macro_rules! measured {
    ($($(#[$doc:meta])* fn $name:ident $alone:ident $body:block)*) => {
        $(
            $(#[$doc])*
            #[test]
            #[cfg(target_os = "linux")]
            fn $name() {
                $crate::alone(module_path!(), stringify!($alone));
            }

            #[test]
            #[ignore = "run by another test, in a process of its own"]
            fn $alone() $body
        )*
    };
}
