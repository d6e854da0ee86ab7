use axum::http::{HeaderMap, header};

use super::{CHARS_MAX, ITEM_CHARS_MAX, WARNINGS_MAX, WarningRecorder, write};

fn written(warnings: Vec<String>) -> Vec<String> {
    let mut headers = HeaderMap::new();
    write(&mut headers, warnings);
    headers.get_all(header::WARNING).iter().map(|value| value.to_str().unwrap().to_owned()).collect()
}

#[test]
fn each_warning_is_written_once_and_quoted() {
    let warnings = [r#"a "b""#, r"c\d", r#"a "b""#, "e\nf"].map(str::to_owned).to_vec();
    assert_eq!(written(warnings), [r#"299 - "a \"b\"""#, r#"299 - "c\\d""#], "a line break fits in no header");
}

#[test]
fn too_many_characters_cut_each_warning_and_leave_out_the_last_ones() {
    let warning = |number: usize| format!("{number:04}{}", "x".repeat(ITEM_CHARS_MAX));
    let found = written((0..100).map(warning).collect());
    assert_eq!(found.len(), CHARS_MAX / ITEM_CHARS_MAX);
    assert!(found.iter().all(|warning| warning.len() == ITEM_CHARS_MAX + 8), "{found:?}");
    let whole = written((0..10).map(warning).collect());
    assert!(whole.iter().all(|warning| warning.len() == ITEM_CHARS_MAX + 12), "they have room: {whole:?}");
}

#[test]
fn a_recorder_keeps_a_bounded_number_in_their_order() {
    let recorder = WarningRecorder::default();
    recorder.add(["first".to_owned()]);
    recorder.add((0..10_000).map(|number| number.to_string()));
    recorder.add(["last".to_owned()]);
    let taken = recorder.take();
    assert_eq!((taken.len(), taken[0].as_str(), taken[1].as_str()), (WARNINGS_MAX, "first", "0"));
    assert!(recorder.take().is_empty());
}
