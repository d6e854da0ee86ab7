use super::Output;
use crate::effect::Level;

fn lines(output: &mut Output) -> Vec<String> {
    std::iter::from_fn(|| output.next_line()).map(|(_, line)| line).collect()
}

#[test]
fn a_line_ends_at_a_line_feed_however_it_was_written() {
    let mut output = Output::default();
    output.write(Level::Info, b"one\ntw", 100);
    assert_eq!(lines(&mut output), ["one"]);
    output.write(Level::Info, b"o\r\n\nthree", 100);
    assert_eq!(lines(&mut output), ["two"]);
    output.end();
    assert_eq!(lines(&mut output), ["three"]);
    assert_eq!(lines(&mut output), [""; 0]);
}

#[test]
fn a_line_without_a_line_feed_is_truncated() {
    let mut output = Output::default();
    output.write(Level::Info, "x".repeat(25).as_bytes(), 10);
    output.end();
    assert_eq!(lines(&mut output).iter().map(String::len).collect::<Vec<_>>(), [10, 10, 5]);
}

#[test]
fn the_two_streams_do_not_mix() {
    let mut output = Output::default();
    output.write(Level::Info, b"o", 100);
    output.write(Level::Warn, b"e\n", 100);
    output.write(Level::Info, b"ut\n", 100);
    assert_eq!(output.next_line(), Some((Level::Warn, "e".to_owned())));
    assert_eq!(output.next_line(), Some((Level::Info, "out".to_owned())));
}

#[test]
fn the_last_lines_of_standard_error_are_kept_even_if_they_were_logged() {
    let mut output = Output::default();
    output.write(Level::Info, b"chatter\n", 100);
    for number in 0..20 {
        output.write(Level::Warn, format!("line {number}\n").as_bytes(), 100);
    }
    lines(&mut output);
    output.write(Level::Warn, b"end", 100);
    let words = output.last_words();
    assert!(words.ends_with("line 19\nend") && !words.contains("chatter") && !words.contains("line 3\n"), "{words}");
}
