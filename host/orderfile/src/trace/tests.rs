//! Tests of traces.

use super::*;

const TRACE: &str =
    "IN: \n0x0100:  ret\n\nIN: main\n0x4f10:  push %rbp\n0x4f11:  ret\n\nIN: _ZN1a17h0E\n0x5000:  ret\n";

#[test]
fn addresses_are_those_of_the_program_on_disk() {
    assert_eq!(parse_trace(TRACE, 0xf10), Some([0xf10, 0x1000].into()));
}

#[test]
fn a_program_that_does_not_come_to_main_has_no_trace() {
    assert_eq!(parse_trace("IN: \n0x0100:  ret\n", 0xf10), None);
}
