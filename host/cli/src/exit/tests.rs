use anyhow::Context as _;

use super::*;

fn refusal(code: u16) -> anyhow::Error {
    Refusal { code, reason: String::new(), message: "no".into() }.into()
}

#[test]
fn every_way_to_end_has_its_code() {
    let cases = [
        (failed("x"), Code::Failed),
        (usage("x"), Code::Usage),
        (refused("x"), Code::Refused),
        (internal("x"), Code::Internal),
        (anyhow::anyhow!("x"), Code::Failed),
        (refusal(404), Code::Failed),
        (refusal(401), Code::Refused),
        (refusal(403), Code::Refused),
        (refusal(503), Code::Unavailable),
        (refusal(500), Code::Internal),
    ];
    for (error, code) in cases {
        assert_eq!(code_of(&error), code, "{error}");
    }
}

#[test]
fn the_code_survives_what_is_said_around_an_error() {
    assert_eq!(code_of(&Err::<(), _>(refusal(503)).context("while applying").unwrap_err()), Code::Unavailable);
}

#[test]
fn a_reader_that_went_away_is_no_error() {
    assert!(is_broken_pipe(&io::Error::from(io::ErrorKind::BrokenPipe).into()));
    assert!(!is_broken_pipe(&io::Error::from(io::ErrorKind::NotFound).into()));
}
