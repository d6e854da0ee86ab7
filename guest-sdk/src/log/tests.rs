use std::fmt::Display;

use super::Level;

/// Replaces the host: formats a line as text.
fn line(level: Level, message: &str, fields: &[(&str, &dyn Display)]) -> String {
    let fields: String = fields.iter().map(|(name, value)| format!(" {name}={value}")).collect();
    assert!(matches!(level, Level::Info));
    format!("{message}{fields}")
}

macro_rules! line {
    ($($line:tt)+) => { crate::__log!(line, Info; $($line)+) };
}

#[test]
fn a_line_takes_values_for_its_braces() {
    let (ready, wanted) = (2, 3);
    assert_eq!(line!("{} of {}", ready, wanted), "2 of 3");
    assert_eq!(line!("{} of {}", ready + 1, [wanted].len(),), "3 of 1");
    assert_eq!(line!("{:?} {:>3}", Some("a"), if ready == 2 { 1 } else { 0 }), "Some(\"a\")   1");
    assert_eq!(line!("{}", ready == 2), "true", "a comparison is a value and no field");
}

#[test]
fn a_line_takes_variables_in_its_braces() {
    let (ready, wanted) = (2, 3);
    assert_eq!(line!("{ready} of {wanted:02}"), "2 of 03");
    assert_eq!(line!("{ready} of {}, {{}}", wanted,), "2 of 3, {}");
}

#[test]
fn fields_stand_behind_the_text_and_its_values() {
    let (ready, url) = (2, String::from("https://example.com"));
    assert_eq!(line!("plain"), "plain");
    assert_eq!(line!("plain", code = 200, url = url), "plain code=200 url=https://example.com");
    assert_eq!(line!("{} at {url}", ready, step = "up", ready = ready,), "2 at https://example.com step=up ready=2");
    assert_eq!(url.len(), 19, "a field borrows its value");
}

#[test]
fn fields_may_stand_before_the_text() {
    let (ready, url) = (2, String::from("https://example.com"));
    assert_eq!(line!(count = 3, "message {ready}"), "message 2 count=3");
    assert_eq!(line!(count = ready + 1, url = url, "{} of {}", ready, 4,), "2 of 4 count=3 url=https://example.com");
}

/// Never called: it checks that the macros compile at every level.
#[test]
fn every_level_takes_values_and_fields() {
    let _ = || {
        crate::trace!("{} of {}", 1, 2);
        crate::debug!("{} of {}", 1, 2, more = 3);
        crate::info!("{} of {}", 1, 2,);
        crate::warn!("text", more = 3);
        crate::error!("text {}", 1);
    };
}
