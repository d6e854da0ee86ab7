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
fn failures_have_the_code_that_all_of_them_have() {
    for (codes, wanted) in [
        (&[][..], ExitCode::SUCCESS),
        (&[Code::Unavailable; 2], ExitCode::from(69)),
        (&[Code::Unavailable, Code::Refused], ExitCode::from(1)),
        (&[Code::Failed, Code::Unavailable, Code::Unavailable], ExitCode::from(1)),
    ] {
        let mut failures = Failures::default();
        codes.iter().for_each(|code| failures.note(*code));
        assert_eq!((failures.is_empty(), ExitCode::from(failures)), (codes.is_empty(), wanted), "{codes:?}");
    }
}

#[test]
fn a_reader_that_went_away_is_no_error() {
    assert!(is_broken_pipe(&io::Error::from(io::ErrorKind::BrokenPipe).into()));
    assert!(!is_broken_pipe(&io::Error::from(io::ErrorKind::NotFound).into()));
}
