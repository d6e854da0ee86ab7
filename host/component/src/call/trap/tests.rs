use super::compose;

const PANIC: &str = "error while executing at wasm backtrace:
    0:   0x2db51 - guest.wasm!abort
    1:   0x2db51 - guest.wasm!std[d123b7a1]::sys::abort_internal
    2:   0x2db51 - guest.wasm!__rustc[ab]::rust_panic
    3:   0x1db51 - guest.wasm!guest::allocate::hf4df9924483cfdc0
    4:   0x1db52 - guest.wasm!homeostat:reconciler/reconciler@0.1.0#reconcile";

#[test]
fn a_panic_shows_its_message_and_the_frames_of_the_guest() {
    let words =
        "thread panicked at src/lib.rs:5:1:\non purpose\nnote: run with `RUST_BACKTRACE=1` environment variable";
    let message = compose("unreachable executed", words, PANIC);
    assert_eq!(
        message,
        "thread panicked at src/lib.rs:5:1:\non purpose\n  at guest::allocate\n  \
         at homeostat:reconciler/reconciler@0.1.0#reconcile"
    );
}

#[test]
fn the_last_lines_of_stderr_follow_the_message_of_a_trap() {
    assert_eq!(compose("integer divide by zero", "about to divide", ""), "integer divide by zero\nabout to divide");
}

#[test]
fn repeated_stack_frames_are_shown_once_with_an_explanation() {
    let frames: String = (0..8).map(|at| format!("\n  {at}: 0x1 - g.wasm!guest::recurse")).collect();
    let message = compose("out of bounds memory access", "", &format!("error while executing:{frames}"));
    assert_eq!(message, "out of bounds memory access (endless recursion?)\n  at guest::recurse");
}

#[test]
fn the_message_of_a_trap_is_bounded() {
    assert!(compose(&"x".repeat(10_000), "", "").len() <= 4096);
}
