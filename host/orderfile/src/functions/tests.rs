//! Tests of the list and of the linker script.

use super::*;
use crate::FUNCTIONS;

const POLL: &str = "_ZN5tokio7runtime4poll17h0123456789abcdefE";
const READ: &str = "_RNvMCsjrHSEGnQ3l9_3stdNtCs7x_4core4read";

fn map() -> LinkMap {
    LinkMap::parse(&format!(
        "1 1 2 16 target/deps/libtokio-00.rlib(tokio-00.cgu.0.o):(.text.{POLL})
         1 1 2 16 target/deps/host-00.cgu.1.o:(.text.{POLL})
         1 1 2 16 lib/libstd-00.rlib(std-00.cgu.0.o):(.text.{READ})"
    ))
}

#[test]
fn functions_of_the_same_runs_stand_together_those_of_most_runs_first() {
    let run = |symbols: &[&str]| symbols.iter().map(|symbol| (*symbol).to_owned()).collect();
    let list = write_list(&[run(&[POLL, READ]), run(&[READ, "unknown"])], &map());
    assert_eq!(
        list,
        "crate libstd\n_RNvMCs*_3stdNtCs*_4core4read\ncrate program\n_ZN5tokio7runtime4poll\ncrate libtokio\n_ZN5tokio7runtime4poll\n"
    );
}

#[test]
fn a_linker_script_names_functions_and_their_files() {
    let script = linker_script("crate program\n_ZN1a\ncrate libstd\n_RNvCs*_3std\nmemcpy\n");
    let lines: Vec<&str> = script.lines().map(str::trim).collect();
    assert_eq!(lines[2..4], [":*( .text._ZN1a17h*)", "*libstd-*.rlib:( .text._RNvCs*_3std .text.memcpy)"]);
}

#[test]
fn hashes_are_no_part_of_a_function() {
    assert_eq!(without_hashes(&format!("{POLL}.llvm.123")), "_ZN5tokio7runtime4poll");
    assert_eq!(without_hashes("_RNvCsab_1aCs"), "_RNvCs*_1aCs");
    assert_eq!(without_hashes("mi_17hE"), "mi_17hE");
}

/// The linker reads a line as a pattern, so a damaged one could move any function.
#[test]
fn the_list_has_symbols_of_crates_alone() {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_$.*".contains(&byte);
    let mut libraries = 0;
    for line in FUNCTIONS.lines() {
        match line.strip_prefix(LIBRARY) {
            Some(library) => {
                libraries += 1;
                assert!(library == PROGRAM || library.starts_with("lib"), "{line}");
            }
            None => assert!(line.bytes().all(is_plain) && !line.starts_with('*'), "{line}"),
        }
    }
    assert!(libraries > 50 && FUNCTIONS.starts_with(LIBRARY));
}
