use proptest::prelude::*;
use serde_json::json;

use super::*;

fn read(text: &str) -> Value {
    serde_saphyr::from_str(text).unwrap_or_else(|error| panic!("{text:?} is no YAML: {error}"))
}

#[test]
fn hidden_characters_are_escaped_everywhere_and_read_back() {
    for c in ['\u{9b}', '\u{202e}', '\u{2066}', '\u{200b}', '\u{2028}', '\u{e0041}', '\u{feff}', '\u{7f}', '\u{ffff}'] {
        let text = format!("a{c}b");
        let document = json!({ "value": text, "lines": format!("x\n{c}\ny\n"), (text.clone()): [text], "like": "\\uFFFF0000202E" });
        let written = write(&document).unwrap();
        assert_eq!(homeostat_text::lines(&written), written, "{c:?} passes");
        assert_eq!(read(&written), document, "{written}");
    }
}

#[test]
fn a_text_that_looks_like_an_escape_stays_what_it_is() {
    for text in ["\\uFFFF0000202E", "\\\\uFFFF0000202E", "C:\\uFFFF"] {
        let document = json!({ "a": text });
        assert_eq!(read(&write(&document).unwrap()), document);
    }
}

proptest! {
    #[test]
    fn any_text_reads_back_as_it_was(text in any::<String>(), name in any::<String>()) {
        let document = json!({ (name): text });
        let written = write(&document).unwrap();
        prop_assert_eq!(read(&written), document);
        prop_assert_eq!(homeostat_text::lines(&written).into_owned(), written);
    }
}
