use anyhow::Context as _;

use super::*;

fn refusal(code: u16) -> anyhow::Error {
    ApiError { code, reason: String::new(), message: "no".into() }.into()
}

#[test]
fn every_exit_reason_has_its_code() {
    let cases = [
        (failed("x"), ExitReason::Failed),
        (usage("x"), ExitReason::Usage),
        (refused("x"), ExitReason::Refused),
        (internal("x"), ExitReason::Internal),
        (anyhow::anyhow!("x"), ExitReason::Failed),
        (refusal(404), ExitReason::Failed),
        (refusal(401), ExitReason::Refused),
        (refusal(403), ExitReason::Refused),
        (refusal(503), ExitReason::Unavailable),
        (refusal(500), ExitReason::Internal),
    ];
    for (error, code) in cases {
        assert_eq!(reason_of(&error), code, "{error}");
    }
}

#[test]
fn the_exit_reason_survives_added_context() {
    assert_eq!(reason_of(&Err::<(), _>(refusal(503)).context("while applying").unwrap_err()), ExitReason::Unavailable);
}

#[test]
fn failures_with_one_reason_keep_its_code() {
    for (codes, wanted) in [
        (&[][..], ExitCode::SUCCESS),
        (&[ExitReason::Unavailable; 2], ExitCode::from(69)),
        (&[ExitReason::Unavailable, ExitReason::Refused], ExitCode::from(1)),
        (&[ExitReason::Failed, ExitReason::Unavailable, ExitReason::Unavailable], ExitCode::from(1)),
    ] {
        let mut failures = Failures::default();
        codes.iter().for_each(|code| failures.record(*code));
        assert_eq!((failures.is_empty(), ExitCode::from(failures)), (codes.is_empty(), wanted), "{codes:?}");
    }
}

#[test]
fn a_closed_output_pipe_is_not_an_error() {
    assert!(is_broken_pipe(&io::Error::from(io::ErrorKind::BrokenPipe).into()));
    assert!(!is_broken_pipe(&io::Error::from(io::ErrorKind::NotFound).into()));
}
