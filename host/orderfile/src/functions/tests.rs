//! Tests of the list and of the linker script.

use super::*;
use crate::FUNCTIONS;

const POLL: &str = "_ZN5tokio7runtime4poll17h0123456789abcdefE";
const READ: &str = "_RNvMCsjrHSEGnQ3l9_3stdNtCs7x_4core4read";

/// Returns the map of functions of these files, symbols and sizes, which follow one another from address 0.
fn map(functions: &[(&str, &str, u64)]) -> LinkMap {
    let (mut text, mut address) = (String::new(), 0);
    for (file, symbol, bytes) in functions {
        text += &format!("{address:x} {address:x} {bytes:x} 16 {file}:(.text.{symbol})\n");
        address += bytes;
    }
    LinkMap::parse(&text)
}

#[test]
fn functions_of_the_same_runs_stand_together_those_of_most_runs_first() {
    let map = map(&[
        ("target/deps/libtokio-00.rlib(tokio-00.cgu.0.o)", POLL, 2),
        ("target/deps/host-00.cgu.1.o", POLL, 2),
        ("lib/libstd-00.rlib(std-00.cgu.0.o)", READ, 2),
    ]);
    let list = write_list(&[[0, 3, 4].into(), [5, 99].into()], &map);
    assert_eq!(
        list,
        "crate libstd\n_RNvMCs*_3stdNtCs*_4core4read\ncrate program\n_ZN5tokio7runtime4poll\ncrate libtokio\n_ZN5tokio7runtime4poll\n"
    );
}

#[test]
fn of_a_generic_function_that_is_mostly_not_run_the_list_has_single_instances() {
    let file = "host-00.cgu.1.o";
    let instance = |digit: char| format!("_ZN3vec4push17h{}E", digit.to_string().repeat(16));
    let [a, b, c] = ['a', 'b', 'c'].map(instance);
    let list =
        |bytes| write_list(&[[0].into(), [10].into()], &map(&[(file, &a, 10), (file, &b, 10), (file, &c, bytes)]));
    assert_eq!(list(20), "crate program\n_ZN3vec4push\n");
    assert_eq!(list(21), format!("crate program\n{a}\ncrate program\n{b}\n"));
}

#[test]
fn a_linker_script_names_functions_and_their_files() {
    let script =
        linker_script(&format!("crate program\n_ZN1a\nunlikely._ZN1b\n{POLL}\ncrate libstd\n_RNvCs*_3std\nmemcpy\n"));
    let lines: Vec<&str> = script.lines().map(str::trim).collect();
    assert_eq!(lines[2], format!(":*( .text._ZN1a17h* .text.unlikely._ZN1b17h* .text.{POLL}*)"));
    assert_eq!(lines[3], "*libstd-*.rlib:( .text._RNvCs*_3std .text.memcpy)");
}

#[test]
fn hashes_are_no_part_of_a_function() {
    assert_eq!(without_hashes(&format!("{POLL}.llvm.123")), "_ZN5tokio7runtime4poll");
    assert_eq!(without_hashes(&format!("unlikely.{POLL}")), "unlikely._ZN5tokio7runtime4poll");
    assert_eq!(without_hashes("_RNvCsab_1aCs"), "_RNvCs*_1aCs");
    assert_eq!(without_hashes("unlikely._RNvCsab_1a"), "unlikely._RNvCs*_1a");
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
