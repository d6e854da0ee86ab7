//! Tests of traces.

use super::*;

#[test]
fn functions_are_named_before_their_code() {
    let run = parse_trace("IN: _ZN1a17h0E\n0x00007f00:  push %rbp\n\nIN: \n0x1:  ret\n\nIN: _ZN1a17h0E\n0x2:  ret\n");
    assert_eq!(run, ["_ZN1a17h0E".to_owned()].into());
}
