use super::*;

/// One hidden character of each kind: C0, DEL, C1, bidirectional, zero-width, separators, tags, fillers.
const HIDDEN: [char; 16] = [
    '\u{0}',
    '\u{1b}',
    '\u{7f}',
    '\u{85}',
    '\u{9b}',
    '\u{202e}',
    '\u{2066}',
    '\u{2069}',
    '\u{200b}',
    '\u{200f}',
    '\u{2028}',
    '\u{2029}',
    '\u{feff}',
    '\u{ad}',
    '\u{e0041}',
    '\u{3164}',
];

#[test]
fn no_hidden_character_reaches_a_line_a_page_or_a_scalar() {
    for c in HIDDEN {
        let text = format!("a{c}b");
        for shown in [line(&text), lines(&text), block(&text), scalar(&text), json(&text), quoted(&text).into()] {
            assert!(!shown.contains(is_hidden), "{c:?} passes in {shown:?}");
            assert!(
                shown.contains(&format!("{:x}", u32::from(c))) || shown.contains("\\udb40"),
                "{c:?} is lost in {shown:?}"
            );
        }
    }
}

#[test]
fn ordinary_text_of_any_script_stays_as_it_is() {
    for text in ["web-1", "Größe: 5 µs", "日本語", "שלום", "😀", "a\\b \"c\" {d}"] {
        assert_eq!(line(text), text);
        assert_eq!(block(text), text);
        assert_eq!(json(text), text);
    }
}

#[test]
fn a_line_has_no_line_feed_and_a_block_begins_no_line_at_the_edge() {
    assert_eq!(line("a\nb\tc\r\n"), "a\\nb\\tc\\r\\n");
    assert_eq!(block("a\nwarning: b\n\nc"), "a\n  warning: b\n  \n  c");
    assert_eq!(lines("a\nb\u{9b}"), "a\nb\\u{9b}");
}

#[test]
fn a_word_is_a_plain_scalar_and_everything_else_is_quoted() {
    for word in ["Pod", "apps/Deployment", "a.b-c_d", "update-status"] {
        assert_eq!(scalar(word), word);
    }
    for text in ["", "*", "no", "True", "1", "a b", "a,b", "a]", "#a", "a: b", "-a", "\"*\"], verbs: [\"*\"]} #"] {
        assert_eq!(scalar(text), quoted(text));
    }
    assert_eq!(quoted("a\"\\\n\u{202e}\u{e0041}"), r#""a\"\\\n\u202e\U000e0041""#);
}

#[test]
fn json_means_the_same_with_its_hidden_characters_escaped() {
    assert_eq!(json("{\n  \"a\": \"\u{9b}\u{e0041}\"\n}"), "{\n  \"a\": \"\\u009b\\udb40\\udc41\"\n}");
}
