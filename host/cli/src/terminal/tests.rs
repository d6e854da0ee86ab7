use std::fs::File;

use rustix::termios::{Winsize, tcsetwinsize};

use super::*;

fn rows(count: usize) -> Vec<String> {
    (0..count).map(|row| format!("row {row}")).collect()
}

#[test]
fn a_table_that_fits_is_shown_whole_with_the_status_below() {
    let size = Size { rows: 10, columns: 40 };
    assert_eq!(fit(&rows(3), "", size), ["row 0", "row 1", "row 2"]);
    assert_eq!(fit(&rows(2), "building", size), ["row 0", "row 1", "building"]);
}

#[test]
fn a_table_that_is_too_high_ends_with_the_number_of_hidden_rows() {
    let size = Size { rows: 6, columns: 40 };
    assert_eq!(fit(&rows(9), "", size), ["row 0", "row 1", "row 2", "… and 6 more rows"]);
    assert_eq!(fit(&rows(9), "busy", size).len(), 4);
}

#[test]
fn a_row_never_wraps() {
    let size = Size { rows: 10, columns: 8 };
    let fitted = fit(&["1234567".into(), "12345678".into(), "äöüäöüäöü".into()], "", size);
    assert_eq!(fitted, ["1234567", "123456…", "äöüäöü…"]);
}

#[test]
fn a_row_of_wide_characters_never_wraps() {
    let size = Size { rows: 10, columns: 8 };
    let fitted = fit(&["控制器".into(), "控制器器".into(), "a控制器".into(), "e\u{301}".repeat(7)], "", size);
    assert_eq!(fitted, ["控制器", "控制器…", "a控制器", &"e\u{301}".repeat(7)]);
    let narrow = fit(&["a控制器器".into()], "", size);
    assert_eq!(narrow, ["a控制…"], "half of a wide character is not shown");
}

#[test]
fn control_characters_in_tables_and_status_are_escaped() {
    let screen = Screen::new(Style::Lines);
    screen.table(vec!["a\u{1b}[2Jb\nc\u{202e}".to_owned()]);
    screen.status("d\u{9b}e");
    let inner = screen.lock();
    assert_eq!(inner.table, ["a\\u{1b}[2Jb\\nc\\u{202e}"]);
    assert_eq!(inner.status, "d\\u{9b}e");
}

#[test]
fn the_size_is_that_of_the_terminal_and_unknown_without_one() {
    let terminal = File::options().read(true).write(true).open("/dev/ptmx").unwrap();
    assert_eq!(Size::query(&terminal), None, "a new pseudo-terminal has 0 rows and columns");
    let size = Winsize { ws_row: 50, ws_col: 132, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&terminal, size).unwrap();
    assert_eq!(Size::query(&terminal), Some(Size { rows: 50, columns: 132 }));
    assert_eq!(Size::query(File::open("/dev/null").unwrap()), None);
}
